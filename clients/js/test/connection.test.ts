/** The connection on virtual time, against FakeServer over sockets that can be cut and left hanging. */

import { describe, expect, test } from "vitest";
import type { Client } from "../src/index.ts";
import { OPEN_TIMEOUT_MS, PROBE_TIMEOUT_MS } from "../src/link.ts";
import { MAX_DELAY_MS, MIN_DELAY_MS } from "../src/reconnect.ts";
import { RequestRefused } from "./support/fake_server.ts";
import { Wire } from "./support/wire.ts";

const statusOf = (client: Client): string => client.getSnapshot().connection.status;

async function connected(
  wire = new Wire(),
  options: Parameters<Wire["client"]>[0] = {},
): Promise<[Wire, Client]> {
  const client = wire.client(options);
  client.connect();
  await wire.clock.advance(100);
  expect(statusOf(client)).toBe("connected");
  return [wire, client];
}

describe("opening", () => {
  test("W3 hello comes first, and requests are answered by id", async () => {
    const [wire, client] = await connected();
    wire.server.create("s1");
    const answers = Promise.all([
      client.request("session.get", { session_id: "s1" }),
      client.request("ping", {}),
    ]);
    await wire.clock.advance(10);
    expect((await answers)[0].session.session_id).toBe("s1");
    expect(wire.server.requests[0]).toMatchObject({ op: "hello", client: "turnwire-js" });
    expect(new Set(wire.server.requests.map((request) => request["id"])).size).toBe(3);
  });

  test("W3 a refused request rejects with the server's words", async () => {
    const [wire, client] = await connected();
    const refused = client.request("session.get", { session_id: "nope" });
    const seen = expect(refused).rejects.toMatchObject({ code: "not_found", retryable: false });
    await wire.clock.advance(10);
    await seen;
  });

  test("W8 a server that never says welcome is given up and tried again", async () => {
    const wire = new Wire();
    wire.server.intercept = () => "drop";
    const client = wire.client();
    client.connect();
    await wire.clock.advance(OPEN_TIMEOUT_MS - 1);
    expect(statusOf(client)).toBe("connecting");
    wire.server.intercept = () => {};
    await wire.clock.advance(2 * MIN_DELAY_MS);
    expect(statusOf(client)).toBe("connected");
  });

  test("Z3 a request above the server's limit is refused here and the connection lives on", async () => {
    const wire = new Wire();
    wire.server.max_request = 300;
    const [, client] = await connected(wire);
    const session = client.session("s1");
    await expect(session.prompt("ä".repeat(200))).rejects.toMatchObject({ code: "too_large" });
    expect(client.getSnapshot().unsent).toEqual([]);
    expect(statusOf(client)).toBe("connected");
  });
});

describe("the state table", () => {
  test("R10 every state leads where it should", async () => {
    const wire = new Wire();
    const client = wire.client();
    const seen: string[] = [];
    const note = (): void => void seen.push(statusOf(client));
    note();
    client.disconnect();
    note(); // nothing to end
    client.connect();
    client.connect();
    note();
    await wire.clock.advance(100);
    note();
    wire.socket.drop(1006);
    note();
    await wire.clock.advance(2 * MIN_DELAY_MS);
    note();
    client.disconnect();
    note();
    client.connect();
    await wire.clock.advance(100);
    note();
    wire.socket.drop(4403, "not yours");
    note();
    expect(seen.join(" ")).toBe(
      "idle idle connecting connected reconnecting connected closed connected closed",
    );
    expect(client.getSnapshot().connection).toEqual({ status: "closed", code: 4403, reason: "not yours" });
    expect(wire.sockets).toHaveLength(3);
    expect(wire.server.connections.size).toBe(0);
  });

  test("R10 disconnect while connecting, and while waiting, leaves nothing behind", async () => {
    const wire = new Wire();
    const client = wire.client();
    client.connect();
    client.disconnect();
    await wire.clock.advance(100);
    wire.reachable = false;
    client.connect();
    await wire.clock.advance(100);
    expect(statusOf(client)).toBe("reconnecting");
    client.disconnect();
    await wire.clock.advance(MAX_DELAY_MS * 2);
    expect(wire.sockets.length).toBeLessThanOrEqual(2);
    expect(wire.clock.timers).toBe(0);
    expect(wire.wakers).toBe(0);
  });

  test("R9 what an old socket still says changes nothing", async () => {
    const [wire, client] = await connected();
    const old = wire.socket;
    const { onclose, onmessage } = old;
    old.drop(1006);
    await wire.clock.advance(2 * MIN_DELAY_MS);
    expect(statusOf(client)).toBe("connected");
    old.fire(onclose, { code: 4403, reason: "late" });
    old.fire(onmessage, { data: "not even JSON" });
    await wire.clock.advance(100);
    expect(statusOf(client)).toBe("connected");
    expect(wire.sockets).toHaveLength(2);
  });
});

