import { describe, expect, test } from "vitest";
import { type Message, SessionView, type TextPart } from "../src/index.ts";
import { MAX_BUFFERED } from "../src/view.ts";
import {
  agentMessage,
  delta,
  message,
  messageMutation,
  page,
  partMutation,
  SESSION,
  snapshot,
  textPart,
  turnFinish,
  turnStart,
} from "./support/frames.ts";

function liveView(items: readonly Message[] = [agentMessage(1)]): SessionView {
  const view = new SessionView(SESSION);
  expect(view.receive(snapshot(items))).toBe("applied");
  return view;
}

const textOf = (view: SessionView, index = 0): string | undefined => {
  const part = view.state.messages[index]?.parts[0];
  return part?.type === "text" ? part.text : undefined;
};

describe("immutability on the outside", () => {
  test("W5 the state is the same object until something changed", () => {
    const view = liveView();
    const before = view.state;
    expect(view.receive(delta(0, "m1", 2, "old"))).toBe("ignored");
    expect(view.receive({ op: "tick" })).toBe("ignored");
    expect(view.state).toBe(before);
    view.receive(delta(1, "m1", 2, "new"));
    expect(view.state).not.toBe(before);
    expect(view.state).toBe(view.state);
  });

  test("J3 only the changed Message and the changed Part are new objects", () => {
    const parts = [textPart("a", "A"), textPart("m2p1", "", { sequence: 2, state: "streaming" })];
    const view = liveView([message(1), agentMessage(2, { parts })]);
    const before = view.state;
    view.receive(delta(1, "m2", 2, "x"));
    const after = view.state;
    expect(after.messages[0]).toBe(before.messages[0]);
    expect(after.messages[1]).not.toBe(before.messages[1]);
    expect(after.messages[1]?.parts[0]).toBe(before.messages[1]?.parts[0]);
    expect(before.messages[1]?.parts[1]).toMatchObject({ text: "" });
    expect(after.messages[1]?.parts[1]).toMatchObject({ text: "x" });
    expect(after.messages[1]?.revision).toBe(2);
  });

  test("W7 a snapshot of the same state leaves the Messages the same objects", () => {
    const view = liveView([message(1), message(2)]);
    const before = view.state;
    view.disconnected();
    view.receive(snapshot([message(1), message(2)]));
    expect(view.state.messages[0]).toBe(before.messages[0]);
    expect(view.state.messages[1]).toBe(before.messages[1]);
  });
});

describe("mixed changes of one Message between two looks", () => {
  test("J8 a Part replaced between deltas keeps the text of both", () => {
    const view = liveView();
    view.receive(delta(1, "m1", 2, "lost"));
    view.receive(partMutation(2, "m1", 3, textPart("m1p1", "kept ", { state: "streaming" })));
    view.receive(delta(3, "m1", 4, "text"));
    expect(textOf(view)).toBe("kept text");
  });

  test("E5 deltas of two Parts interleave", () => {
    const view = liveView();
    view.receive(partMutation(1, "m1", 2, textPart("b", "", { sequence: 2 })));
    view.receive(delta(2, "m1", 3, "1"));
    view.receive(delta(3, "m1", 4, "2", { part_id: "b" }));
    view.receive(delta(4, "m1", 5, "3"));
    expect(view.state.messages[0]?.parts.map((part) => (part as TextPart).text)).toEqual(["13", "2"]);
  });

  test("P5 tool_input appends to an absent input_text", () => {
    const tool = { part_id: "m1p1", sequence: 1, type: "tool", tool_call_id: "c", tool_name: "t" } as const;
    const view = liveView([agentMessage(1, { parts: [{ ...tool, state: "input-streaming" }] })]);
    view.receive(delta(1, "m1", 2, '{"a"', { type: "tool_input" }));
    view.receive(delta(2, "m1", 3, ":1}", { type: "tool_input" }));
    expect(view.state.messages[0]?.parts[0]).toMatchObject({ input_text: '{"a":1}' });
  });
});

