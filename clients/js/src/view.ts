/**
 * SessionView: one Session as a client sees it, and the merge algorithm of "The client's view" in SPEC.md.
 *
 * A plain object without I/O: frames go in, and `receive` says what to do. What is held and how it changes is `held`;
 * here is whether a frame comes at the right time. Inside, Messages are mutable and only marked as changed; outside,
 * `state` is immutable and is made when somebody looks. So any number of deltas between two looks costs one copy of
 * what changed.
 */

import { SnapshotCollector } from "./collector.ts";
import { defined } from "./defined.ts";
import type { SessionFrame, Snapshot } from "./frames.ts";
import { type Change, HeldSession } from "./held.ts";
import type {
  ActiveTurn,
  Message,
  Mutation,
  Page,
  PendingInteraction,
  QueuedPrompt,
  Session,
} from "./types.ts";

export type ViewStatus = "loading" | "live" | "resyncing" | "stale" | "error";

/** What became of a frame; `reload` asks the owner of the view to send a `reload` request. */
export type Effect = Change | "buffered";

export interface ViewState {
  readonly session_id: string;
  readonly status: ViewStatus;
  readonly reason?: string;
  readonly epoch?: string;
  /** 0 before the first snapshot. */
  readonly seq: number;
  readonly session?: Session;
  readonly messages: readonly Message[];
  readonly turn?: ActiveTurn;
  readonly queue: readonly QueuedPrompt[];
  readonly interactions: readonly PendingInteraction[];
  readonly total: number;
  readonly has_more: boolean;
  readonly next_before_sequence?: number;
}

/** Mutations kept while no state is there to apply them to. */
export const MAX_BUFFERED = 10_000;

export class SessionView {
  readonly session_id: string;
  #status: ViewStatus = "loading";
  #reason: string | undefined;
  #epoch: string | undefined;
  #seq = 0;
  readonly #held = new HeldSession();

  readonly #collector = new SnapshotCollector();
  #buffer: Mutation[] = [];
  #state: ViewState | undefined;

  constructor(session_id: string) {
    this.session_id = session_id;
  }

  get status(): ViewStatus {
    return this.#status;
  }

  /** The same object until something changed; then new, with only what changed made new. */
  get state(): ViewState {
    this.#state ??= defined({
      session_id: this.session_id,
      status: this.#status,
      reason: this.#reason,
      epoch: this.#epoch,
      seq: this.#seq,
      messages: this.#held.log.messages,
      ...this.#held.fields,
    });
    return this.#state;
  }

  /** The Message with this id, as `state` has it. */
  message(message_id: string): Message | undefined {
    return this.#held.log.message(message_id);
  }

  receive(received: SessionFrame | { readonly op: string }): Effect {
    const frame = received as SessionFrame;
    if (this.#status === "error" || frame.session_id !== this.session_id) return "ignored";
    switch (frame.op) {
      case "snapshot":
        return this.#snapshot(frame);
      case "mutation":
        return this.#mutation(frame);
      case "reload":
        this.#forgetFlow();
        if (this.#status === "live") this.#setStatus("resyncing");
        return "reload";
      case "unsubscribed":
        this.fail(frame.reason);
        return "applied";
      default:
        return "ignored";
    }
  }

  /** The Session cannot be followed any more. */
  fail(reason: string): void {
    this.#forgetFlow();
    this.#reason = reason;
    this.#setStatus("error");
  }

  disconnected(): void {
    this.#forgetFlow();
    if (this.#status === "live" || this.#status === "resyncing") this.#setStatus("stale");
  }

  /**
   * Takes in the result of a `messages` request that was sent with this `before_sequence` (M3). What lies above the
   * newest Message held is left to the Mutations that bring it, with its Turn and its place in the queue.
   */
  addPage(page: Page, before_sequence?: number): Effect {
    if (this.#status === "loading" || this.#status === "error") return "ignored";
    const effect = this.#held.addPage(page, before_sequence);
    if (effect === "applied") this.#state = undefined;
    return effect;
  }

  // ------------------------------------------------------------------------------------------------ snapshots

  #snapshot(frame: Snapshot): Effect {
    const { epoch, seq } = frame;
    const known = epoch === this.#epoch;
    if (this.#status === "live" && known && seq < this.#seq) {
      this.#collector.clear();
      return "ignored";
    }
    const whole = this.#collector.add(frame);
    if (whole === "buffered" || whole === "ignored") return whole;
    this.#held.take(whole, known);
    this.#epoch = epoch;
    this.#seq = seq;
    this.#setStatus("live");
    return this.#replay();
  }

  /** Applies what came while there was no state; what lies behind a gap is buffered again. */
  #replay(): Effect {
    const buffered = this.#buffer;
    this.#buffer = [];
    let effect: Effect = "applied";
    for (const mutation of buffered) if (this.#mutation(mutation) === "reload") effect = "reload";
    return effect;
  }

  // ------------------------------------------------------------------------------------------------ Mutations

  #mutation(mutation: Mutation): Effect {
    const { epoch, seq } = mutation;
    if (this.#status !== "live") {
      this.#buffer.push(mutation);
      if (this.#buffer.length > MAX_BUFFERED) this.#buffer.shift();
      return "buffered";
    }
    // How far ahead of what is held it is: 1 is the next one.
    const ahead = epoch === this.#epoch ? seq - this.#seq : Infinity;
    if (ahead <= 0) return "ignored";
    const effect = ahead === 1 ? this.#held.apply(mutation) : "reload";
    // Something is missing: the owner shall reload, once for each loss.
    if (effect === "reload") this.#setStatus("resyncing");
    else this.#seq = seq;
    this.#state = undefined;
    return effect;
  }

  // ---------------------------------------------------------------------------------------------------- state

  #forgetFlow(): void {
    this.#collector.clear();
    this.#buffer = [];
  }

  #setStatus(status: ViewStatus): void {
    this.#status = status;
    this.#state = undefined;
  }
}