describe("liveness", () => {
  test("R1 a black hole is left after three missed ticks", async () => {
    const [wire, client] = await connected();
    wire.socket.hung = true;
    await wire.clock.advance(3 * wire.server.tick_ms - 200);
    expect(statusOf(client)).toBe("connected");
    await wire.clock.advance(200 + 2 * MIN_DELAY_MS);
    expect(statusOf(client)).toBe("connected");
    expect(wire.sockets).toHaveLength(2);
  });

  test("R4 one that falls silent again is given longer: a frame may need more than three ticks", async () => {
    const [wire, client] = await connected();
    const until = async (status: string): Promise<void> => {
      while (statusOf(client) !== status) await wire.clock.advance(100);
    };
    /** How long a silence is borne, in that of three ticks. */
    const borne = async (): Promise<number> => {
      const start = wire.clock.now();
      wire.socket.hung = true;
      await until("reconnecting");
      const silence = wire.clock.now() - start;
      await until("connected");
      return Math.round(silence / (3 * wire.server.tick_ms));
    };
    for (const times of [1, 2, 4, 8, 8]) expect(await borne()).toBe(times);
    // Lost in another way: the network is not slow, it was away.
    wire.socket.drop(1006);
    await until("connected");
    expect(await borne()).toBe(1);
  });

  test("W8 ticks alone keep a connection", async () => {
    const [wire] = await connected();
    for (let minute = 0; minute < 240; minute += 1) {
      await wire.clock.advance(wire.server.tick_ms);
      for (const connection of wire.server.connections) connection.send({ op: "tick" });
    }
    expect(wire.sockets).toHaveLength(1);
  });

  test("R7 a page that wakes up over a dead socket finds out within seconds", async () => {
    const [wire, client] = await connected();
    wire.socket.hung = true;
    wire.wake();
    wire.wake();
    await wire.clock.advance(PROBE_TIMEOUT_MS + 2 * MIN_DELAY_MS);
    expect(wire.sockets).toHaveLength(2);
    expect(statusOf(client)).toBe("connected");
  });

  test("R7 a page that wakes up over a living socket keeps it", async () => {
    const [wire] = await connected();
    wire.wake();
    await wire.clock.advance(2 * PROBE_TIMEOUT_MS);
    expect(wire.server.asked("ping")).toHaveLength(1);
    expect(wire.sockets).toHaveLength(1);
  });

  test("R7 a page that wakes up while it waits tries at once", async () => {
    const [wire, client] = await connected();
    wire.reachable = false;
    wire.socket.drop(1006);
    await wire.clock.advance(60_000);
    const tries = wire.sockets.length;
    wire.reachable = true;
    wire.wake();
    await wire.clock.advance(10);
    expect(wire.sockets).toHaveLength(tries + 1);
    expect(statusOf(client)).toBe("connected");
  });

  test("R7 a page that wakes up over an attempt that hangs begins anew, and lets a fresh one be", async () => {
    const wire = new Wire();
    const client = wire.client();
    client.connect();
    await wire.clock.advance(0);
    wire.socket.hung = true;
    await wire.clock.advance(PROBE_TIMEOUT_MS - 1);
    wire.wake();
    await wire.clock.advance(1);
    expect(wire.sockets).toHaveLength(1);
    wire.wake();
    wire.wake();
    await wire.clock.advance(10);
    expect(wire.sockets).toHaveLength(2);
    expect(wire.sockets[0]!.closedWith).toBe(1000);
    expect(statusOf(client)).toBe("connected");
  });

  test("R7 a page that wakes up while a token is long in coming asks for it anew", async () => {
    const wire = new Wire();
    const given: ((token: string) => void)[] = [];
    const getToken = (): Promise<string> => new Promise((resolve) => void given.push(resolve));
    const client = wire.client({ getToken });
    client.connect();
    await wire.clock.advance(PROBE_TIMEOUT_MS);
    wire.wake();
    await wire.clock.advance(1);
    expect(given).toHaveLength(2);
    for (const give of given) give("any");
    await wire.clock.advance(10);
    expect(wire.sockets).toHaveLength(1);
    expect(statusOf(client)).toBe("connected");
  });

  test("R7 a page in the cache has no socket, and takes up again at once when it is back", async () => {
    const [wire, client] = await connected();
    const fake = wire.server.create("s1");
    const session = client.session("s1");
    session.subscribe(() => {});
    await wire.clock.advance(100);
    wire.suspend();
    expect(statusOf(client)).toBe("reconnecting");
    await wire.clock.advance(1);
    expect(wire.server.connections.size).toBe(0);
    fake.prompt("elsewhere", [{ type: "text", text: "meanwhile" }]);
    wire.wake();
    await wire.clock.advance(10);
    expect(statusOf(client)).toBe("connected");
    expect(wire.sockets).toHaveLength(2);
    expect(session.getSnapshot()).toMatchObject({ status: "live", messages: [{ sequence: 1 }] });
  });

  test("W9 a frame that is none makes a new connection", async () => {
    const [wire, client] = await connected();
    wire.socket.fire(wire.socket.onmessage, { data: "[1]" });
    expect(client.getSnapshot().connection).toMatchObject({ status: "reconnecting" });
    expect(client.getSnapshot().connection.reason).toContain("a frame is one map");
    await wire.clock.advance(2 * MIN_DELAY_MS);
    expect(statusOf(client)).toBe("connected");
  });
});

