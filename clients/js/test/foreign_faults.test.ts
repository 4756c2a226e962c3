/** What code of others throws into the client harms the one thing that it was asked for, and is told. */

import { describe, expect, test } from "vitest";
import type {
  Client,
  CommandStorage,
  SocketConstructor,
  TurnwireError,
  UnsentCommand,
} from "../src/index.ts";
import { MAX_DELAY_MS, MIN_DELAY_MS } from "../src/reconnect.ts";
import { PairSocket, Wire } from "./support/wire.ts";

const connectionOf = (client: Client) => client.getSnapshot().connection;

describe("S9 a storage that throws", () => {
  /** As a browser without room: it reads and writes when `isFull` is false. */
  class Shelf implements CommandStorage {
    isFull = false;
    kept: readonly UnsentCommand[] = [];

    load(): readonly UnsentCommand[] {
      if (this.isFull) throw new DOMException("no leave", "SecurityError");
      return this.kept;
    }

    save(commands: readonly UnsentCommand[]): void {
      if (this.isFull) throw new DOMException("no room", "QuotaExceededError");
      this.kept = commands;
    }
  }

  test("a command is sent all the same, once, and its result is told", async () => {
    const wire = new Wire();
    const errors: TurnwireError[] = [];
    const storage = new Shelf();
    const client = wire.client({ storage, onError: (error) => void errors.push(error) });
    wire.server.create("s1");
    storage.isFull = true;
    const receipt = client.session("s1").prompt("hello");
    const discarded = client.session("s1").prompt("discarded");
    const seen = expect(discarded).rejects.toMatchObject({ code: "discarded" });
    const [first, second] = client.getSnapshot().unsent;
    expect(client.session("s1").discard(second!.client_request_id)).toBe(true);
    expect(client.getSnapshot().unsent).toEqual([first]);
    client.connect();
    await wire.clock.advance(100);
    await seen;
    expect((await receipt).sequence).toBe(1);
    expect(client.getSnapshot().unsent).toEqual([]);
    expect(wire.server.asked("prompt")).toHaveLength(1);
    expect(errors[0]).toMatchObject({ code: "storage", cause: { name: "QuotaExceededError" } });
  });

  test("what is unsent is kept again as soon as there is room", async () => {
    const storage = new Shelf();
    const client = new Wire().client({ storage, onError: () => {} });
    storage.isFull = true;
    void client.session("s1").prompt("one");
    storage.isFull = false;
    void client.session("s1").prompt("two");
    expect(storage.kept).toMatchObject([{ body: { text: "one" } }, { body: { text: "two" } }]);
  });

  test("a client begins without what cannot be read", () => {
    const storage = new Shelf();
    storage.isFull = true;
    const errors: TurnwireError[] = [];
    const client = new Wire().client({ storage, onError: (error) => void errors.push(error) });
    expect(client.getSnapshot().unsent).toEqual([]);
    expect(errors).toMatchObject([{ code: "storage", cause: { name: "SecurityError" } }]);
  });
});

const cyclic: Record<string, unknown> = {};
cyclic["self"] = cyclic;
const UNSENDABLE = [
  ["a BigInt", 1n],
  ["a cycle", cyclic],
  [
    "what throws when it is asked",
    {
      toJSON() {
        throw new TypeError("a fault");
      },
    },
  ],
] as const;

describe.each(UNSENDABLE)("%s, which no frame can hold,", (_, data) => {
  const parts = [{ type: "data", data_type: "x", data: data as never }] as const;

  test("S9 rejects its prompt and holds up none that follows", async () => {
    const wire = new Wire();
    const client = wire.client();
    wire.server.create("s1");
    const session = client.session("s1");
    const seen = expect(session.prompt({ parts })).rejects.toMatchObject({
      code: "unsendable",
      retryable: false,
      cause: { name: "TypeError" },
    });
    const next = session.prompt("next");
    client.connect();
    await wire.clock.advance(100);
    await seen;
    expect((await next).sequence).toBe(1);
    expect(session.getSnapshot().unsent).toEqual([]);
  });

  test("S9 stays to be seen where nobody waits for it any more", async () => {
    const wire = new Wire();
    wire.server.create("s1");
    const command = { client_request_id: "c", op: "prompt", session_id: "s1", body: { parts } };
    const kept = { ...command, state: "waiting", attempts: 0 } as UnsentCommand;
    const client = wire.client({ storage: { load: () => [kept], save: () => {} } });
    client.connect();
    await wire.clock.advance(100);
    expect(client.getSnapshot().unsent).toMatchObject([{ state: "failed", error: { code: "unsendable" } }]);
  });

  test("W3 rejects a request", async () => {
    const wire = new Wire();
    const client = wire.client();
    client.connect();
    await wire.clock.advance(100);
    const asked = client.request("session.get", { session_id: data as never });
    await expect(asked).rejects.toMatchObject({ code: "unsendable" });
  });
});

describe("a WebSocket that cannot be made", () => {
  function throwing(name: string, wire: Wire): [Client, { isBroken: boolean }] {
    const place = { isBroken: true };
    const WebSocket = function () {
      if (place.isBroken) throw new DOMException("cannot be made", name);
      return new PairSocket(wire);
    } as unknown as SocketConstructor;
    return [wire.client({ WebSocket }), place];
  }

  test("W8 is a lost attempt, and another follows", async () => {
    const wire = new Wire();
    const [client, place] = throwing("SecurityError", wire);
    client.connect();
    await wire.clock.advance(1);
    expect(connectionOf(client)).toMatchObject({ status: "reconnecting", code: 1006 });
    expect(connectionOf(client).reason).toContain("cannot be made");
    await wire.clock.advance(2 * MAX_DELAY_MS);
    place.isBroken = false;
    await wire.clock.advance(2 * MAX_DELAY_MS);
    expect(connectionOf(client).status).toBe("connected");
  });

  test("W8 is the end where the address is none: it will not be one later", async () => {
    const wire = new Wire();
    const [client, place] = throwing("SyntaxError", wire);
    client.connect();
    await wire.clock.advance(60 * MIN_DELAY_MS);
    expect(connectionOf(client)).toMatchObject({ status: "closed" });
    expect(connectionOf(client).reason).toContain("cannot be made");
    expect(wire.clock.timers).toBe(0);
    place.isBroken = false;
    client.connect();
    await wire.clock.advance(100);
    expect(connectionOf(client).status).toBe("connected");
  });
});
