/** TurnStream: one Turn of a Session as a stream of chunks, until it is over or waits for an approval. */

import type { UIMessage, UIMessageChunk } from "ai";
import type { Client } from "../client.ts";
import type { SessionHandle, SessionState } from "../session.ts";
import type { ErrorPart, Message, Mutation, Part, TurnFinish } from "../types.ts";
import { ChunkFeed } from "./chunks.ts";
import { approvalsOf } from "./ui_messages.ts";

export interface TurnStreamOptions {
  readonly client: Client;
  readonly session: SessionHandle;
  readonly turn_id: string;
  /** Only Agent Messages after this `sequence`: a Turn may have begun before the prompt that joined it. */
  readonly after: number;
  /** The UIMessage that is gone on with, when a part of these Messages has been told already. */
  readonly told?: UIMessage | undefined;
  /** Approvals that were answered just now: the view may not have heard of that yet. */
  readonly answered?: ReadonlySet<string> | undefined;
  readonly abortSignal?: AbortSignal | undefined;
  /** The reader wants no more. */
  readonly onAbort: () => void;
}

/** A stream that lives as long as it is read: errors of the Turn come as `error` chunks, a stop as `abort`. */
export function turnStream(options: TurnStreamOptions): ReadableStream<UIMessageChunk> {
  let close: () => void;
  return new ReadableStream({
    start: (controller) => {
      close = follow(options, controller);
    },
    cancel: () => close(),
  });
}

function follow(
  { client, session, turn_id, after, told, answered, abortSignal, onAbort }: TurnStreamOptions,
  controller: ReadableStreamDefaultController<UIMessageChunk>,
): () => void {
  const feed = new ChunkFeed();
  const leaving: (() => void)[] = [];
  let adopted = told === undefined;
  let finish: TurnFinish | undefined;
  let isClosed = false;

  const release = (): void => {
    isClosed = true;
    for (const leave of leaving.splice(0)) leave();
  };
  const close = (...chunks: readonly UIMessageChunk[]): void => {
    for (const chunk of [...feed.end(), ...chunks]) controller.enqueue(chunk);
    controller.close();
    release();
  };
  const look = (): void => {
    if (isClosed) return;
    const state = session.getSnapshot();
    const messages = state.messages.filter(
      (message) => message.role === "agent" && message.turn_id === turn_id && message.sequence > after,
    );
    if (told && !adopted && messages.length > 0) feed.adopt(told, messages);
    adopted ||= messages.length > 0;
    for (const chunk of feed.take(messages)) controller.enqueue(chunk);
    const { connection } = client.getSnapshot();
    if (state.status === "error") close(error(state.reason ?? "the session cannot be followed"));
    else if (connection.status === "closed") close(error(connection.reason ?? "the connection is closed"));
    else if (isOver(state, turn_id, after)) close(outcome(finish, messages));
    else if (isWaiting(messages, answered)) close({ type: "finish" });
  };
  const abort = (): void => {
    if (isClosed) return;
    close({ type: "abort" });
    onAbort();
  };

  leaving.push(
    session.onMutation((mutation: Mutation) => {
      if (mutation.variant === "turn" && mutation.type === "finish" && mutation.turn_id === turn_id)
        finish = mutation;
    }),
    session.subscribe(look),
    client.subscribe(look),
    () => abortSignal?.removeEventListener("abort", abort),
  );
  if (abortSignal?.aborted) abort();
  else abortSignal?.addEventListener("abort", abort);
  look();
  return release;
}

/** Whether the Turn is known to be over: the prompt is there, and it neither runs nor waits. */
function isOver(state: SessionState, turn_id: string, after: number): boolean {
  const isKnown = state.status === "live" && state.total >= after;
  return (
    isKnown && state.turn?.turn_id !== turn_id && !state.queue.some((queued) => queued.turn_id === turn_id)
  );
}

/** States of Parts that move on by themselves. */
const BUSY = ["streaming", "input-streaming", "ready", "running"];

/** Whether nothing will happen before the user has answered an approval. */
function isWaiting(messages: readonly Message[], answered?: ReadonlySet<string>): boolean {
  const parts = messages.flatMap((message) => message.parts);
  const pending = [...approvalsOf(parts).values()].filter((part) => part.status === "pending");
  if (pending.length === 0 || pending.some((part) => answered?.has(part.interaction_id))) return false;
  return !parts.some((part) => "state" in part && BUSY.includes(part.state ?? ""));
}

const error = (errorText: string): UIMessageChunk => ({ type: "error", errorText });

/** How the Turn ended: as its `finish` said, or when that was missed as the stored reason says. */
function outcome(finish: TurnFinish | undefined, messages: readonly Message[]): UIMessageChunk {
  const parts = messages.flatMap((message) => message.parts);
  // That an answer reached the model's limit ends no Turn.
  const ends = (part: Part): part is ErrorPart => part.type === "error" && part.code !== "length";
  const stored = parts.filter(ends).at(-1);
  const status =
    finish?.status ?? (stored ? (stored.code === "stopped" ? "stopped" : "failed") : "completed");
  const reason = finish?.error?.message ?? stored?.message;
  if (status === "failed") return error(reason ?? "the turn failed");
  if (status === "stopped") return { type: "abort", ...(reason !== undefined && { reason }) };
  return { type: "finish" };
}