describe("tokens", () => {
  test("R6 a refused token is replaced once, and the new one is used", async () => {
    const wire = new Wire();
    wire.server.token = "new";
    const asked: boolean[] = [];
    const getToken = ({ refresh }: { refresh: boolean }): string => {
      asked.push(refresh);
      return refresh ? "new" : "old";
    };
    await connected(wire, { getToken });
    expect(asked).toEqual([false, true]);
  });

  test("R6 a token that stays refused ends it after two tries", async () => {
    const wire = new Wire();
    wire.server.token = "right";
    const client = wire.client({ getToken: () => "wrong" });
    client.connect();
    await wire.clock.advance(3_600_000);
    expect(client.getSnapshot().connection).toMatchObject({ status: "closed", code: 4401 });
    expect(wire.sockets).toHaveLength(2);
  });

  test("X3 no token, as a Storage says it, is none: a server that asks for none is reached", async () => {
    const wire = new Wire();
    await connected(wire, { getToken: () => null });
    expect(wire.server.requests[0]).not.toHaveProperty("token");
  });

  test("R6 without getToken there is nothing to try", async () => {
    const wire = new Wire();
    wire.server.token = "right";
    const client = wire.client();
    client.connect();
    await wire.clock.advance(3_600_000);
    expect(statusOf(client)).toBe("closed");
    expect(wire.sockets).toHaveLength(1);
  });

  test("R6 a token that cannot be had now is asked for later", async () => {
    const wire = new Wire();
    let broken = true;
    const getToken = async (): Promise<string> => {
      if (broken) throw new Error("no network");
      return "any";
    };
    const client = wire.client({ getToken });
    client.connect();
    await wire.clock.advance(100);
    expect(client.getSnapshot().connection.reason).toContain("no network");
    broken = false;
    await wire.clock.advance(2 * MIN_DELAY_MS);
    expect(statusOf(client)).toBe("connected");
  });
});

describe("restarts", () => {
  test("R5 the hint of a draining server says when the client comes back", async () => {
    const [wire, client] = await connected();
    for (const connection of wire.server.connections) {
      connection.send({ op: "draining", retry_after_ms: 8_000 });
      connection.close(1012);
    }
    await wire.clock.advance(8_000);
    expect(statusOf(client)).toBe("reconnecting");
    await wire.clock.advance(MIN_DELAY_MS);
    expect(statusOf(client)).toBe("connected");
  });

  test("W8 a server that is about to restart says so, once, and the connection and its Sessions stay as they are", async () => {
    const [wire, client] = await connected();
    wire.server.create("s1");
    const session = client.session("s1");
    session.subscribe(() => {});
    await wire.clock.advance(100);
    const asked = wire.server.requests.length;
    let told = 0;
    client.subscribe(() => void told++);
    for (const connection of wire.server.connections)
      connection.send({ op: "draining", retry_after_ms: 2_000 });
    await wire.clock.advance(100);
    expect(client.getSnapshot().connection).toEqual({ status: "connected", reason: "draining" });
    expect([told, session.status, wire.server.requests.length]).toEqual([1, "live", asked]);
    for (const connection of wire.server.connections) connection.close(1012);
    await wire.clock.advance(2_000 + MIN_DELAY_MS);
    expect(client.getSnapshot().connection).toEqual({ status: "connected" });
  });

  test("W8 a server that refuses hello for now is tried again", async () => {
    const wire = new Wire();
    wire.server.intercept = () => {
      throw new RequestRefused("draining", true);
    };
    const client = wire.client();
    client.connect();
    await wire.clock.advance(100);
    expect(statusOf(client)).toBe("reconnecting");
    wire.server.intercept = () => {};
    await wire.clock.advance(2 * MIN_DELAY_MS);
    expect(statusOf(client)).toBe("connected");
  });
});

test("W9 an error of no request reaches onError", async () => {
  const errors: string[] = [];
  const [wire] = await connected(new Wire(), { onError: (error) => void errors.push(error.code) });
  for (const connection of wire.server.connections) {
    connection.send({ op: "error", code: "rate_limited", message: "slow down", retryable: true });
  }
  await wire.clock.advance(10);
  expect(errors).toEqual(["rate_limited"]);
});
