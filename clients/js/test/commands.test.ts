/** Commands wait in a queue that is bounded, can be seen, and sends each until there is an answer (S9, Q3). */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Client, CommandStorage, SessionHandle, UnsentCommand } from "../src/index.ts";
import { MAX_FAULTS } from "../src/commands.ts";
import { MAX_DELAY_MS } from "../src/reconnect.ts";
import { RequestRefused } from "./support/fake_server.ts";
import type { FakeSession } from "./support/fake_session.ts";
import { Wire } from "./support/wire.ts";

interface Setup {
  readonly wire: Wire;
  readonly client: Client;
  readonly fake: FakeSession;
  readonly session: SessionHandle;
}

async function setup(): Promise<Setup> {
  const wire = new Wire();
  const client = wire.client();
  const fake = wire.server.create("s1");
  const session = client.session("s1");
  session.subscribe(() => {});
  client.connect();
  await wire.clock.advance(100);
  return { wire, client, fake, session };
}

/** The client is away for a minute. */
async function away({ wire }: Setup): Promise<void> {
  wire.reachable = false;
  wire.socket.drop(1006);
  await wire.clock.advance(60_000);
}

async function back({ wire }: Setup): Promise<void> {
  wire.reachable = true;
  await wire.clock.advance(2 * MAX_DELAY_MS);
}

const refuse =
  (op: string, code: string, retryable: boolean, times = Infinity) =>
  (request: { op: string }): void => {
    if (request.op === op && times-- > 0) throw new RequestRefused(code, retryable);
  };

describe("made offline", () => {
  test("Q3 commands of every kind wait where they can be seen, and go out in their order", async () => {
    const all = await setup();
    const { client, session, wire } = all;
    await away(all);
    const outcomes = [
      session.prompt("hello"),
      session.update({ title: "one" }),
      session.update({ title: "two" }),
      session.archive(),
    ];
    const fork = session.fork();
    const { unsent, commands } = session.getSnapshot();
    expect(unsent.map(({ op, state }) => [op, state])).toEqual([["prompt", "waiting"]]);
    expect(commands.map(({ op }) => op)).toEqual([
      "session.update",
      "session.update",
      "session.archive",
      "session.fork",
    ]);
    expect(client.getSnapshot().unsent).toHaveLength(5);
    await back(all);
    await Promise.all(outcomes);
    expect((await fork).message_count).toBe(1);
    expect(session.getSnapshot()).toMatchObject({ unsent: [], commands: [], session: { title: "two" } });
    const sent = wire.server.requests
      .map(({ op }) => op)
      .filter((op) => /prompt|update|archive|fork/.test(op));
    expect(sent).toEqual(["prompt", "session.update", "session.update", "session.archive", "session.fork"]);
  });

  test("S9 a Session can be created, and given its first prompt, before there is a connection", async () => {
    const wire = new Wire();
    const client = wire.client();
    const created = client.createSession({ session_id: "mine", title: "Mine" });
    const receipt = client.session("mine").prompt("first");
    expect(client.getSnapshot().unsent.map(({ op }) => op)).toEqual(["session.create", "prompt"]);
    client.connect();
    await wire.clock.advance(100);
    expect((await created).session_id).toBe("mine");
    expect((await receipt).sequence).toBe(1);
  });
});

test("S9 a Session whose creation is put off is followed as soon as it exists", async () => {
  const wire = new Wire();
  const client = wire.client();
  client.connect();
  await wire.clock.advance(100);
  wire.server.intercept = refuse("session.create", "unavailable", true, 3);
  void client.createSession({ session_id: "mine" });
  const session = client.session("mine");
  session.subscribe(() => {});
  void session.prompt("first");
  await wire.clock.advance(4 * MAX_DELAY_MS);
  expect(session.getSnapshot()).toMatchObject({ status: "live", unsent: [], messages: [{ sequence: 1 }] });
});

