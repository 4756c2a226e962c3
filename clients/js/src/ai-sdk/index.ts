/**
 * `turnwire/ai-sdk`: a ChatTransport, so that `useChat` of the AI SDK runs on a Session (`ai` 6).
 *
 * The id of the chat is the `session_id`. A Turn becomes one assistant message; it goes on when nobody reads, and
 * `resumeStream()` joins it again from its beginning. Tools run at the server. Where one waits for approval the stream
 * ends, `addToolApprovalResponse` and `sendMessage()` (or `sendAutomaticallyWhen`) answer it, and the message goes on.
 */

import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import type { Client } from "../client.ts";
import { TurnwireError } from "../errors.ts";
import type { Receipt } from "../frames.ts";
import type { SessionHandle, SessionState } from "../session.ts";
import { stopTurn, unlessAborted } from "./abort.ts";
import { turnStream, type TurnStreamOptions } from "./turn_stream.ts";
import { promptParts } from "./ui_messages.ts";

export { toUIMessages } from "./ui_messages.ts";

export interface ChatTransportOptions {
  readonly client: Client;
  /** Whether a chat that has no Session yet gets one with its first message. On by default. */
  readonly createSessions?: boolean;
  /** Whether `stop()` of the chat stops the Turn for everybody; otherwise it only stops reading. On by default. */
  readonly stopTurns?: boolean;
}

type SendOptions = Parameters<ChatTransport<UIMessage>["sendMessages"]>[0];
type ReconnectOptions = Parameters<ChatTransport<UIMessage>["reconnectToStream"]>[0] & {
  readonly abortSignal?: AbortSignal | undefined;
};

export function createChatTransport(options: ChatTransportOptions): TurnwireChatTransport {
  return new TurnwireChatTransport(options);
}

export class TurnwireChatTransport implements ChatTransport<UIMessage> {
  /** What `reconnectToStream` gives begins with the first chunk of the message. */
  readonly resumeStreamIsReplay = true;
  readonly #options: ChatTransportOptions;
  /** Streams opened so far, by chat: one that was followed by another is not stopped with its reader. */
  readonly #opened = new Map<string, number>();

  constructor(options: ChatTransportOptions) {
    this.#options = options;
  }

  async sendMessages(options: SendOptions): Promise<ReadableStream<UIMessageChunk>> {
    const { trigger, chatId, messageId, messages, abortSignal } = options;
    const session = this.#session(chatId);
    const message = messages.filter((item) => messageId === undefined || item.id === messageId).at(-1);
    if (trigger === "regenerate-message" || (messageId !== undefined && message?.role === "user")) {
      throw new Error("Turnwire never changes its history: fork the session to answer a message anew");
    }
    if (message?.role === "assistant") return this.#respond(session, message, abortSignal);
    if (!message) throw new Error("there is no message to send");
    const { turn_id, sequence } = await this.#prompt(session, message, abortSignal);
    return this.#stream(session, turn_id, sequence, abortSignal);
  }

  /** The running Turn from the beginning of its present message; null when none runs. */
  async reconnectToStream({
    chatId,
    abortSignal,
  }: ReconnectOptions): Promise<ReadableStream<UIMessageChunk> | null> {
    const session = this.#session(chatId);
    const state = await this.#known(session, abortSignal);
    const turn_id = state.turn?.turn_id;
    if (turn_id === undefined) return null;
    return this.#stream(session, turn_id, beginningOf(state, turn_id), abortSignal);
  }

