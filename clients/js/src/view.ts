/**
 * SessionView: one Session as a client sees it, and the merge algorithm of "The client's view" in SPEC.md.
 *
 * A plain object without I/O: frames go in, and `receive` says what to do. Inside, Messages are mutable and only
 * marked as changed; outside, `state` is immutable and is made when somebody looks. So any number of deltas
 * between two looks costs one copy of what changed.
 */

import type { SessionFrame, Snapshot } from "./frames.ts";
import { MessageLog } from "./message_log.ts";
import type {
  ActiveTurn,
  DeltaMutation,
  Message,
  MessageMutation,
  Mutation,
  Page,
  Part,
  PartMutation,
  PendingInteraction,
  QueuedPrompt,
  Session,
} from "./types.ts";

export type ViewStatus = "loading" | "live" | "resyncing" | "stale" | "error";

/** What became of a frame; `reload` asks the owner of the view to send a `reload` request. */
export type Effect = "applied" | "ignored" | "buffered" | "reload";

export interface ViewState {
  readonly session_id: string;
  readonly status: ViewStatus;
  readonly reason?: string;
  readonly epoch?: string;
  readonly seq?: number;
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
  #session: Session | undefined;
  #turn: ActiveTurn | undefined;
  #queue: readonly QueuedPrompt[] = [];
  #interactions: readonly PendingInteraction[] = [];
  #total = 0;
  #hasMore = false;
  #nextBefore: number | undefined;
  readonly #log = new MessageLog();

