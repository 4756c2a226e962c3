/** Sessions and prompts of a whole client on virtual time, against FakeServer. */

import { describe, expect, test } from "vitest";
import type { Client, Receipt, SessionHandle } from "../src/index.ts";
import { REQUEST_TIMEOUT_MS } from "../src/link.ts";
import { MIN_DELAY_MS } from "../src/reconnect.ts";
import { FRAME_MS } from "./support/clock.ts";
import { RequestRefused } from "./support/fake_server.ts";
import type { FakeSession } from "./support/fake_session.ts";
import { Wire } from "./support/wire.ts";

interface Setup {
  wire: Wire;
  client: Client;
  fake: FakeSession;
  session: SessionHandle;
  calls: () => number;
}

async function setup(options: Parameters<Wire["client"]>[0] = {}): Promise<Setup> {
  const wire = new Wire();
  const client = wire.client(options);
  const fake = wire.server.create("s1");
  const session = client.session("s1");
  let calls = 0;
  session.subscribe(() => void (calls += 1));
  client.connect();
  await wire.clock.advance(100);
  expect(session.status).toBe("live");
  return { wire, client, fake, session, calls: () => calls };
}

const sameAsServer = ({ session, fake }: Setup): void => {
  expect(session.getSnapshot().messages).toEqual(fake.messages);
  expect(session.getSnapshot().seq).toBe(fake.seq);
};

describe("following a Session", () => {
  test("W4 a Session is live after the first subscriber, and dropped after the last", async () => {
    const { wire, client, fake } = await setup();
    const other = client.session("s1");
    const leave = other.subscribe(() => {});
    leave();
    leave();
    await wire.clock.advance(10);
    expect(fake.subscribers.size).toBe(1);
    expect(wire.server.asked("subscribe")).toHaveLength(1);
    expect(client.session("s1")).toBe(other);
  });

  test("T4 the last unsubscribe stops events only, and the next subscribe catches up", async () => {
    const wire = new Wire();
    const client = wire.client();
    const fake = wire.server.create("s1");
    const session = client.session("s1");
    const leave = session.subscribe(() => {});
    client.connect();
    await wire.clock.advance(100);
    fake.prompt("x", [{ type: "text", text: "hi" }]);
    const { message_id, parts } = fake.open();
    await wire.clock.advance(10);
    leave();
    await wire.clock.advance(10);
    expect(session.status).toBe("stale");
    expect(fake.subscribers.size).toBe(0);
    expect(fake.turn).toBeDefined();
    fake.append(message_id, parts[0]!.part_id, "while away");
    session.subscribe(() => {});
    await wire.clock.advance(10);
    expect(session.getSnapshot().messages).toEqual(fake.messages);
  });

  test("J2 after a loss at any point of a Turn the client equals the server", async () => {
    const all = await setup();
    const { wire, fake, session } = all;
    for (let round = 0; round < 20; round += 1) {
      fake.prompt(`r${round}`, [{ type: "text", text: "go" }]);
      const { message_id, parts } = fake.open();
      for (let token = 0; token < 10; token += 1) {
        fake.append(message_id, parts[0]!.part_id, `${token} `);
        if (token === round % 10) wire.socket.drop(1006);
        await wire.clock.advance(1);
      }
      fake.close();
      fake.finish();
      if (round % 3 > 0) await wire.clock.advance(2_000);
    }
    await wire.clock.advance(30_000);
    expect(session.status).toBe("live");
    sameAsServer(all);
  });

  test("E1 a restarted server with a new epoch replaces everything", async () => {
    const all = await setup();
    all.fake.prompt("a", [{ type: "text", text: "old" }]);
    await all.wire.clock.advance(10);
    const reborn = all.fake;
    reborn.epoch = "e2";
    reborn.seq = 0;
    reborn.messages = [];
    reborn.turn = undefined;
    all.wire.socket.drop(1012);
    await all.wire.clock.advance(5_000);
    expect(all.session.getSnapshot()).toMatchObject({ epoch: "e2", seq: 0, messages: [], status: "live" });
  });

  test("W6 a reload notice is answered by one reload", async () => {
    const { wire, fake, session } = await setup();
    for (const connection of wire.server.connections) {
      connection.send({ op: "reload", session_id: "s1", reason: "lagged" });
    }
    fake.setTitle("meanwhile");
    await wire.clock.advance(10);
    expect(wire.server.asked("reload")).toHaveLength(1);
    expect(session.getSnapshot()).toMatchObject({ status: "live", session: { title: "meanwhile" } });
  });

  test("W5 a gap is healed by one reload, which is repeated while the server cannot", async () => {
    const all = await setup();
    const { wire, fake, session } = all;
    let failures = 2;
    wire.server.intercept = ({ op }) => {
      if (op === "reload" && failures-- > 0) throw new RequestRefused("unavailable", true);
    };
    fake.seq += 1; // a Mutation that got lost
    fake.setTitle("after the gap");
    await wire.clock.advance(10);
    expect(session.status).toBe("resyncing");
    await wire.clock.advance(10_000);
    expect(session.status).toBe("live");
    expect(wire.server.asked("reload")).toHaveLength(3);
    sameAsServer(all);
  });

  test("W4 a Session that does not exist ends in error with the reason", async () => {
    const { wire, client } = await setup();
    const session = client.session("nope");
    session.subscribe(() => {});
    await wire.clock.advance(50);
    expect(session.getSnapshot()).toMatchObject({ status: "error", reason: "not_found" });
  });

  test("J9 a Session that was refused can be tried again", async () => {
    const { wire, client } = await setup();
    const session = client.session("later");
    const leave = session.subscribe(() => {});
    await wire.clock.advance(50);
    leave();
    wire.server.create("later");
    session.subscribe(() => {});
    await wire.clock.advance(50);
    expect(session.status).toBe("live");
  });
});

