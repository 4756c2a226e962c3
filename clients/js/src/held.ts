/**
 * HeldSession: what a view holds of its Session, and how snapshots, pages and Mutations change it ("The client's view"
 * in SPEC.md). Whether a frame is the next one, and what to do when it is not, is `view`.
 */

import type { Snapshot } from "./frames.ts";
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

/** What became of a change; `reload`: something before it is missing. */
export type Change = "applied" | "ignored" | "reload";

/** All but the Messages. */
interface Fields {
  session?: Session;
  turn?: ActiveTurn | undefined;
  queue: readonly QueuedPrompt[];
  interactions: readonly PendingInteraction[];
  total: number;
  has_more: boolean;
  next_before_sequence?: number;
}

export class HeldSession {
  readonly log = new MessageLog();
  readonly fields: Fields = { queue: [], interactions: [], total: 0, has_more: false };

  // ------------------------------------------------------------------------------------------- snapshots, pages

  /** Takes a snapshot in the place of everything, or merges one of the same epoch with what is held (W7). */
  take({ session, page, turn, queue, interactions }: Snapshot, merge: boolean): void {
    const ahead = (merge && this.#mergeNewest(page)) || this.#replace(page);
    Object.assign(this.fields, { session, turn, queue, interactions, total: page.total });
    for (const message of ahead) this.#takeInteractions(message);
  }

  #replace(page: Page): readonly Message[] {
    this.log.clear();
    for (const message of page.items) this.log.store(message);
    this.#setCursor(page);
    return [];
  }

  /**
   * Puts the page in the place of what it covers; gives the Messages that stay because they are ahead of it. Undefined
   * where nothing may stay.
   */
  #mergeNewest(page: Page): readonly Message[] | undefined {
    const start = page.items[0]?.sequence;
    const { first, last } = this.log;
    // Between what is held and a page wholly above it there may be a hole.
    if (start === undefined || first === undefined || last === undefined || last < start) return undefined;
    const { turn, next_before_sequence: cursor } = this.fields;
    const isOutdated = (message: Message): boolean =>
      message.sequence < start && mayChange(message, turn?.turn_id);
    if (this.log.messages.some(isOutdated)) return undefined;
    const ahead = this.log.replaceFrom(start, page.items);
    const goesDeeper = first < start && (cursor === undefined || cursor < start);
    if (!goesDeeper) this.#setCursor(page);
    return ahead;
  }

  /** The result of a `messages` request that was sent with this `before_sequence`. */
  addPage(page: Page, before_sequence: number | undefined): Change {
    const { total, next_before_sequence: cursor } = this.fields;
    const newest = this.log.last;
    const hole = cursor !== undefined && before_sequence !== undefined && before_sequence < cursor;
    if (newest === undefined || hole) return "ignored";
    for (const message of page.items) {
      if (message.sequence > newest) continue;
      const known = this.log.revisionOf(message.message_id) !== undefined;
      if (this.log.store(message) && known) this.#takeInteractions(message);
    }
    if (cursor !== undefined && (page.start_sequence ?? 0) < cursor) this.#setCursor(page);
    this.fields.total = Math.max(total, page.total);
    return "applied";
  }

  #setCursor({ has_more, next_before_sequence }: Page): void {
    Object.assign(this.fields, { has_more, next_before_sequence });
  }

  // ------------------------------------------------------------------------------------------------ Mutations

  apply(mutation: Mutation): Change {
    switch (mutation.variant) {
      case "message":
        return this.#applyMessage(mutation);
      case "part":
        return this.#applyPart(mutation);
      case "delta":
        return this.#applyDelta(mutation);
      case "turn":
        this.#applyTurn(mutation);
        break;
      case "session":
        this.#applySession(mutation);
    }
    return "applied"; // file_diff, warning and kinds of a newer server change no state
  }

  #applyMessage({ message, type, turn_id }: MessageMutation): Change {
    const { message_id, sequence } = message;
    const { fields } = this;
    const known = this.log.revisionOf(message_id) !== undefined;
    if (!this.log.store(message)) return "ignored";
    this.#takeInteractions(message);
    fields.total = Math.max(fields.total, sequence); // sequences have no holes (M5)
    if (!known && type === "user" && turn_id !== undefined && turn_id !== fields.turn?.turn_id) {
      fields.queue = [...fields.queue, { turn_id, message_id }];
    }
    return "applied";
  }

  #applyPart(mutation: PartMutation): Change {
    const order = this.#order(mutation);
    if (order !== "applied") return order;
    const { fields } = this;
    const { message_id, revision, part } = mutation;
    this.log.putPart(message_id, revision, part);
    fields.interactions = takePart(fields.interactions, message_id, part);
    return order;
  }

  #applyDelta(mutation: DeltaMutation): Change {
    const order = this.#order(mutation);
    if (order !== "applied") return order;
    const { type, message_id, revision, part_id, delta } = mutation;
    const known = this.log.append(message_id, revision, part_id, growingField(type), delta);
    return known ? order : "reload";
  }

  /** Whether a `part` or `delta` is the next change of its Message. */
  #order({ message_id, revision }: PartMutation | DeltaMutation): Change {
    const current = this.log.revisionOf(message_id);
    if (current === undefined || revision > current + 1) return "reload";
    return revision === current + 1 ? "applied" : "ignored";
  }

  #applyTurn({ type, turn_id, created_at }: Mutation & { variant: "turn" }): void {
    const { fields } = this;
    if (type === "start") fields.turn = { turn_id, started_at: created_at };
    else if (type !== "finish") return;
    else if (fields.turn?.turn_id === turn_id) fields.turn = undefined;
    const queue = fields.queue.filter((queued) => queued.turn_id !== turn_id);
    if (queue.length < fields.queue.length) fields.queue = queue;
  }

  #applySession(mutation: Mutation & { variant: "session" }): void {
    const { session } = this.fields;
    if (!session) return;
    if (mutation.type === "title") this.fields.session = { ...session, title: mutation.title };
    else if (mutation.type === "config") this.fields.session = { ...session, config: mutation.config };
  }

  #takeInteractions(message: Message): void {
    this.fields.interactions = takeMessage(this.fields.interactions, message);
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