describe("beyond the life of the program", () => {
  /** What a browser would keep: text. */
  function storage(): CommandStorage & { text: string } {
    return {
      text: "[]",
      load() {
        return JSON.parse(this.text) as UnsentCommand[];
      },
      save(commands) {
        this.text = JSON.stringify(commands);
      },
    };
  }

  test("S9 Q3 what was unsent is sent by the next client, once, in its order and under its old ids", async () => {
    const wire = new Wire();
    const kept = storage();
    const first = wire.client({ storage: kept });
    first.connect();
    await wire.clock.advance(100);
    void first.createSession({ session_id: "mine" });
    await wire.clock.advance(100);
    // This one is carried out, and its answer is lost with the page.
    wire.latency_ms = 50;
    void first.session("mine").prompt("one");
    await wire.clock.advance(60);
    wire.socket.hung = true;
    wire.latency_ms = 1;
    expect(wire.server.asked("prompt")).toHaveLength(1);
    void first.session("mine").prompt({ parts: [{ type: "text", text: "two" }] });
    void first.session("mine").update({ title: "Mine" });
    first
      .session("mine")
      .prompt("discarded")
      .catch(() => {});
    first.session("mine").discard(first.getSnapshot().unsent.at(-1)!.client_request_id);
    const ids = first.getSnapshot().unsent.map((command) => command.client_request_id);

    const second = wire.client({ storage: kept });
    const session = second.session("mine");
    expect(session.getSnapshot().unsent).toMatchObject([
      { client_request_id: ids[0], state: "waiting", attempts: 1, body: { text: "one" } },
      { client_request_id: ids[1], state: "waiting", attempts: 0 },
    ]);
    expect(session.getSnapshot().commands).toMatchObject([{ op: "session.update", state: "waiting" }]);
    session.subscribe(() => {});
    second.connect();
    await wire.clock.advance(100);
    expect(session.getSnapshot()).toMatchObject({ unsent: [], commands: [], session: { title: "Mine" } });
    const said = session.getSnapshot().messages.map(({ parts }) => parts[0]);
    expect(said).toMatchObject([{ text: "one" }, { text: "two" }]);
    expect(kept.text).toBe("[]");
  });

  test("S9 a refusal that nobody waits for any more stays to be seen", async () => {
    const wire = new Wire();
    const kept = storage();
    wire.server.create("s1");
    void wire.client({ storage: kept }).session("s1").prompt("refused");
    const client = wire.client({ storage: kept });
    const session = client.session("s1");
    wire.server.intercept = refuse("prompt", "forbidden", false, 1);
    client.connect();
    await wire.clock.advance(100);
    const [failed] = session.getSnapshot().unsent;
    expect(failed).toMatchObject({ state: "failed", error: { code: "forbidden" } });
    expect(session.retry(failed!.client_request_id)).toBe(true);
    await wire.clock.advance(100);
    expect(session.getSnapshot().unsent).toEqual([]);
    expect(wire.server.asked("prompt")).toHaveLength(2);
  });

  test("S9 a Session that is still to be created is followed once it is", async () => {
    const wire = new Wire();
    const kept = storage();
    const early = wire.client({ storage: kept });
    void early.createSession({ session_id: "mine" });
    void early.session("mine").prompt("first");
    const client = wire.client({ storage: kept });
    const session = client.session("mine");
    session.subscribe(() => {});
    client.connect();
    await wire.clock.advance(100);
    expect(session.getSnapshot()).toMatchObject({ status: "live", unsent: [], messages: [{ sequence: 1 }] });
  });
});