  #session(chatId: string): SessionHandle {
    this.#opened.set(chatId, (this.#opened.get(chatId) ?? 0) + 1);
    return this.#options.client.session(chatId);
  }

  async #prompt(
    session: SessionHandle,
    message: UIMessage,
    signal: AbortSignal | undefined,
  ): Promise<Receipt> {
    const { client } = this.#options;
    const { session_id } = session;
    const body = { parts: promptParts(message) };
    const unlessReplaced = this.#unlessReplaced(session_id);
    const send = (): Promise<Receipt> =>
      unlessAborted(
        client,
        () => session.prompt(body),
        signal,
        (receipt, giveUp) =>
          unlessReplaced(() => {
            if (!giveUp()) receipt.then(({ turn_id }) => this.#stop(session, turn_id), noReceipt);
          }),
      );
    try {
      return await send();
    } catch (error) {
      const isMissing = error instanceof TurnwireError && error.code === "not_found";
      if (!isMissing || this.#options.createSessions === false) throw error;
    }
    await unlessAborted(client, () => client.createSession({ session_id }), signal);
    return send();
  }

  /** Sends the answers to approvals that `message` holds, and goes on with it. */
  async #respond(
    session: SessionHandle,
    message: UIMessage,
    abortSignal: AbortSignal | undefined,
  ): Promise<ReadableStream<UIMessageChunk>> {
    const leave = session.subscribe(() => {});
    try {
      const state = await this.#known(session, abortSignal);
      const turn_id = turnOf(state, message) ?? state.turn?.turn_id;
      if (turn_id === undefined) throw new Error("the message belongs to no turn that is known here");
      const answered = new Set<string>();
      for (const part of message.parts) {
        if (!("approval" in part) || part.state !== "approval-responded") continue;
        const { id, approved, reason, descriptor } = part.approval;
        const pending = state.interactions.find((item) => item.interaction_id === id);
        if (!pending) continue; // answered elsewhere: the stream tells how
        // What the user saw, where the message still says it (A5).
        const { revision = pending.revision } = (descriptor ?? {}) as { revision?: number };
        answered.add(id);
        const decision = approved ? "approved" : "denied";
        const response = { decision, ...(reason !== undefined && { reason }) } as const;
        const { client } = this.#options;
        await unlessAborted(client, () => session.respond(id, { revision, response }), abortSignal);
      }
      return this.#stream(session, turn_id, beginningOf(state, turn_id), abortSignal, {
        told: message,
        answered,
      });
    } finally {
      leave();
    }
  }

  #stream(
    session: SessionHandle,
    turn_id: string,
    after: number,
    abortSignal: AbortSignal | undefined,
    more: Pick<TurnStreamOptions, "told" | "answered"> = {},
  ): ReadableStream<UIMessageChunk> {
    const { client } = this.#options;
    const unlessReplaced = this.#unlessReplaced(session.session_id);
    const onAbort = (): void => unlessReplaced(() => this.#stop(session, turn_id));
    return turnStream({ client, session, turn_id, after, abortSignal, onAbort, ...more });
  }

  #stop(session: SessionHandle, turn_id: string): void {
    const { client, stopTurns = true } = this.#options;
    if (stopTurns) void stopTurn(client, session, turn_id);
  }

  /** Runs what it is given, unless the chat has opened another stream since this was called. */
  #unlessReplaced(session_id: string): (run: () => void) => void {
    const opened = this.#opened.get(session_id);
    return (run) =>
      // The AI SDK ends the reader of a stream also when it opens another one in its place.
      queueMicrotask(() => {
        if (opened === this.#opened.get(session_id)) run();
      });
  }

  /** The state once it is the server's. Rejects when it cannot be had. */
  #known(session: SessionHandle, abortSignal: AbortSignal | undefined): Promise<SessionState> {
    const { client } = this.#options;
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const state = session.getSnapshot();
        const { connection } = client.getSnapshot();
        const isMissing = state.status === "error" && state.reason === "not_found";
        if (state.status === "live" || isMissing) settle(() => resolve(state));
        else if (state.status === "error") settle(() => reject(new Error(state.reason)));
        else if (connection.status === "closed") settle(() => reject(new Error(connection.reason)));
        else if (abortSignal?.aborted) settle(() => reject(new DOMException("aborted", "AbortError")));
      };
      const leaving = [session.subscribe(look), client.subscribe(look)];
      const settle = (run: () => void): void => {
        abortSignal?.removeEventListener("abort", look);
        for (const leave of leaving.splice(0)) leave();
        run();
      };
      abortSignal?.addEventListener("abort", look);
      look();
    });
  }
}

/** The `sequence` before the message that the Turn is at: of the last prompt that started or joined it. */
function beginningOf({ messages }: SessionState, turn_id: string): number {
  return messages.filter((item) => item.role === "user" && item.turn_id === turn_id).at(-1)?.sequence ?? 0;
}

function turnOf({ messages }: SessionState, told: UIMessage): string | undefined {
  return messages.find((item) => item.message_id === told.id)?.turn_id;
}

/** A prompt that was refused after its chat had given it up has no Turn to stop, and nobody waits for the reason. */
function noReceipt(error: unknown): void {
  if (!(error instanceof TurnwireError)) throw error;
}
