/** The conversation: Messages in order, what is unsent below them, older ones loaded while scrolling up. */

import { useState } from "preact/hooks";
import type { Message, SessionHandle, SessionState, UnsentPrompt } from "../src/index.ts";
import { MessageItem } from "./message.tsx";
import { sentence } from "./notices.tsx";
import { useScroll } from "./scroll.ts";

interface ConversationProps {
  readonly session: SessionHandle;
  readonly state: SessionState;
}

export function Conversation({ session, state }: ConversationProps) {
  const { messages, has_more, loading_older } = state;
  const [olderFailed, setOlderFailed] = useState<string>();
  const loadOlder = (): void => {
    setOlderFailed(undefined);
    session.loadOlder().catch((error: unknown) => setOlderFailed(sentence(error)));
  };
  const canLoad = has_more && !loading_older && olderFailed === undefined && state.status === "live";
  const { scroller, content, atEnd, toEnd } = useScroll(
    messages[0]?.message_id,
    canLoad ? loadOlder : undefined,
  );
  const streaming = messages.some((message) => message.state === "streaming");

  return (
    <div class="conversation">
      <section ref={scroller} class="scroller" aria-label="Conversation" tabIndex={0}>
        <div
          ref={content}
          class="messages"
          data-status={state.status}
          data-epoch={state.epoch}
          data-seq={state.seq}
        >
          {has_more && (
            <div class="older">
              {olderFailed !== undefined && <p class="notice error">{olderFailed}</p>}
              <button type="button" class="button" disabled={loading_older} onClick={loadOlder}>
                {loading_older ? "Loading older messages…" : "Show older messages"}
              </button>
            </div>
          )}
          {state.status === "loading" && <p class="hint">Loading…</p>}
          {state.status === "live" && messages.length === 0 && state.unsent.length === 0 && (
            <p class="hint">Nothing has been said yet.</p>
          )}
          {messages.map((message) => (
            <MessageItem key={message.message_id} message={message} />
          ))}
          {state.turn && !streaming && <p class="thinking">Thinking…</p>}
          {unseen(state.unsent, messages).map((prompt) => (
            <Unsent key={prompt.client_request_id} prompt={prompt} session={session} />
          ))}
        </div>
      </section>
      {!atEnd && (
        <button type="button" class="button to-end" onClick={toEnd}>
          <span aria-hidden="true">↓</span> Latest
        </button>
      )}
    </div>
  );
}

/**
 * Leaves out a prompt that is out and whose Message has come before its receipt: for a blink it would stand there
 * twice. Only its text tells, since ids of Messages are the server's.
 */
function unseen(unsent: readonly UnsentPrompt[], messages: readonly Message[]): readonly UnsentPrompt[] {
  const first = unsent[0];
  if (first?.state !== "sending") return unsent;
  const last = messages.filter((message) => message.role === "user").at(-1);
  const seen = last?.parts.some((part) => part.type === "text" && part.text === textOf(first));
  return seen ? unsent.slice(1) : unsent;
}

function textOf({ body }: UnsentPrompt): string {
  if ("text" in body) return body.text;
  return body.parts.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("\n");
}

function Unsent({ prompt, session }: { prompt: UnsentPrompt; session: SessionHandle }) {
  const waiting = prompt.state === "waiting";
  return (
    <article class="message user unsent" aria-label="Your message, not sent yet" data-unsent={prompt.state}>
      <div class="bubble">
        <div class="plain">{textOf(prompt)}</div>
      </div>
      <p class="meta">
        {waiting ? "Waits to be sent" : "Sending…"}
        {waiting && (
          <button
            type="button"
            class="link-button"
            onClick={() => {
              session.discard(prompt.client_request_id);
            }}
          >
            Discard
          </button>
        )}
      </p>
    </article>
  );
}