describe("notifications", () => {
  test("Z6 at most one a frame while text streams, and the snapshot is the same object in between", async () => {
    const { wire, fake, session, calls } = await setup();
    fake.prompt("a", [{ type: "text", text: "go" }]);
    const { message_id, parts } = fake.open();
    await wire.clock.advance(100);
    const before = calls();
    for (let token = 0; token < 200; token += 1) {
      fake.append(message_id, parts[0]!.part_id, "x");
      await wire.clock.advance(1);
    }
    await wire.clock.advance(2 * FRAME_MS);
    expect(calls() - before).toBeLessThanOrEqual(Math.ceil(200 / FRAME_MS) + 1);
    expect(calls() - before).toBeGreaterThan(5);
    expect(session.getSnapshot()).toBe(session.getSnapshot());
  });

  test("L1 the fault of one listener reaches no other", async () => {
    const faults: unknown[] = [];
    const keep = (error: unknown): void => void faults.push(error);
    process.once("uncaughtException", keep);
    const { wire, fake, session } = await setup();
    const seen: string[] = [];
    session.onMutation(() => {
      throw new Error("mine");
    });
    session.onMutation((mutation) => void seen.push(mutation.variant));
    fake.setTitle("t");
    await wire.clock.advance(100);
    process.off("uncaughtException", keep);
    expect(seen).toEqual(["session"]);
    expect(session.getSnapshot().session?.title).toBe("t");
  });
});

