/** Approvals of several clients at one Session: one answer counts, and everybody knows (P7, A1-A5). */

import { expect, test } from "vitest";
import type { Client, SessionHandle } from "../src/index.ts";
import { RequestRefused } from "./support/fake_server.ts";
import { ask } from "./support/fake_interactions.ts";
import type { FakeSession } from "./support/fake_session.ts";
import { Wire } from "./support/wire.ts";

interface Setup {
  readonly wire: Wire;
  readonly fake: FakeSession;
  readonly message_id: string;
  readonly clients: readonly Client[];
  readonly sessions: readonly [SessionHandle, SessionHandle];
}

/** Two clients who look at a Tool that waits for approval. */
async function setup(): Promise<Setup> {
  const wire = new Wire();
  const fake = wire.server.create("s1");
  fake.prompt("p", [{ type: "text", text: "write" }]);
  const { message_id } = fake.open();
  let ids = 0;
  const clients = [1, 2].map((number) => wire.client({ newId: () => `client${number}.${(ids += 1)}` }));
  const [one, two] = clients.map((client) => client.session("s1"));
  for (const session of [one!, two!]) session.subscribe(() => {});
  for (const client of clients) client.connect();
  await wire.clock.advance(100);
  ask(fake, message_id, "c1", { path: "a.txt" });
  await wire.clock.advance(100);
  return { wire, fake, message_id, clients, sessions: [one!, two!] };
}

const cardOf = (session: SessionHandle) => session.getSnapshot().interactions[0]!;
const approve = (session: SessionHandle) =>
  session.respond("c1.i", { revision: cardOf(session).revision, response: { decision: "approved" } });
const deny = (session: SessionHandle) =>
  session.respond("c1.i", {
    revision: cardOf(session).revision,
    response: { decision: "denied", reason: "no" },
  });

test("A1 of two answers in one instant the first counts, and the other is told who and what", async () => {
  const { wire, sessions } = await setup();
  const [one, two] = sessions;
  const answers = Promise.all([approve(one), deny(two)]);
  await wire.clock.advance(100);
  expect(await answers).toEqual([
    { accepted: true, status: "resolved", response: { decision: "approved" } },
    {
      accepted: false,
      status: "resolved",
      response: { decision: "approved" },
      by: "tester",
      at: expect.any(Number),
    },
  ]);
  for (const session of sessions) expect(session.getSnapshot().interactions).toEqual([]);
});

test("A2 a late answer changes nothing", async () => {
  const { wire, fake, sessions } = await setup();
  const [one, two] = sessions;
  const { revision } = cardOf(two);
  const denied = deny(one);
  await wire.clock.advance(100);
  expect(await denied).toMatchObject({ accepted: true, status: "denied" });
  const before = JSON.stringify(fake.messages);
  const late = two.respond("c1.i", { revision, response: { decision: "approved" } });
  await wire.clock.advance(100);
  expect(await late).toMatchObject({ accepted: false, status: "denied", response: { decision: "denied" } });
  expect(JSON.stringify(fake.messages)).toBe(before);
});

test("A4 after a reconnect the snapshot's set of cards stands, resolved ones are gone", async () => {
  const { wire, fake, message_id, sessions } = await setup();
  const [one, two] = sessions;
  const cut = wire.sockets.filter((socket) => socket.closedWith === undefined)[1]!;
  cut.drop(1006);
  void approve(one);
  await wire.clock.advance(10);
  ask(fake, message_id, "c2", { path: "b.txt" });
  await wire.clock.advance(5_000);
  expect(two.status).toBe("live");
  expect(two.getSnapshot().interactions.map((card) => card.interaction_id)).toEqual(["c2.i"]);
  expect(two.getSnapshot().interactions).toEqual(one.getSnapshot().interactions);
});

test("A5 an answer to what has changed since it was shown is refused, and the new state is there", async () => {
  const { wire, fake, message_id, sessions } = await setup();
  const [one] = sessions;
  const shown = cardOf(one);
  const part = fake.message(message_id).parts.find((item) => item.type === "interaction");
  if (part?.type !== "interaction") throw new Error("no card");
  const revision = fake.message(message_id).revision + 1;
  fake.setPart(message_id, {
    ...part,
    revision,
    request: { tool_name: "write_file", input: { path: "/etc" } },
  });
  const refused = one.respond("c1.i", { revision: shown.revision, response: { decision: "approved" } });
  const seen = expect(refused).rejects.toMatchObject({ code: "conflict" });
  await wire.clock.advance(100);
  await seen;
  expect(cardOf(one).request).toEqual({ tool_name: "write_file", input: { path: "/etc" } });
});

test("S9 an answer whose confirmation was lost is asked about again, and counts once", async () => {
  const { wire, sessions, clients } = await setup();
  const [one] = sessions;
  const accepted = approve(one);
  await wire.clock.advance(1); // it has arrived, the confirmation has not
  for (const socket of wire.sockets) socket.drop(1006);
  await wire.clock.advance(10);
  expect(clients[0]!.getSnapshot().unsent).toMatchObject([{ op: "interaction.respond", state: "waiting" }]);
  await wire.clock.advance(5_000);
  expect(await accepted).toMatchObject({ accepted: true, status: "resolved" });
  const ids = wire.server.asked("interaction.respond").map((request) => request["client_request_id"]);
  expect([ids.length, new Set(ids).size]).toEqual([2, 1]);
});

test("an answer waits for no prompt, and offline is shown with its card", async () => {
  const { wire, sessions } = await setup();
  const [one] = sessions;
  wire.server.intercept = ({ op }) => {
    if (op === "prompt") throw new RequestRefused("unavailable", true);
  };
  void one.prompt("later");
  await wire.clock.advance(100);
  for (const socket of wire.sockets) socket.drop(1006);
  const answer = approve(one);
  expect(one.getSnapshot().commands).toMatchObject([
    { op: "interaction.respond", state: "waiting", body: { interaction_id: "c1.i" } },
  ]);
  await wire.clock.advance(5_000);
  expect(await answer).toMatchObject({ accepted: true });
  expect(one.getSnapshot().unsent).toHaveLength(1);
});
