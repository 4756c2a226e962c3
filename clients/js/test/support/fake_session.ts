/** FakeSession: one Session of FakeServer: history, the running Turn and everything that it publishes. */

import type {
  Message,
  MessageMutation,
  Mutation,
  Page,
  Part,
  PartInput,
  PartMutation,
  QueuedPrompt,
  Receipt,
  Session,
  Snapshot,
} from "../../src/index.ts";
import { pendingOf } from "./fake_interactions.ts";

/** An omit that works on each member of the union. */
type Bare<T> = T extends unknown
  ? Omit<T, "op" | "epoch" | "seq" | "mutation_id" | "session_id" | "created_at">
  : never;

export class FakeSession {
  readonly session_id: string;
  readonly subscribers = new Set<(frame: object) => void>();
  readonly receipts = new Map<string, { body: string; receipt: Receipt }>();
  /** Answers to Interactions by `client_request_id` (S9). */
  readonly answers = new Map<string, object>();
  messages: Message[] = [];
  queue: QueuedPrompt[] = [];
  turn: { turn_id: string; started_at: number } | undefined;
  title: string | undefined;
  epoch = "e1";
  seq = 0;
  #turns = 0;
  #parts = 0;
  updated_at: number;
  readonly #now: () => number;

  constructor(session_id: string, now: () => number) {
    this.session_id = session_id;
    this.#now = now;
    this.updated_at = now();
  }

  get session(): Session {
    const last = this.messages.at(-1)?.parts.find((part) => part.type === "text");
    return {
      session_id: this.session_id,
      ...(this.title !== undefined && { title: this.title }),
      config: { approval_mode: "ask" },
      created_at: 0,
      updated_at: this.updated_at,
      message_count: this.messages.length,
      executing: this.turn !== undefined,
      ...(last?.type === "text" && { preview: last.text.slice(0, 80) }),
    };
  }

  page(before: number | undefined, limit = 50): Page {
    const below = this.messages.filter((message) => before === undefined || message.sequence < before);
    const items = below.slice(-limit);
    const first = items[0];
    const last = items.at(-1);
    const has_more = below.length > items.length;
    return {
      items,
      total: this.messages.length,
      has_more,
      ...(first && last && { start_sequence: first.sequence, end_sequence: last.sequence }),
      ...(first && has_more && { next_before_sequence: first.sequence }),
    };
  }

  snapshot(): Snapshot {
    return {
      op: "snapshot",
      session_id: this.session_id,
      epoch: this.epoch,
      seq: this.seq,
      session: this.session,
      page: this.page(undefined),
      ...(this.turn && { turn: this.turn }),
      queue: this.queue,
      interactions: pendingOf(this),
      part: 1,
      parts: 1,
    };
  }

  publish(mutation: Bare<Mutation>): void {
    this.seq += 1;
    const { epoch, seq, session_id } = this;
    const frame = {
      op: "mutation",
      epoch,
      seq,
      mutation_id: `mu${seq}`,
      session_id,
      created_at: this.#now(),
    };
    for (const send of this.subscribers) send({ ...frame, ...mutation });
  }

  /** Stores a prompt once for each `client_request_id`; throws the name of an error code (S9). */
  prompt(client_request_id: string, parts: readonly PartInput[]): Receipt {
    const body = JSON.stringify(parts);
    const known = this.receipts.get(client_request_id);
    if (known && known.body !== body) throw new Error("conflict");
    if (known) return { ...known.receipt, outcome: "duplicate" };
    const outcome = this.turn ? "queued" : "started";
    const turn_id = `${this.session_id}.t${++this.#turns}`;
    const message_id = this.#nextMessageId();
    const idle = this.turn === undefined;
    // A prompt waits until its Turn begins, be it only for the blink between two Mutations.
    this.queue = [...this.queue, { turn_id, message_id }];
    const { sequence } = this.#add(
      "user",
      turn_id,
      parts.map((part) => this.#part(part)),
    );
    if (idle) this.start(turn_id);
    const receipt: Receipt = { outcome, turn_id, message_id, sequence };
    this.receipts.set(client_request_id, { body, receipt });
    return receipt;
  }