describe("losses", () => {
  test("J7 a delta for an unknown Part asks for a reload and changes nothing", () => {
    const view = liveView();
    expect(view.receive(delta(1, "m1", 2, "x", { part_id: "nope" }))).toBe("reload");
    expect(view.state).toMatchObject({ status: "resyncing", seq: 0 });
    expect(view.state.messages[0]?.revision).toBe(1);
  });

  test("W5 a gap asks once, and a snapshot with the buffered Mutations heals it", () => {
    const view = liveView();
    expect(view.receive(delta(2, "m1", 3, "b"))).toBe("reload");
    expect(view.receive(delta(3, "m1", 4, "c"))).toBe("buffered");
    const healed = agentMessage(1, { revision: 3, parts: [textPart("m1p1", "ab", { state: "streaming" })] });
    expect(view.receive(snapshot([healed], { seq: 2 }))).toBe("applied");
    expect(textOf(view)).toBe("abc");
    expect(view.state).toMatchObject({ status: "live", seq: 3 });
  });

  test("W6 a buffer that ran over leaves a gap that is found after the snapshot", () => {
    const view = new SessionView(SESSION);
    for (let seq = 1; seq <= MAX_BUFFERED + 1; seq += 1) view.receive(delta(seq, "m1", seq + 1, "x"));
    expect(view.receive(snapshot([agentMessage(1)]))).toBe("reload");
    expect(view.status).toBe("resyncing");
  });

  test("P2 kinds, types and fields of a newer server pass", () => {
    const view = liveView();
    const strange = { ...turnStart(1, "t"), variant: "hologram", type: "x" };
    expect(view.receive(strange)).toBe("applied");
    const part = { part_id: "n", sequence: 9, type: "hologram", depth: 3 };
    expect(view.receive(partMutation(2, "m1", 2, part as never))).toBe("applied");
    expect(view.state.messages[0]?.parts[1]).toEqual(part);
  });
});

describe("the rest of the Session", () => {
  test("T1 a prompt that waits is in the queue until its Turn starts", () => {
    const view = liveView([]);
    view.receive(turnStart(1, "t1"));
    view.receive(messageMutation(2, message(1, { turn_id: "t2" })));
    expect(view.state.queue).toEqual([{ turn_id: "t2", message_id: "m1" }]);
    view.receive(turnFinish(3, "t1"));
    expect(view.state).not.toHaveProperty("turn");
    view.receive(turnStart(4, "t2"));
    expect(view.state).toMatchObject({ turn: { turn_id: "t2", started_at: 4 }, queue: [], total: 1 });
  });

  test("M3 older pages come before what is held and move the cursor", () => {
    const view = new SessionView(SESSION);
    const newest = { ...page([message(3)]), total: 3, has_more: true, next_before_sequence: 3 };
    view.receive(snapshot([], { page: newest }));
    view.addPage({ ...page([message(2)]), total: 3, has_more: true, next_before_sequence: 2 });
    view.addPage({ ...page([message(1)]), total: 3 });
    expect(view.state.messages.map((item) => item.sequence)).toEqual([1, 2, 3]);
    expect(view.state.has_more).toBe(false);
    expect(view.state).not.toHaveProperty("next_before_sequence");
  });

  test("W10 a snapshot in parts is one snapshot", () => {
    const view = new SessionView(SESSION);
    const total = { total: 2 };
    expect(view.receive(snapshot([message(1)], { parts: 2, page: page([message(1)], total) }))).toBe(
      "buffered",
    );
    expect(view.receive(messageMutation(1, message(3)))).toBe("buffered");
    const second = snapshot([message(2)], { part: 2, parts: 2, page: page([message(2)], total) });
    expect(view.receive(second)).toBe("applied");
    expect(view.state.messages.map((item) => item.sequence)).toEqual([1, 2, 3]);
    expect(view.state).toMatchObject({ total: 3, seq: 1 });
  });

  test("X3 unsubscribed ends the view for good", () => {
    const view = liveView();
    expect(view.receive({ op: "unsubscribed", session_id: SESSION, reason: "deleted" })).toBe("applied");
    expect(view.receive(snapshot([]))).toBe("ignored");
    view.disconnected();
    expect(view.state).toMatchObject({ status: "error", reason: "deleted" });
  });
});

test(
  "Z2 deltas into one Part cost the same however long it is, also when somebody looks at each frame",
  { timeout: 60_000 },
  () => {
    // Milliseconds of this process's CPU: on a busy machine the clock on the wall says little.
    const run = (count: number): number => {
      const view = liveView();
      const frame = { ...delta(0, "m1", 1, "0123456789") };
      const before = process.cpuUsage();
      for (let index = 1; index <= count; index += 1) {
        view.receive(Object.assign(frame, { seq: index, revision: index + 1 }));
        if (index % 500 === 0) void view.state.messages[0]?.parts[0];
      }
      const { user, system } = process.cpuUsage(before);
      expect(textOf(view)?.length).toBe(count * 10);
      return user + system;
    };
    const fastest = (count: number): number => Math.min(run(count), run(count), run(count));
    run(100_000);
    // Linear is 8 and quadratic is 64: far enough apart for a machine that does other things as well.
    expect(fastest(800_000) / fastest(100_000)).toBeLessThan(24);
  },
);