describe("prompts", () => {
  test("S9 a prompt gives its receipt and leaves the queue", async () => {
    const { wire, session } = await setup();
    const receipt = session.prompt("hello");
    expect(session.getSnapshot().unsent).toMatchObject([{ state: "sending", body: { text: "hello" } }]);
    await wire.clock.advance(10);
    expect(await receipt).toMatchObject({ outcome: "started", sequence: 1 });
    expect(session.getSnapshot().unsent).toEqual([]);
  });

  test("Q3 a prompt whose answer was lost is sent again under the same id and runs once", async () => {
    const all = await setup();
    const { wire, fake, session } = all;
    const receipt = session.prompt("once");
    await wire.clock.advance(1); // it has arrived, the answer has not
    expect(fake.messages).toHaveLength(1);
    wire.socket.drop(1006);
    await wire.clock.advance(1);
    expect(session.getSnapshot().unsent).toMatchObject([{ state: "waiting", attempts: 1 }]);
    await wire.clock.advance(2_000);
    expect(await receipt).toMatchObject({ outcome: "duplicate", sequence: 1 });
    expect(new Set(wire.server.asked("prompt").map((request) => request["client_request_id"])).size).toBe(1);
    sameAsServer(all);
  });

  test("Q1 prompts made offline wait, visibly, and go out in their order", async () => {
    const all = await setup();
    const { wire, client, session, fake } = all;
    wire.reachable = false;
    wire.socket.drop(1006);
    const receipts = ["one", "two", "three"].map((text) => session.prompt(text));
    await wire.clock.advance(60_000);
    expect(session.getSnapshot().unsent.map((prompt) => [prompt.state, prompt.attempts])).toEqual([
      ["waiting", 0],
      ["waiting", 0],
      ["waiting", 0],
    ]);
    expect(client.getSnapshot().unsent).toHaveLength(3);
    wire.reachable = true;
    await wire.clock.advance(30_000);
    expect((await Promise.all(receipts)).map((receipt: Receipt) => receipt.sequence)).toEqual([1, 2, 3]);
    expect(fake.messages.map((message) => message.parts[0])).toMatchObject([
      { text: "one" },
      { text: "two" },
      { text: "three" },
    ]);
    sameAsServer(all);
  });

  test("D4 a prompt that cannot be stored now is tried again, and later ones stay behind it", async () => {
    const { wire, fake, session } = await setup();
    let failures = 3;
    wire.server.intercept = ({ op }) => {
      if (op === "prompt" && failures-- > 0) throw new RequestRefused("unavailable", true);
    };
    const receipts = [session.prompt("first"), session.prompt("second")];
    await wire.clock.advance(60_000);
    expect((await Promise.all(receipts)).map((receipt) => receipt.sequence)).toEqual([1, 2]);
    expect(fake.messages).toHaveLength(2);
  });

  test("S9 a prompt without an answer is asked about again, under the same id", async () => {
    const { wire, fake, session } = await setup();
    let drops = 1;
    wire.server.intercept = ({ op }) => (op === "prompt" && drops-- > 0 ? "drop" : undefined);
    const receipt = session.prompt("hello?");
    for (let waited = 0; waited <= REQUEST_TIMEOUT_MS + 1_000; waited += 1_000) {
      for (const connection of wire.server.connections) connection.send({ op: "tick" });
      await wire.clock.advance(1_000);
    }
    expect(await receipt).toMatchObject({ outcome: "started" });
    expect(fake.messages).toHaveLength(1);
  });

  test("Q4 a refusal is definite: the prompt is not sent again and the next one goes", async () => {
    const { wire, session } = await setup();
    wire.server.intercept = (request) => {
      if (request.op === "prompt" && request["if_idle"] === true) throw new RequestRefused("conflict");
    };
    const refused = expect(session.prompt({ text: "only if idle", if_idle: true })).rejects.toMatchObject({
      code: "conflict",
    });
    const next = session.prompt("next");
    await wire.clock.advance(10);
    expect(await next).toMatchObject({ outcome: "started" });
    await refused;
    expect(wire.server.asked("prompt")).toHaveLength(2);
    expect(session.getSnapshot().unsent).toEqual([]);
  });

  test("Q1 the queue is bounded, and what waits can be discarded", async () => {
    const wire = new Wire();
    const client = wire.client({ maxUnsent: 2 });
    const session = client.session("s1");
    const waiting = [session.prompt("a"), session.prompt("b")];
    await expect(session.prompt("c")).rejects.toMatchObject({ code: "queue_full", retryable: true });
    const [first] = session.getSnapshot().unsent;
    expect(session.discard(first!.client_request_id)).toBe(true);
    expect(session.discard(first!.client_request_id)).toBe(false);
    await expect(waiting[0]).rejects.toMatchObject({ code: "discarded" });
    expect(session.getSnapshot().unsent).toMatchObject([{ body: { text: "b" } }]);
  });
});

