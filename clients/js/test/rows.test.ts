/** Rows of the page's conversation: what is read step by step is what is read in one go. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { type Group, RowReader } from "../demo/rows.ts";
import type { Message, SessionState } from "../src/index.ts";

const TURNS = ["t1", "t2", "t3"];
const SEEN = 3;

type Step = {
  readonly what: "user" | "agent" | "grow" | "start" | "finish" | "queue";
  readonly turn: number;
};

const step = fc.record<Step>({
  what: fc.constantFrom("user", "agent", "grow", "start", "finish", "queue"),
  turn: fc.nat(TURNS.length - 1),
});

const message = (sequence: number, role: "user" | "agent", turn_id: string): Message =>
  ({ message_id: `m${sequence}`, sequence, revision: 1, role, turn_id, parts: [] }) as unknown as Message;

function after(state: SessionState, { what, turn }: Step): SessionState {
  const { messages } = state;
  const turn_id = TURNS[turn]!;
  const last = messages.at(-1);
  switch (what) {
    case "start":
      return { ...state, turn: { turn_id, started_at: 0 }, queue: [] };
    case "finish": {
      const { turn: _, ...rest } = state;
      return rest;
    }
    case "queue":
      return { ...state, queue: [{ turn_id, message_id: last?.message_id ?? "m0" }] };
    case "grow":
      if (!last) return state;
      return { ...state, messages: [...messages.slice(0, -1), { ...last, revision: last.revision + 1 }] };
    default:
      return { ...state, messages: [...messages, message(messages.length + 1, what, turn_id)] };
  }
}

const START = { messages: [], queue: [] } as unknown as SessionState;

test("T1 rows that follow every change equal rows that are read anew, and what did not change stays the same object", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const reader = new RowReader();
      let state = START;
      let held: readonly Group[] = [];
      for (const each of steps) {
        state = after(state, each);
        const groups = reader.read(state, SEEN);
        expect(groups).toEqual(new RowReader().read(state, SEEN));
        const rows = new Map(held.flatMap((group) => group.rows.map((row) => [row.message, row])));
        for (const row of groups.flatMap((group) => group.rows)) {
          const old = rows.get(row.message);
          if (old && JSON.stringify(old) === JSON.stringify(row)) expect(row).toBe(old);
        }
        held = groups;
      }
    }),
  );
});
