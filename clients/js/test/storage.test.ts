/** What the page keeps in the browser: for the tab or for all, and what happens where there is no room or no leave. */

import { afterEach, describe, expect, test, vi } from "vitest";
import { browser, tab } from "../demo/storage.ts";
import { unsentStorage } from "../demo/unsent_storage.ts";
import type { UnsentCommand } from "../src/index.ts";

afterEach(() => vi.unstubAllGlobals());

/** A Storage with room for so many characters. */
function roomFor(characters: number): Storage {
  const held = new Map<string, string>();
  return {
    getItem: (key: string) => held.get(key) ?? null,
    removeItem: (key: string) => void held.delete(key),
    setItem(key: string, value: string) {
      if (value.length > characters) throw new DOMException("no room", "QuotaExceededError");
      held.set(key, value);
    },
  } as Storage;
}

describe.each([
  ["the tab", tab, "sessionStorage"],
  ["the browser", browser, "localStorage"],
])("kept for %s", (_, keeper, name) => {
  test("a value is there until it is removed", () => {
    vi.stubGlobal(name, roomFor(100));
    expect(keeper.get("key")).toBeUndefined();
    expect(keeper.set("key", "value")).toBe(true);
    expect(keeper.get("key")).toBe("value");
    expect(keeper.set("key", undefined)).toBe(true);
    expect(keeper.get("key")).toBeUndefined();
  });

  test("where there is no room for the new value the old one is gone as well", () => {
    vi.stubGlobal(name, roomFor(5));
    keeper.set("key", "short");
    expect(keeper.set("key", "too long")).toBe(false);
    expect(keeper.get("key")).toBeUndefined();
  });

  test("a browser that forbids it is no fault, anything else is", () => {
    let fault: Error = new DOMException("forbidden", "SecurityError");
    const get = (): never => {
      throw fault;
    };
    Object.defineProperty(globalThis, name, { get, configurable: true });
    expect(keeper.get("key")).toBeUndefined();
    expect(keeper.set("key", "value")).toBe(false);
    expect(keeper.set("key", undefined)).toBe(true);
    fault = new TypeError("a fault");
    expect(() => keeper.get("key")).toThrow("a fault");
    Reflect.deleteProperty(globalThis, name);
  });
});

test("S9 a command that was discarded is not sent after a reload, also where its neighbours find no room", () => {
  const command = { client_request_id: "c1", op: "prompt", body: { text: "x".repeat(300) } } as UnsentCommand;
  vi.stubGlobal("sessionStorage", roomFor(500));
  unsentStorage.save([command]);
  expect(unsentStorage.load()).toEqual([command]);
  unsentStorage.save([{ ...command, client_request_id: "c2" }, command]);
  expect(unsentStorage.load()).toEqual([]);
  unsentStorage.save([command]);
  unsentStorage.save([]);
  expect(unsentStorage.load()).toEqual([]);
});