describe("without a definite answer", () => {
  test("S9 a command that only fails is given up where it can be seen, and later ones go on", async () => {
    const all = await setup();
    const { wire, session } = all;
    wire.server.intercept = ({ op, ["text"]: text }) => {
      if (op === "prompt" && text === "poison") throw new RequestRefused("internal", true);
    };
    const poison = session.prompt("poison");
    const next = session.prompt("next");
    const seen = expect(poison).rejects.toMatchObject({ code: "internal" });
    await wire.clock.advance(2 * MAX_FAULTS * MAX_DELAY_MS);
    await seen;
    expect((await next).sequence).toBe(1);
    expect(session.getSnapshot().unsent).toMatchObject([
      { state: "failed", attempts: MAX_FAULTS, error: { code: "internal" }, body: { text: "poison" } },
    ]);
    await away(all);
    await back(all);
    expect(wire.server.asked("prompt")).toHaveLength(MAX_FAULTS + 1);

    wire.server.intercept = () => {};
    const [failed] = session.getSnapshot().unsent;
    expect(session.retry(failed!.client_request_id)).toBe(true);
    expect(session.retry(failed!.client_request_id)).toBe(false);
    await wire.clock.advance(100);
    expect(session.getSnapshot().unsent).toEqual([]);
    expect(all.fake.messages.map(({ parts }) => parts[0])).toMatchObject([
      { text: "next" },
      { text: "poison" },
    ]);
    const ids = wire.server.asked("prompt").filter(({ text }) => text === "poison");
    expect(new Set(ids.map((request) => request["client_request_id"])).size).toBe(1);
  });

  test("a command that was given up can be discarded", async () => {
    const { wire, session } = await setup();
    wire.server.intercept = refuse("prompt", "internal", true);
    session.prompt("poison").catch(() => {});
    await wire.clock.advance(2 * MAX_FAULTS * MAX_DELAY_MS);
    expect(session.discard(session.getSnapshot().unsent[0]!.client_request_id)).toBe(true);
    expect(session.getSnapshot().unsent).toEqual([]);
  });

  test("D4 a server that can store nothing is waited for, as long as it takes", async () => {
    const { wire, session } = await setup();
    wire.server.intercept = refuse("prompt", "unavailable", true);
    const receipt = session.prompt("patient");
    for (let minute = 0; minute < 30; minute += 1) {
      for (const connection of wire.server.connections) connection.send({ op: "tick" });
      await wire.clock.advance(40_000);
    }
    expect(session.getSnapshot().unsent).toMatchObject([
      { state: "waiting", error: { code: "unavailable" } },
    ]);
    wire.server.intercept = () => {};
    await wire.clock.advance(MAX_DELAY_MS);
    expect((await receipt).sequence).toBe(1);
  });

  test("a Session that was deleted by an attempt whose answer was lost is deleted", async () => {
    const { wire, session } = await setup();
    const deleted = session.delete();
    await wire.clock.advance(1); // it has arrived, the answer has not
    expect(wire.server.sessions.size).toBe(0);
    wire.socket.drop(1006);
    await wire.clock.advance(2_000);
    await deleted;
  });

  test("a fork that was made by an attempt whose answer was lost is that fork, and no second one is made", async () => {
    const { wire, session } = await setup();
    const forked = session.fork();
    await wire.clock.advance(1);
    expect(wire.server.sessions.size).toBe(2);
    wire.socket.drop(1006);
    await wire.clock.advance(2_000);
    expect(wire.server.sessions.has((await forked).session_id)).toBe(true);
    expect(wire.server.sessions.size).toBe(2);
    const taken = expect(session.fork({ new_session_id: "s1" })).rejects.toMatchObject({ code: "conflict" });
    await wire.clock.advance(100);
    await taken;
  });
});

type Step =
  | { readonly do: "send"; readonly lane: number }
  | { readonly do: "cut" }
  | { readonly do: "pass"; readonly ms: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant("send" as const), lane: fc.nat(2) }),
  fc.record({ do: fc.constant("cut" as const) }),
  fc.record({ do: fc.constant("pass" as const), ms: fc.nat(1_500) }),
);

test("S9 Q3 whatever is cut, every command is carried out once, and in the order of its lane", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const wire = new Wire();
      const client = wire.client({ random: Math.random, onError: () => {} });
      const fakes = [0, 1, 2].map((lane) => wire.server.create(`s${lane}`));
      client.connect();
      const expected: string[][] = [[], [], []];
      const receipts: Promise<unknown>[] = [];
      for (const [index, item] of steps.entries()) {
        if (item.do === "cut") wire.sockets.at(-1)?.drop(1006);
        else if (item.do === "pass") await wire.clock.advance(item.ms);
        else {
          expected[item.lane]!.push(`${index}`);
          receipts.push(client.session(`s${item.lane}`).prompt(`${index}`));
        }
      }
      await wire.clock.advance(120_000);
      await Promise.all(receipts);
      const texts = fakes.map((fake) =>
        fake.messages.map(({ parts }) => (parts[0]?.type === "text" ? parts[0].text : "")),
      );
      expect(texts).toEqual(expected);
      expect(client.getSnapshot().unsent).toEqual([]);
      client.disconnect();
    }),
    { numRuns: 60 },
  );
});