  start(turn_id: string): void {
    this.queue = this.queue.filter((queued) => queued.turn_id !== turn_id);
    this.turn = { turn_id, started_at: this.#now() };
    this.publish({ variant: "turn", type: "start", turn_id });
  }

  /** Opens an Agent Message with one empty streaming text Part. */
  open(): Message {
    const part = this.#part({ type: "text", text: "", state: "streaming" });
    return this.#add("agent", this.turn?.turn_id, [part]);
  }

  addPart(message_id: string, fields: object): Part {
    const message = this.message(message_id);
    const part = this.#part(fields, message.parts.length + 1) as PartMutation["part"];
    const revision = message.revision + 1;
    this.#put({ ...message, revision, parts: [...message.parts, part] });
    this.publish({ variant: "part", type: part.type, message_id, revision, part_id: part.part_id, part });
    return part;
  }

  /** Publishes a Part in a new state. */
  setPart(message_id: string, part: Part): void {
    const message = this.message(message_id);
    const revision = message.revision + 1;
    const parts = message.parts.map((other) => (other.part_id === part.part_id ? part : other));
    this.#put({ ...message, revision, parts });
    const changed = part as PartMutation["part"];
    this.publish({
      variant: "part",
      type: part.type,
      message_id,
      revision,
      part_id: part.part_id,
      part: changed,
    });
  }

  append(message_id: string, part_id: string, delta: string, type: "text" | "reasoning" = "text"): void {
    const message = this.message(message_id);
    const revision = message.revision + 1;
    const parts = message.parts.map((part) =>
      part.part_id === part_id && "text" in part ? { ...part, text: part.text + delta } : part,
    );
    this.#put({ ...message, revision, parts });
    this.publish({ variant: "delta", type, message_id, revision, part_id, delta });
  }

  /** Closes the streaming Message, if there is one. */
  close(extra: readonly object[] = []): void {
    const message = this.messages.at(-1);
    if (message?.state !== "streaming") return;
    const closed = message.parts.map((part) =>
      part.type === "text" || part.type === "reasoning" ? { ...part, state: "done" as const } : part,
    );
    const more = extra.map((fields, index) => this.#part(fields, closed.length + index + 1));
    const whole: Message = {
      ...message,
      revision: message.revision + 1,
      state: "done",
      parts: [...closed, ...more],
    };
    this.#put(whole);
    this.#publishMessage(whole);
  }

  /** Ends the running Turn; the next one of the queue starts. */
  finish(status: "completed" | "failed" | "stopped" = "completed"): void {
    const { turn } = this;
    if (!turn) return;
    this.turn = undefined;
    this.publish({ variant: "turn", type: "finish", turn_id: turn.turn_id, status });
    const next = this.queue[0];
    if (next) this.start(next.turn_id);
  }

  setTitle(title: string): void {
    this.title = title;
    this.publish({ variant: "session", type: "title", title });
  }

  update({ title }: { title?: string }): Session {
    if (title !== undefined) this.setTitle(title);
    return this.session;
  }

  #nextMessageId(): string {
    return `${this.session_id}.m${this.messages.length + 1}`;
  }

  #add(role: "user" | "agent", turn_id: string | undefined, parts: readonly Part[]): Message {
    const sequence = this.messages.length + 1;
    this.updated_at = this.#now();
    const message: Message = {
      message_id: this.#nextMessageId(),
      session_id: this.session_id,
      ...(turn_id !== undefined && { turn_id }),
      sequence,
      revision: 1,
      role,
      ...(role === "agent" && { state: "streaming" }),
      visibility: "visible",
      created_at: this.#now(),
      updated_at: this.#now(),
      parts,
    };
    this.messages.push(message);
    this.#publishMessage(message);
    return message;
  }

  #publishMessage(message: Message): void {
    const { message_id, sequence, revision, role, turn_id } = message;
    const turn = turn_id === undefined ? {} : { turn_id };
    const whole = message as MessageMutation["message"];
    this.publish({ variant: "message", type: role, message_id, sequence, revision, ...turn, message: whole });
  }

  message(message_id: string): Message {
    const message = this.messages.find((item) => item.message_id === message_id);
    if (!message) throw new Error(`no Message ${message_id}`);
    return message;
  }

  #put(message: Message): void {
    this.messages[message.sequence - 1] = message;
  }

  #part(fields: object, sequence = 1): Part {
    this.#parts += 1;
    return { part_id: `${this.session_id}.p${this.#parts}`, sequence, ...fields } as Part;
  }
}
