/** Warnings of the model beside the view, and what a client keeps of Sessions it has left. */

import { describe, expect, test } from "vitest";
import type { ModelRequestWarning, Mutation } from "../src/index.ts";
import { NO_NOTES, noted, type Notes } from "../src/notes.ts";
import { delta, turnFinish, turnStart } from "./support/frames.ts";
import { Wire } from "./support/wire.ts";

const envelope = {
  op: "mutation",
  epoch: "e1",
  seq: 1,
  mutation_id: "mu1",
  session_id: "s1",
  created_at: 1,
} as const;
const warning: ModelRequestWarning = {
  ...envelope,
  variant: "warning",
  type: "model_request",
  request_kind: "turn",
  turn_id: "t1",
  code: "rate_limited",
  message: "slow down",
  retryable: true,
  attempt: 1,
  max_attempts: 4,
  will_retry: true,
  retry_in_ms: 500,
};
const fileDiff: Mutation = {
  ...envelope,
  variant: "file_diff",
  turn_id: "t1",
  files: [],
  additions: 0,
  deletions: 0,
};
const after = (mutations: readonly Mutation[]): Notes => mutations.reduce(noted, NO_NOTES);

describe("notes", () => {
  test.each([
    ["text of the next attempt", delta(2, "m1", 2, "x")],
    ["the end of the Turn", turnFinish(2, "t1")],
    ["the start of the next", turnStart(2, "t2")],
  ])("T5 a warning stands until %s", (_, mutation) => {
    const notes = after([warning]);
    expect(notes.warning).toBe(warning);
    expect(noted(notes, mutation)).toEqual({});
  });

  test("Z6 what tells nothing leaves the same object", () => {
    expect(noted(NO_NOTES, delta(2, "m1", 2, "x"))).toBe(NO_NOTES);
    const notes = after([warning]);
    expect(noted(notes, fileDiff)).toBe(notes);
  });
});

test("T5 a warning is in the snapshot of a Session", async () => {
  const wire = new Wire();
  const client = wire.client();
  const fake = wire.server.create("s1");
  const session = client.session("s1");
  session.subscribe(() => {});
  client.connect();
  await wire.clock.advance(100);
  const { seq: _, ...warns } = warning;
  fake.publish(warns);
  await wire.clock.advance(100);
  const state = session.getSnapshot();
  expect(state).toMatchObject({ warning: { code: "rate_limited" } });
  expect(session.getSnapshot()).toBe(state);
  fake.prompt("p", [{ type: "text", text: "go" }]);
  await wire.clock.advance(100);
  expect(session.getSnapshot()).not.toHaveProperty("warning");
});

test("a client keeps the state of the Sessions it left last, and no more", async () => {
  const wire = new Wire();
  const client = wire.client({ maxKept: 2 });
  client.connect();
  const visit = async (session_id: string): Promise<void> => {
    const leave = client.session(session_id).subscribe(() => {});
    await wire.clock.advance(100);
    leave();
    await wire.clock.advance(100);
  };
  const ids = ["s1", "s2", "s3", "s4"];
  for (const id of ids) wire.server.create(id).prompt("p", [{ type: "text", text: id }]);
  for (const id of ids) await visit(id);
  const held = (): number[] => ids.map((id) => client.session(id).getSnapshot().messages.length);
  expect(held()).toEqual([0, 0, 1, 1]);
  const stay = client.session("s3").subscribe(() => {});
  await visit("s1");
  await visit("s2");
  expect(held()).toEqual([1, 1, 1, 0]);
  expect(client.session("s3").status).toBe("live");
  stay();
});

test("Z6 a Message is found as it stands in the list, the same object until it changed", async () => {
  const wire = new Wire();
  const client = wire.client();
  const fake = wire.server.create("s1");
  const session = client.session("s1");
  session.subscribe(() => {});
  client.connect();
  fake.prompt("p", [{ type: "text", text: "go" }]);
  const { message_id, parts } = fake.open();
  await wire.clock.advance(100);
  const [first, second] = session.getSnapshot().messages;
  expect(session.message(first!.message_id)).toBe(first);
  fake.append(message_id, parts[0]!.part_id, "x");
  await wire.clock.advance(100);
  expect(session.message(first!.message_id)).toBe(first);
  expect(session.message(message_id)).not.toBe(second);
  expect(session.message(message_id)).toBe(session.getSnapshot().messages[1]);
  expect(session.message("unknown")).toBeUndefined();
});
