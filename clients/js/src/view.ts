/**
 * SessionView: one Session as a client sees it, and the merge algorithm of "The client's view" in SPEC.md.
 *
 * A plain object without I/O: frames go in, and `receive` says what to do. Inside, Messages are mutable and only
 * marked as changed; outside, `state` is immutable and is made when somebody looks. So any number of deltas
 * between two looks costs one copy of what changed.
 */

import { SnapshotCollector } from "./collector.ts";
import { defined } from "./defined.ts";
import type { SessionFrame, Snapshot } from "./frames.ts";
import { takeMessage, takePart } from "./interactions.ts";
import { MessageLog } from "./message_log.ts";
import type {
  ActiveTurn,
  DeltaMutation,
  Message,
  MessageMutation,
  Mutation,
  Page,
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
  #session: Session | undefined;
  #turn: ActiveTurn | undefined;
  #queue: readonly QueuedPrompt[] = [];
  #interactions: readonly PendingInteraction[] = [];
  #total = 0;
  #hasMore = false;
  #nextBefore: number | undefined;
  readonly #log = new MessageLog();

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
    this.#state ??= this.#freeze();
    return this.#state;
  }

  /** The Message with this id, as `state` has it. */
  message(message_id: string): Message | undefined {
    return this.#log.message(message_id);
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
    const newest = this.#log.last;
    const cursor = this.#nextBefore;
    const hole = cursor !== undefined && before_sequence !== undefined && before_sequence < cursor;
    if (this.#status === "loading" || this.#status === "error" || newest === undefined || hole)
      return "ignored";
    for (const message of page.items) {
      if (message.sequence > newest) continue;
      const known = this.#log.revisionOf(message.message_id) !== undefined;
      if (this.#log.store(message) && known) this.#takeInteractions(message);
    }
    if (cursor !== undefined && (page.start_sequence ?? 0) < cursor) this.#setCursor(page);
    this.#total = Math.max(this.#total, page.total);
    this.#changed();
    return "applied";
  }

  // ------------------------------------------------------------------------------------------------ snapshots

  #snapshot(frame: Snapshot): Effect {
    if (this.#status === "live" && frame.epoch === this.#epoch && frame.seq < this.#seq) {
      this.#collector.clear();
      return "ignored";
    }
    const whole = this.#collector.add(frame);
    if (whole === "buffered" || whole === "ignored") return whole;
    this.#take(whole);
    return this.#replay();
  }

  #take(snapshot: Snapshot): void {
    const { epoch, seq, session, page, turn, queue, interactions } = snapshot;
    const ahead = epoch === this.#epoch ? this.#mergeNewest(page) : this.#replace(page);
    this.#epoch = epoch;
    this.#seq = seq;
    this.#session = session;
    this.#turn = turn;
    this.#queue = queue;
    this.#interactions = interactions;
    this.#total = page.total;
    for (const message of ahead) this.#takeInteractions(message);
    this.#setStatus("live");
  }

  #replace(page: Page): readonly Message[] {
    this.#log.clear();
    for (const message of page.items) this.#log.store(message);
    this.#setCursor(page);
    return [];
  }

  /** Puts the page in the place of what it covers; gives the Messages that stay because they are ahead of it. */
  #mergeNewest(page: Page): readonly Message[] {
    const start = page.items[0]?.sequence;
    const { first, last } = this.#log;
    // Between what is held and a page wholly above it there may be a hole.
    if (start === undefined || first === undefined || last === undefined || last < start) {
      return this.#replace(page);
    }
    const running = this.#turn?.turn_id;
    const outdated = this.#log.messages.some(
      (message) => message.sequence < start && mayChange(message, running),
    );
    if (outdated) return this.#replace(page);
    const ahead = this.#log.replaceFrom(start, page.items);
    const cursor = this.#nextBefore;
    const goesDeeper = first < start && (cursor === undefined || cursor < start);
    if (!goesDeeper) this.#setCursor(page);
    return ahead;
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

  #applyMessage({ message, type, turn_id }: MessageMutation): Effect {
    const { message_id, sequence } = message;
    const known = this.#log.revisionOf(message_id) !== undefined;
    if (!this.#log.store(message)) return "ignored";
    this.#takeInteractions(message);
    this.#total = Math.max(this.#total, sequence); // sequences have no holes (M5)
    if (!known && type === "user" && turn_id !== undefined && turn_id !== this.#turn?.turn_id) {
      this.#queue = [...this.#queue, { turn_id, message_id }];
    }
    return "applied";
  }

  #applyPart(mutation: PartMutation): Effect {
    const order = this.#order(mutation);
    if (order !== "applied") return order;
    this.#log.putPart(mutation.message_id, mutation.revision, mutation.part);
    this.#interactions = takePart(this.#interactions, mutation.message_id, mutation.part);
    return "applied";
  }

  #applyDelta(mutation: DeltaMutation): Effect {
    const order = this.#order(mutation);
    if (order !== "applied") return order;
    const { type, message_id, revision, part_id, delta } = mutation;
    const known = this.#log.append(message_id, revision, part_id, growingField(type), delta);
    return known ? "applied" : "reload";
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
    const queue = this.#queue.filter((queued) => queued.turn_id !== turn_id);
    if (queue.length < this.#queue.length) this.#queue = queue;
  }

  #takeInteractions(message: Message): void {
    this.#interactions = takeMessage(this.#interactions, message);
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
    this.#collector.clear();
    this.#buffer = [];
  }

  #setCursor({ has_more, next_before_sequence }: Page): void {
    this.#hasMore = has_more;
    this.#nextBefore = next_before_sequence;
  }

  #setStatus(status: ViewStatus): void {
    this.#status = status;
    this.#changed();
  }

  #changed(): void {
    this.#state = undefined;
  }

  #freeze(): ViewState {
    return defined({
      session_id: this.session_id,
      status: this.#status,
      reason: this.#reason,
      epoch: this.#epoch,
      seq: this.#seq,
      session: this.#session,
      messages: this.#log.messages,
      turn: this.#turn,
      queue: this.#queue,
      interactions: this.#interactions,
      total: this.#total,
      has_more: this.#hasMore,
      next_before_sequence: this.#nextBefore,
    });
  }
}

/** Which field of its Part a `delta` of this type appends to; none for a type of a newer server. */
function growingField(type: string): "text" | "input_text" | undefined {
  if (type === "tool_input") return "input_text";
  return type === "text" || type === "reasoning" ? "text" : undefined;
}

/** Whether the server may have changed this Message unseen; `running` is the Turn that ran when it was last seen. */
function mayChange({ role, state, turn_id, parts }: Message, running: string | undefined): boolean {
  if (role === "user") return false;
  if (state !== "done" || (running !== undefined && turn_id === running)) return true;
  return parts.some((part) => part.type === "action" && part.state === "running");
}