describe("commands", () => {
  test("T3 stop says what it did, and without a connection fails at once", async () => {
    const { wire, session, fake } = await setup();
    fake.prompt("a", [{ type: "text", text: "go" }]);
    fake.open();
    const stopped = session.stop();
    await wire.clock.advance(10);
    expect(await stopped).toMatchObject({ stopped: true, reason: "stopped", cancelled_prompts: 0 });
    expect(session.getSnapshot()).not.toHaveProperty("turn");
    wire.socket.drop(1006);
    await expect(session.stop()).rejects.toMatchObject({ code: "lost", retryable: true });
  });

  test("M3 older pages are loaded once each, down to the first Message", async () => {
    const wire = new Wire();
    const client = wire.client();
    const fake = wire.server.create("s1");
    for (let index = 0; index < 120; index += 1)
      fake.prompt(`p${index}`, [{ type: "text", text: `${index}` }]);
    const session = client.session("s1");
    session.subscribe(() => {});
    client.connect();
    await wire.clock.advance(100);
    expect(session.getSnapshot()).toMatchObject({ has_more: true, total: 120 });
    const loads = [session.loadOlder(), session.loadOlder()];
    expect(session.getSnapshot().loading_older).toBe(true);
    await wire.clock.advance(10);
    expect(await Promise.all(loads)).toEqual([true, true]);
    expect(wire.server.asked("messages")).toHaveLength(1);
    const last = session.loadOlder();
    await wire.clock.advance(10);
    expect(await last).toBe(true);
    expect(session.getSnapshot().messages.map((message) => message.sequence)).toEqual(
      Array.from({ length: 120 }, (_, index) => index + 1),
    );
    expect(session.getSnapshot()).toMatchObject({ has_more: false, loading_older: false });
    expect(await session.loadOlder()).toBe(false);
  });

  test("M3 an older page that was asked for before a snapshot is thrown away", async () => {
    const { wire, fake, session } = await setup();
    for (let index = 0; index < 120; index += 1)
      fake.prompt(`p${index}`, [{ type: "text", text: `${index}` }]);
    wire.socket.drop(1006);
    await wire.clock.advance(2 * MIN_DELAY_MS);
    const snapshot = fake.snapshot();
    const older = session.loadOlder();
    await wire.clock.advance(1); // the request is there, its answer on the way
    wire.socket.fire(wire.socket.onmessage, { data: JSON.stringify(snapshot) });
    await wire.clock.advance(10);
    expect(await older).toBe(false);
    const again = session.loadOlder();
    await wire.clock.advance(10);
    expect(await again).toBe(true);
    expect(session.getSnapshot().messages).toHaveLength(session.getSnapshot().total - 20);
  });

  test("W7 reads wait for a connection and are repeated when it is lost", async () => {
    const { wire, client } = await setup();
    wire.server.intercept = ({ op }) => (op === "session.create" ? "drop" : undefined);
    const created = client.createSession({ title: "mine" });
    const list = client.listSessions();
    await wire.clock.advance(10);
    expect((await list).items).toHaveLength(1);
    wire.server.intercept = () => {};
    wire.socket.drop(1006);
    await wire.clock.advance(2 * MIN_DELAY_MS);
    expect((await created).session_id).toBe("s1");
    const ids = wire.server.asked("session.create").map((request) => request["client_request_id"]);
    expect(ids).toHaveLength(2);
    expect(new Set(ids).size).toBe(1);
  });

  test("R10 what waits for a connection that was ended fails, and says so", async () => {
    const wire = new Wire();
    const client = wire.client();
    const list = client.listSessions();
    client.connect();
    client.disconnect();
    await expect(list).rejects.toMatchObject({ code: "closed" });
    await expect(client.listSessions()).rejects.toMatchObject({ code: "closed" });
  });
});
