import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  backoff,
  MAX_DELAY_MS,
  MIN_DELAY_MS,
  ReconnectPolicy,
  type Retry,
  retryOf,
  STABLE_MS,
} from "../src/reconnect.ts";

const CODES = new URL("../../../protocol/vectors/codes.json", import.meta.url);

const most = (): number => 0.999_999;

describe("close codes", () => {
  const table: [string, "retry" | "refresh_token" | "stop", number[]][] = [
    [
      "W8 come back after these",
      "retry",
      [1000, 1001, 1005, 1006, 1011, 1012, 1013, 4408, 4429, 3000, 4000, 4399, 4500],
    ],
    ["R6 a new token once after this", "refresh_token", [4401]],
    ["W8 stay away after these", "stop", [1003, 1007, 1009, 4400, 4403, 4404, 4499]],
  ];
  test.each(table)("%s: %s", (_, retry, codes) => {
    for (const code of codes) expect(retryOf(code), String(code)).toBe(retry);
  });
});

test("W8 every close code of the shared table means the same here", () => {
  const { closes } = JSON.parse(readFileSync(CODES, "utf8")) as { closes: { code: number; retry: Retry }[] };
  expect(closes.length).toBeGreaterThan(0);
  for (const { code, retry } of closes) expect(retryOf(code), String(code)).toBe(retry);
});

describe("delays", () => {
  test("R5 every delay is spread between the bounds, the first one too", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (attempt, at) => {
          const delay = backoff(attempt, () => at);
          expect(delay).toBeGreaterThanOrEqual(MIN_DELAY_MS);
          expect(delay).toBeLessThanOrEqual(MAX_DELAY_MS);
        },
      ),
    );
    expect(backoff(1, most) - backoff(1, () => 0)).toBeGreaterThan(MIN_DELAY_MS / 2);
  });

  test("R3 the bound grows with each failure and starts anew after a stable connection", () => {
    const policy = new ReconnectPolicy(most);
    const bounds = [1, 2, 3, 4, 5, 6, 7].map(() => policy.lost(1006, 0));
    expect(bounds.map((ms = NaN) => Math.ceil(ms / 1000))).toEqual([1, 2, 4, 8, 16, 20, 20]);
    policy.connected(0);
    expect(policy.lost(1006, STABLE_MS - 1)).toBeGreaterThan(MAX_DELAY_MS - 100);
    policy.connected(0);
    expect(policy.lost(1006, STABLE_MS)).toBeLessThan(2 * MIN_DELAY_MS);
  });

  test("W8 the server's hint wins, once", () => {
    const policy = new ReconnectPolicy(() => 0);
    policy.hint(7_000);
    expect(policy.lost(1012, 0)).toBe(7_000);
    expect(policy.lost(1006, 0)).toBe(MIN_DELAY_MS);
  });
});

test("R6 a token is refreshed once, and again only after a stable connection", () => {
  const policy = new ReconnectPolicy(() => 0);
  expect(policy.lost(4401, 0)).toBe(0);
  expect(policy.refreshToken).toBe(true);
  expect(policy.lost(1006, 0)).toBe(MIN_DELAY_MS);
  expect(policy.refreshToken).toBe(true);
  policy.connected(0);
  expect(policy.refreshToken).toBe(false);
  expect(policy.lost(4401, 10)).toBeUndefined();
  policy.connected(0);
  expect(policy.lost(4401, STABLE_MS)).toBe(0);
  expect(policy.refreshToken).toBe(true);
});