  /** Frames of a snapshot that comes in several parts. */
  #collected: Snapshot[] = [];
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
    this.#state ??= this.#freeze();
    return this.#state;
  }

  receive(frame: SessionFrame | { readonly op: string }): Effect {
    if (this.#status === "error") return "ignored";
    if (!("session_id" in frame) || frame.session_id !== this.session_id) return "ignored";
    switch (frame.op) {
      case "snapshot":
        return this.#snapshot(frame);
      case "mutation":
        return this.#mutation(frame);
      case "reload":
        return this.#reloadNotice();
      case "unsubscribed":
        this.#forgetFlow();
        this.#reason = frame.reason;
        this.#setStatus("error");
        return "applied";
      default:
        return "ignored";
    }
  }

  disconnected(): void {
    this.#forgetFlow();
    if (this.#status === "live" || this.#status === "resyncing") this.#setStatus("stale");
  }

  /** Takes the result of a `messages` request in. */
  addPage(page: Page): void {
    const first = this.#log.first;
    const start = page.start_sequence;
    if (first === undefined || (start !== undefined && start < first)) {
      this.#hasMore = page.has_more;
      this.#nextBefore = page.next_before_sequence;
    }
    for (const message of page.items) this.#log.store(message);
    this.#total = Math.max(this.#total, page.total);
    this.#changed();
  }

  // ------------------------------------------------------------------------------------------------ snapshots

  #snapshot(frame: Snapshot): Effect {
    if (this.#status === "live" && frame.epoch === this.#epoch && frame.seq < this.#seq) {
      this.#collected = [];
      return "ignored";
    }
    const before = this.#collected.at(-1);
    if (frame.part === 1) this.#collected = [frame];
    else if (before && continues(frame, before)) this.#collected.push(frame);
    else {
      this.#collected = [];
      return "ignored";
    }
    if (frame.part < frame.parts) return "buffered";
    const parts = this.#collected;
    this.#collected = [];
    return this.#replace(frame, joinPages(parts.map((part) => part.page)));
  }

  #replace(frame: Snapshot, page: Page): Effect {
    this.#mergePage(frame.epoch === this.#epoch, page);
    this.#epoch = frame.epoch;
    this.#seq = frame.seq;
    this.#session = frame.session;
    this.#turn = frame.turn;
    this.#queue = frame.queue;
    this.#interactions = frame.interactions;
    this.#total = page.total;
    this.#setStatus("live");
    return this.#replay();
  }

  #mergePage(sameEpoch: boolean, page: Page): void {
    const start = page.start_sequence;
    const last = this.#log.last;
    if (sameEpoch && start !== undefined && last !== undefined && last >= start) {
      const first = this.#log.first;
      this.#log.replaceFrom(start, page.items);
      if (first !== undefined && first < start) return; // what lies below is still known, has_more with it
    } else {
      this.#log.clear();
      for (const message of page.items) this.#log.store(message);
    }
    this.#hasMore = page.has_more;
    this.#nextBefore = page.next_before_sequence;
  }

  #replay(): Effect {
    const buffered = this.#buffer;
    this.#buffer = [];
    const snapshotSeq = this.#seq;
    let effect: Effect = "applied";
    for (const mutation of buffered) {
      if (mutation.epoch === this.#epoch && mutation.seq <= snapshotSeq) continue;
      if (this.#mutation(mutation) === "reload") effect = "reload";
    }
    return effect;
  }

  // ------------------------------------------------------------------------------------------------ Mutations

  #mutation(mutation: Mutation): Effect {
    if (this.#status !== "live") {
      this.#buffer.push(mutation);
      if (this.#buffer.length > MAX_BUFFERED) this.#buffer.shift();
      return "buffered";
    }
    if (mutation.epoch !== this.#epoch) return this.#lose();
    if (mutation.seq <= this.#seq) return "ignored";
    if (mutation.seq > this.#seq + 1) return this.#lose();
    const effect = this.#apply(mutation);
    if (effect === "reload") return this.#lose();
    this.#seq = mutation.seq;
    this.#changed();
    return effect;
  }

  #apply(mutation: Mutation): Effect {
    switch (mutation.variant) {
      case "message":
        return this.#applyMessage(mutation);
      case "part":
        return this.#applyPart(mutation);
      case "delta":
        return this.#applyDelta(mutation);
      case "turn":
        this.#applyTurn(mutation);
        return "applied";
      case "session":
        if (this.#session && mutation.type === "title") {
          this.#session = { ...this.#session, title: mutation.title };
        } else if (this.#session && mutation.type === "config") {
          this.#session = { ...this.#session, config: mutation.config };
        }
        return "applied";
      default:
        return "applied"; // file_diff, warning and kinds of a newer server change no state
    }
  }

  #applyMessage({ message }: MessageMutation): Effect {
    const known = this.#log.revisionOf(message.message_id) !== undefined;
    const last = this.#log.last;
    if (!this.#log.store(message)) return "ignored";
    if (!known) {
      if (last === undefined || message.sequence > last) this.#total += 1;
      this.#enqueue(message);
    }
    for (const part of message.parts) this.#takeInteraction(message.message_id, part);
    return "applied";
  }

  #enqueue({ role, turn_id, message_id }: Message): void {
    if (role !== "user" || turn_id === undefined || turn_id === this.#turn?.turn_id) return;
    this.#queue = [...this.#queue, { turn_id, message_id }];
  }

  #applyPart(mutation: PartMutation): Effect {
    const order = this.#order(mutation);
    if (order !== "applied") return order;
    this.#log.putPart(mutation.message_id, mutation.revision, mutation.part);
    this.#takeInteraction(mutation.message_id, mutation.part);
    return "applied";
  }

  #applyDelta(mutation: DeltaMutation): Effect {
    const order = this.#order(mutation);
    if (order !== "applied") return order;
    const field = mutation.type === "tool_input" ? "input_text" : "text";
    const { message_id, revision, part_id, delta } = mutation;
    return this.#log.append(message_id, revision, part_id, field, delta) ? "applied" : "reload";
  }

  /** Whether a `part` or `delta` is the next change of its Message. */
  #order({ message_id, revision }: PartMutation | DeltaMutation): Effect {
    const current = this.#log.revisionOf(message_id);
    if (current === undefined || revision > current + 1) return "reload";
    return revision === current + 1 ? "applied" : "ignored";
  }

  #applyTurn({ type, turn_id, created_at }: Mutation & { variant: "turn" }): void {
    if (type === "start") this.#turn = { turn_id, started_at: created_at };
    else if (type !== "finish") return;
    else if (this.#turn?.turn_id === turn_id) this.#turn = undefined;
    if (this.#queue.some((queued) => queued.turn_id === turn_id)) {
      this.#queue = this.#queue.filter((queued) => queued.turn_id !== turn_id);
    }
  }

  #takeInteraction(message_id: string, part: Part): void {
    if (part.type !== "interaction") return;
    const { interaction_id, interaction_type, tool_call_id, part_id, revision, request } = part;
    const others = this.#interactions.filter((other) => other.interaction_id !== interaction_id);
    if (part.status !== "pending") {
      if (others.length < this.#interactions.length) this.#interactions = others;
      return;
    }
    this.#interactions = [
      ...others,
      { interaction_id, interaction_type, tool_call_id, message_id, part_id, revision, request },
    ];
  }

  // ---------------------------------------------------------------------------------------------------- state

  /** Something is missing: the owner shall reload, once for each loss. */
  #lose(): Effect {
    this.#setStatus("resyncing");
    return "reload";
  }

  #reloadNotice(): Effect {
    this.#forgetFlow();
    if (this.#status === "live") this.#setStatus("resyncing");
    return "reload";
  }

  #forgetFlow(): void {
    this.#collected = [];
    this.#buffer = [];
  }

  #setStatus(status: ViewStatus): void {
    this.#status = status;
    this.#changed();
  }

  #changed(): void {
    this.#state = undefined;
  }

  #freeze(): ViewState {
    return {
      session_id: this.session_id,
      status: this.#status,
      ...(this.#reason !== undefined && { reason: this.#reason }),
      ...(this.#epoch !== undefined && { epoch: this.#epoch, seq: this.#seq }),
      ...(this.#session && { session: this.#session }),
      messages: this.#log.messages,
      ...(this.#turn && { turn: this.#turn }),
      queue: this.#queue,
      interactions: this.#interactions,
      total: this.#total,
      has_more: this.#hasMore,
      ...(this.#nextBefore !== undefined && { next_before_sequence: this.#nextBefore }),
    };
  }
}

function continues(frame: Snapshot, before: Snapshot): boolean {
  return (
    frame.epoch === before.epoch &&
    frame.seq === before.seq &&
    frame.parts === before.parts &&
    frame.part === before.part + 1
  );
}

/** The pages of a snapshot's parts as one, whichever way the server laid its Messages out over them. */
function joinPages(pages: readonly Page[]): Page {
  if (pages.length === 1 && pages[0]) return pages[0];
  const items = pages.flatMap((page) => page.items).sort((a, b) => a.sequence - b.sequence);
  const lowest = pages.reduce((low, page) =>
    (page.start_sequence ?? Infinity) < (low.start_sequence ?? Infinity) ? page : low,
  );
  return { ...lowest, items };
}
