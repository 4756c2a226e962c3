/** Tokens that expire are renewed in place, before anybody notices (R6, X3). */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Client, createClient, type ExpiringToken, type TokenRequest } from "../src/index.ts";
import { getToken, MAX_RENEW_MS, MIN_RENEW_MS } from "../src/token.ts";
import { RequestRefused } from "./support/fake_server.ts";
import { Wire } from "./support/wire.ts";

const NOW = 2_000_000_000_000;
const MINUTE = 60_000;

const jwt = (claims: object): string => {
  const encode = (part: object): string => Buffer.from(JSON.stringify(part)).toString("base64url");
  return `${encode({ alg: "none" })}.${encode(claims)}.x`;
};

describe("when a token is renewed", () => {
  const renewal = async (given: string | ExpiringToken | null | undefined): Promise<number | undefined> =>
    (await getToken(() => given, false, NOW)).renew_in_ms;

  test.each([
    ["no token", undefined, undefined],
    ["no token, as a Storage says it", null, undefined],
    ["one that says nothing", "opaque", undefined],
    ["one with dots that is no JWT", "a.b.c", undefined],
    ["a JWT without exp", jwt({ sub: "me" }), undefined],
    ["a JWT of ten minutes", jwt({ exp: (NOW + 10 * MINUTE) / 1000 }), 8 * MINUTE],
    [
      "a JWT with characters beyond ASCII",
      jwt({ exp: (NOW + 10 * MINUTE) / 1000, name: "Zoë ÿ≥?" }),
      8 * MINUTE,
    ],
    ["expires_at", { token: "opaque", expires_at: NOW + 10 * MINUTE }, 8 * MINUTE],
    [
      "expires_at before what the JWT says",
      { token: jwt({ exp: 1 }), expires_at: NOW + 10 * MINUTE },
      8 * MINUTE,
    ],
    ["a JWT where expires_at is left out", { token: jwt({ exp: (NOW + 10 * MINUTE) / 1000 }) }, 8 * MINUTE],
    ["one that lives for seconds", { token: "t", expires_at: NOW + 2_000 }, MIN_RENEW_MS],
    ["one that lives for a year", { token: "t", expires_at: NOW + 365 * 24 * 60 * MINUTE }, MAX_RENEW_MS],
    ["one that is past its time by this clock", { token: "t", expires_at: NOW - 1 }, undefined],
  ])("R6 %s", async (_, given, expected) => {
    expect(await renewal(given)).toBe(expected);
  });

  test("R6 whatever a token is, asking about it does not fail", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.array(fc.base64String()).map((all) => all.join(".")),
        ),
        async (token) => {
          expect((await getToken(() => token, false, NOW)).token).toBe(token);
        },
      ),
    );
  });
});

interface Setup {
  readonly wire: Wire;
  readonly client: Client;
  readonly asked: TokenRequest[];
}

/** A client whose tokens live ten minutes, at a server that is alive. */
async function setup(give: (request: TokenRequest) => string | Promise<string>): Promise<Setup> {
  const wire = new Wire();
  const asked: TokenRequest[] = [];
  const client = wire.client({
    getToken: async (request) => {
      asked.push(request);
      const token = await give(request);
      return { token, expires_at: wire.clock.date() + 10 * MINUTE };
    },
  });
  const tick = (): void => {
    for (const connection of wire.server.connections) connection.send({ op: "tick" });
    wire.clock.setTimeout(tick, 1_000);
  };
  tick();
  client.connect();
  await wire.clock.advance(100);
  return { wire, client, asked };
}

const statusOf = ({ client }: Setup): string => client.getSnapshot().connection.status;

test("X3 a token is renewed on the connection that stands", async () => {
  let number = 0;
  const all = await setup(() => `token ${(number += 1)}`);
  await all.wire.clock.advance(30 * MINUTE);
  expect(all.asked.map(({ refresh }) => refresh)).toEqual([false, true, true, true]);
  expect(all.wire.server.asked("hello").map((hello) => hello["token"])).toEqual([
    "token 1",
    "token 2",
    "token 3",
    "token 4",
  ]);
  expect(all.wire.sockets).toHaveLength(1);
  expect(statusOf(all)).toBe("connected");
});

test("X3 a token that cannot be had now is asked for again, and the connection stands", async () => {
  let isBroken = false;
  const all = await setup(() => (isBroken ? Promise.reject(new Error("no network")) : "good"));
  isBroken = true;
  await all.wire.clock.advance(9 * MINUTE);
  expect(all.asked.length).toBeGreaterThan(5);
  isBroken = false;
  await all.wire.clock.advance(MIN_RENEW_MS);
  expect(all.wire.server.asked("hello")).toHaveLength(2);
  expect(all.wire.sockets).toHaveLength(1);
});

test("X3 a server that takes no second hello keeps its connection", async () => {
  const all = await setup(() => "good");
  all.wire.server.intercept = ({ op }) => {
    if (op === "hello") throw new RequestRefused("invalid_argument");
  };
  await all.wire.clock.advance(9 * MINUTE);
  expect(statusOf(all)).toBe("connected");
  expect(all.wire.sockets).toHaveLength(1);
});

test("R6 a renewed token that is refused ends it after one more try", async () => {
  let token = "right";
  const all = await setup(() => token);
  all.wire.server.token = "right";
  token = "wrong";
  await all.wire.clock.advance(60 * MINUTE);
  expect(all.client.getSnapshot().connection).toMatchObject({ status: "closed", code: 4401 });
  expect(all.wire.sockets).toHaveLength(2);
});

test("R10 nothing is renewed after disconnect, nor while a token is awaited", async () => {
  let give: (token: string) => void = () => {};
  const all = await setup(({ refresh }) => (refresh ? new Promise((resolve) => (give = resolve)) : "first"));
  await all.wire.clock.advance(8 * MINUTE);
  expect(all.asked).toHaveLength(2);
  all.client.disconnect();
  give("second");
  await all.wire.clock.advance(60 * MINUTE);
  expect(all.wire.server.asked("hello")).toHaveLength(1);
  expect(statusOf(all)).toBe("closed");
});

test("a client without a WebSocket says so at once", () => {
  expect(() => createClient({ url: "ws://127.0.0.1:1/ws", WebSocket: undefined as never })).toThrow(
    /WebSocket/,
  );
});
