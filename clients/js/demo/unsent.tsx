/** Prompts that the server has not answered yet, below the conversation. */

import type { Message, PromptBody, SessionHandle, UnsentPrompt } from "../src/index.ts";
import { sentence } from "./notices.tsx";
import { FileView } from "./parts/files.tsx";
import { findLast } from "./rows.ts";

/**
 * Leaves out a prompt that is out and whose Message has come before its receipt: for a blink it would stand there
 * twice. Only its text tells, since ids of Messages are the server's.
 */
export function unseen(
  unsent: readonly UnsentPrompt[],
  messages: readonly Message[],
): readonly UnsentPrompt[] {
  const first = unsent[0];
  if (first?.state !== "sending") return unsent;
  const last = findLast(messages, (message) => message.role === "user");
  const seen = last?.parts.some((part) => part.type === "text" && part.text === textOf(first.body));
  return seen ? unsent.slice(1) : unsent;
}

/** The text of a prompt. */
export function textOf(body: PromptBody): string {
  if ("text" in body) return body.text;
  return body.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

const filesOf = (body: PromptBody) =>
  "parts" in body ? body.parts.flatMap((part) => (part.type === "file" ? [part] : [])) : [];

const WORDS = { waiting: "Waits to be sent", sending: "Sending…", failed: "Not sent" } as const;

export function UnsentItem({ prompt, session }: { prompt: UnsentPrompt; session: SessionHandle }) {
  const { client_request_id, state, body, error } = prompt;
  return (
    <article class="message user unsent" aria-label="Your message, not sent yet" data-unsent={state}>
      <div class="bubble">
        {filesOf(body).map((file, index) => (
          <FileView key={index} file={file} />
        ))}
        <div class="plain">{textOf(body)}</div>
      </div>
      <p class="meta">
        {WORDS[state]}
        {state === "failed" && error && `: ${sentence(error)}`}
        {state === "failed" && (
          <button type="button" class="link-button" onClick={() => void session.retry(client_request_id)}>
            Try again
          </button>
        )}
        {state !== "sending" && (
          <button type="button" class="link-button" onClick={() => void session.discard(client_request_id)}>
            Discard
          </button>
        )}
      </p>
    </article>
  );
}
