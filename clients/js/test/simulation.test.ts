/**
 * A whole client and a whole server on virtual time, with a wire that is cut, hangs and goes away, and a server that
 * restarts: in the end both hold the same, and every prompt was carried out exactly once.
 */

import fc from "fast-check";
import { expect, test } from "vitest";
import type { Receipt } from "../src/index.ts";
import { RequestRefused } from "./support/fake_server.ts";
import { Wire } from "./support/wire.ts";

type Event =
  | {
      readonly do:
        "prompt" | "token" | "close" | "finish" | "cut" | "hang" | "wake" | "restart" | "reload" | "older";
    }
  | { readonly do: "away"; readonly ms: number }
  | { readonly do: "pass"; readonly ms: number }
  | { readonly do: "refuse"; readonly count: number };

const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constantFrom("prompt", "token", "token", "close", "finish") }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom("cut", "hang", "wake", "restart", "reload", "older") }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("away" as const), ms: fc.integer({ min: 1, max: 30_000 }) }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant("pass" as const), ms: fc.nat(3_000) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("refuse" as const), count: fc.integer({ min: 1, max: 3 }) }),
  },
);

class Simulation {
  readonly wire = new Wire();
  readonly fake = this.wire.server.create("s1");
  readonly client = this.wire.client({ random: Math.random, onError: () => {} });
  readonly session = this.client.session("s1");
  readonly receipts: Promise<Receipt>[] = [];
  #refusals = 0;
  #epochs = 1;

  constructor() {
    this.wire.server.tick_ms = 1_000;
    this.wire.server.intercept = ({ op }) => {
      if (op === "prompt" && this.#refusals-- > 0) throw new RequestRefused("unavailable", true);
    };
    this.session.subscribe(() => {});
    this.client.connect();
    this.#tick();
  }

  async run(step: Event): Promise<void> {
    const { wire, fake, session } = this;
    const last = fake.messages.at(-1);
    if (step.do === "pass") await wire.clock.advance(step.ms);
    else if (step.do === "refuse") this.#refusals = step.count;
    else if (step.do === "prompt") this.receipts.push(session.prompt(`prompt ${this.receipts.length}`));
    else if (step.do === "token" && fake.turn) {
      const message = last?.state === "streaming" ? last : fake.open();
      fake.append(message.message_id, message.parts[0]!.part_id, `${fake.seq} `);
    } else if (step.do === "close") fake.close();
    else if (step.do === "finish") this.#finish();
    else if (step.do === "wake") wire.wake();
    else if (step.do === "reload") this.#announceReload();
    else if (step.do === "older") void session.loadOlder(2);
    else if (step.do === "restart") this.#restart();
    else if (step.do === "cut") wire.sockets.at(-1)?.drop(1006);
    else if (step.do === "hang" && wire.sockets.length > 0) wire.socket.hung = true;
    else if (step.do === "away") {
      wire.reachable = false;
      wire.clock.setTimeout(() => (wire.reachable = true), step.ms);
    }
  }

  /** Quiet: all that was disturbed can recover. */
  async settle(): Promise<void> {
    this.#refusals = 0;
    await this.wire.clock.advance(300_000);
  }

  /** What everybody who follows is told all the time, so that silence means something. */
  #tick(): void {
    for (const connection of this.wire.server.connections) connection.send({ op: "tick" });
    this.wire.clock.setTimeout(() => this.#tick(), this.wire.server.tick_ms);
  }

  #finish(): void {
    this.fake.close();
    this.fake.finish();
  }

  #announceReload(): void {
    for (const connection of this.wire.server.connections) {
      connection.send({ op: "reload", session_id: "s1", reason: "lagged" });
    }
  }

  #restart(): void {
    for (const connection of this.wire.server.connections) connection.close(1012);
    this.#finish();
    this.fake.epoch = `e${++this.#epochs}`;
    this.fake.seq = 0;
  }
}

test("W7 S9 Q3 J2 whatever happens on the way, both sides end equal and every prompt ran once", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 5, maxLength: 60 }), async (events) => {
      const simulation = new Simulation();
      for (const step of events) await simulation.run(step);
      await simulation.settle();
      const { fake, session, client, receipts } = simulation;
      const state = session.getSnapshot();
      expect(state).toMatchObject({ status: "live", epoch: fake.epoch, seq: fake.seq, unsent: [] });
      expect(state.messages).toEqual(fake.messages.slice(-state.messages.length));
      expect(state.turn).toEqual(fake.turn);
      expect(state.queue).toEqual(fake.queue);
      const prompts = fake.messages.filter((message) => message.role === "user");
      expect(prompts.map(({ parts }) => parts[0])).toMatchObject(
        receipts.map((_, index) => ({ text: `prompt ${index}` })),
      );
      const answers = await Promise.all(receipts);
      expect(answers.map((receipt) => receipt.message_id)).toEqual(
        prompts.map((prompt) => prompt.message_id),
      );
      client.disconnect();
    }),
    { numRuns: 60, interruptAfterTimeLimit: 60_000 },
  );
}, 120_000);
