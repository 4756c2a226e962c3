/**
 * The view against a plain model: whatever the server does and whatever the wire does to the frames, a live view
 * equals the server at the (epoch, seq) that it names.
 */

import fc from "fast-check";
import { expect, test } from "vitest";
import { type Message, type Mutation, SessionView, type Snapshot } from "../src/index.ts";
import { FakeSession } from "./support/fake_session.ts";
import { SESSION } from "./support/frames.ts";

/** Small, so that histories soon reach beyond it. */
const PAGE = 3;

type Action =
  | { readonly do: "serve"; readonly pick: number }
  | { readonly do: "deliver"; readonly count: number }
  | { readonly do: "lose" | "repeat" | "snapshot" | "cut" | "notice" | "restart" };

const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("serve" as const), pick: fc.nat(9) }) },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant("deliver" as const), count: fc.integer({ min: 1, max: 8 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("lose", "repeat", "snapshot", "cut", "notice", "restart"),
    }),
  },
);

/** A server, a client's view, and the frames between them. */
class World {
  readonly server = new FakeSession(SESSION, () => 1);
  readonly view = new SessionView(SESSION);
  #wire: object[] = [];
  #delivered: object[] = [];
  /** What the server's Session was, by epoch and seq. */
  readonly #history = new Map<
    string,
    { messages: Message[]; turn: unknown; queue: unknown; title: unknown }
  >();
  #epochs = 1;

  constructor() {
    this.#record();
    this.server.subscribers.add((frame) => {
      this.#wire.push(structuredClone(frame));
      this.#record();
    });
    this.#sendSnapshot();
  }

  run(step: Action): void {
    if (step.do === "serve") this.#serve(step.pick);
    else if (step.do === "deliver") for (let left = step.count; left > 0; left -= 1) this.#deliver();
    else if (step.do === "lose") this.#wire.shift();
    else if (step.do === "repeat") this.#receive(this.#delivered.at(-1));
    else if (step.do === "snapshot") this.#sendSnapshot();
    else if (step.do === "notice") this.#wire.push({ op: "reload", session_id: SESSION, reason: "lagged" });
    else if (step.do === "cut") this.#cut();
    else this.#restart();
  }

  /** Everything that is under way arrives; a last snapshot heals what nothing would show any more. */
  finish(): void {
    while (this.#wire.length > 0) this.#deliver();
    this.#sendSnapshot();
    while (this.#wire.length > 0) this.#deliver();
    expect(this.view.status).toBe("live");
    expect(this.view.state).toMatchObject({ epoch: this.server.epoch, seq: this.server.seq });
    this.#compare();
  }

  #record(): void {
    const { epoch, seq, messages, turn, queue, title } = this.server;
    this.#history.set(`${epoch}/${seq}`, structuredClone({ messages, turn, queue, title }));
  }

  #deliver(): void {
    this.#receive(this.#wire.shift());
  }

  #receive(frame: object | undefined): void {
    if (!frame) return;
    this.#delivered.push(frame);
    if (this.view.receive(frame as Mutation) === "reload") this.#sendSnapshot();
    this.#compare();
  }

  #compare(): void {
    const { status, epoch, seq, messages, turn, queue, session, has_more, total } = this.view.state;
    if (status !== "live") return;
    const then = this.#history.get(`${epoch}/${seq}`);
    const first = messages[0]?.sequence ?? 1;
    expect(messages).toEqual(then?.messages.slice(first - 1));
    expect({ turn, queue, title: session?.title }).toEqual({
      turn: then?.turn,
      queue: then?.queue,
      title: then?.title,
    });
    expect(has_more).toBe(first > 1);
    expect(total).toBe(then?.messages.length);
  }

  #serve(pick: number): void {
    const { server } = this;
    const last = server.messages.at(-1);
    const streaming = last?.state === "streaming" ? last : undefined;
    if (pick === 0) server.prompt(`c${server.seq}${server.epoch}`, [{ type: "text", text: "prompt" }]);
    else if (pick === 1) server.setTitle(`title ${server.seq}`);
    else if (!server.turn) return;
    else if (!streaming) server.open();
    else if (pick === 2)
      server.close([{ type: "error", scope: "turn", code: "x", message: "", recoverable: true }]);
    else if (pick === 3)
      server.addPart(streaming.message_id, { type: "reasoning", text: "", state: "streaming" });
    else if (pick === 4) {
      server.close();
      server.finish();
    } else {
      const part = streaming.parts[server.seq % streaming.parts.length]!;
      const type = part.type === "reasoning" ? "reasoning" : "text";
      server.append(streaming.message_id, part.part_id, `[${server.seq}]`, type);
    }
  }

  #sendSnapshot(): void {
    const { server } = this;
    const whole: Snapshot = structuredClone({ ...server.snapshot(), page: server.page(undefined, PAGE) });
    const items = whole.page.items;
    // Every other snapshot comes in parts.
    if (server.seq % 2 === 0 || items.length < 2) return void this.#wire.push(whole);
    const parts = items.length;
    return items.forEach((item, index) => {
      const lists = index === 0 ? {} : { queue: [], interactions: [] };
      this.#wire.push({ ...whole, ...lists, page: { ...whole.page, items: [item] }, part: index + 1, parts });
    });
  }

  #cut(): void {
    this.#wire = [];
    this.view.disconnected();
    this.#sendSnapshot();
  }

  #restart(): void {
    const { server } = this;
    this.#wire = [];
    this.view.disconnected();
    server.close();
    server.epoch = `e${++this.#epochs}`;
    server.seq = 0;
    server.turn = undefined;
    server.queue = [];
    this.#delivered = [];
    this.#wire = [];
    this.#record();
    this.#sendSnapshot();
  }
}

test("J1 J2 W5 a live view equals the server at its epoch and seq, whatever happens to the frames", () => {
  fc.assert(
    fc.property(fc.array(action, { maxLength: 80 }), (actions) => {
      const world = new World();
      for (const step of actions) world.run(step);
      world.finish();
    }),
    { numRuns: 300 },
  );
});
