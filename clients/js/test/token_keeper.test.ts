/** When the page asks its user for the next token, and where it keeps the one it has (R6, X2). */

import { beforeEach, expect, test, vi } from "vitest";
import { TokenKeeper } from "../demo/token.ts";

const MINUTE = 60_000;

function memory(): Storage {
  const held = new Map<string, string>();
  return {
    getItem: (key: string) => held.get(key) ?? null,
    removeItem: (key: string) => void held.delete(key),
    setItem: (key: string, value: string) => void held.set(key, value),
  } as Storage;
}

const jwt = (lifetime_ms: number): string =>
  `e30.${Buffer.from(JSON.stringify({ exp: (Date.now() + lifetime_ms) / 1000 })).toString("base64url")}.x`;

let connected: boolean;
let page: EventTarget;
const given = vi.fn();
const reload = vi.fn();

beforeEach(() => {
  connected = true;
  page = new EventTarget();
  vi.resetAllMocks();
  vi.stubGlobal("sessionStorage", memory());
  vi.stubGlobal("localStorage", memory());
  vi.stubGlobal("addEventListener", page.addEventListener.bind(page));
  vi.stubGlobal("location", { reload });
});

const keeper = (): TokenKeeper => new TokenKeeper(() => connected, given);

test.each([
  ["an hour", 60 * MINUTE],
  ["a year", 365 * 24 * 60 * MINUTE],
])("R6 nobody is asked while the token is good for %s", (_, left) => {
  const tokens = keeper();
  tokens.give(jwt(left), false);
  expect(tokens.getToken({ refresh: true })).toBe(tokens.token);
  expect(tokens.getSnapshot()).toBe(false);
});

test.each([
  ["expires in two minutes", jwt(2 * MINUTE)],
  ["does not say when it expires", "opaque"],
])("R6 the user is asked when the token %s, and the connection waits for the answer", async (_, old) => {
  const tokens = keeper();
  const changed = vi.fn();
  tokens.subscribe(changed);
  tokens.give(old, false);
  const next = tokens.getToken({ refresh: true });
  expect(tokens.getSnapshot()).toBe(true);
  expect(changed).toHaveBeenCalled();
  tokens.give("new", false);
  expect(await next).toBe("new");
  expect(tokens.getSnapshot()).toBe(false);
  expect(tokens.token).toBe("new");
});

test("R6 a connection that comes back with the old token takes the question back until it is due again", () => {
  const tokens = keeper();
  tokens.give(jwt(2 * MINUTE), false);
  void tokens.getToken({ refresh: true });
  connected = false;
  expect(tokens.getToken({ refresh: false })).toBe(tokens.token);
  expect(tokens.getSnapshot()).toBe(false);
});

test("R6 a token that was refused is tried once more as it is, and then the user is asked by the page", () => {
  const tokens = keeper();
  tokens.give("refused", false);
  connected = false;
  expect(tokens.getToken({ refresh: true })).toBe("refused");
  expect(tokens.getSnapshot()).toBe(false);
});

test("X2 it is kept for the tab, or on request for the browser, never in both places", () => {
  const tokens = keeper();
  tokens.give("one", false);
  expect([sessionStorage, localStorage].map((store) => store.getItem("turnwire.token"))).toEqual([
    "one",
    null,
  ]);
  tokens.give("two", true);
  expect([sessionStorage, localStorage].map((store) => store.getItem("turnwire.token"))).toEqual([
    null,
    "two",
  ]);
  tokens.forget();
  expect(tokens.token).toBeUndefined();
});

test("X2 what another tab was given, or gave back, counts here as well", () => {
  keeper();
  page.dispatchEvent(Object.assign(new Event("storage"), { key: "turnwire.token", newValue: "theirs" }));
  expect(given).toHaveBeenCalledTimes(1);
  page.dispatchEvent(Object.assign(new Event("storage"), { key: "turnwire.seen", newValue: null }));
  expect(reload).not.toHaveBeenCalled();
  page.dispatchEvent(Object.assign(new Event("storage"), { key: "turnwire.token", newValue: null }));
  expect(reload).toHaveBeenCalledTimes(1);
});
