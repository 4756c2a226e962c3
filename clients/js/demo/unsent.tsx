/** Commands that the server has not answered yet: prompts below the conversation, others in words. */

import type {
  CommandOp,
  Message,
  PromptBody,
  SessionHandle,
  UnsentCommand,
  UnsentPrompt,
} from "../src/index.ts";
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

const COMMANDS: Readonly<Record<CommandOp, string>> = {
  prompt: "A message",
  "interaction.respond": "An answer to what the agent asks",
  "session.create": "A new session",
  "session.update": "A change of the session",
  "session.fork": "A fork",
  "session.archive": "To the archive",
  "session.delete": "A deletion",
};

export function wordsFor({ op, body }: UnsentCommand): string {
  const text = op === "prompt" ? textOf(body as PromptBody) : "";
  return text || COMMANDS[op];
}

/** Commands besides prompts that came to nothing, and for which nobody waits any more who would say so. */
export function FailedCommands({
  session,
  items,
}: {
  session: SessionHandle;
  items: readonly UnsentCommand[];
}) {
  const failed = items.filter((command) => command.state === "failed");
  return (
    <>
      {failed.map((command) => (
        <div class="notice error" role="alert" key={command.client_request_id}>
          <p>
            <strong>Not done:</strong> {wordsFor(command)}. {sentence(command.error)}
          </p>
          <div class="notice-actions">
            <button
              type="button"
              class="button"
              onClick={() => void session.retry(command.client_request_id)}
            >
              Try again
            </button>
            <button
              type="button"
              class="button"
              onClick={() => void session.discard(command.client_request_id)}
            >
              Dismiss
            </button>
          </div>
        </div>
      ))}
    </>
  );
}

const filesOf = (body: PromptBody) =>
  "parts" in body ? body.parts.flatMap((part) => (part.type === "file" ? [part] : [])) : [];

const WORDS = { waiting: "Waits to be sent", sending: "Sending…", failed: "Not sent" } as const;

function wordsOf({ state, error }: UnsentPrompt): string {
  if (state === "sending" || !error) return WORDS[state];
  if (error.code === "draining") return "Waits until the server has restarted";
  return `${WORDS[state]}: ${sentence(error)}`;
}

export function UnsentItem({ prompt, session }: { prompt: UnsentPrompt; session: SessionHandle }) {
  const { client_request_id, state, body } = prompt;
  return (
    <article class="message user unsent" aria-label="Your message, not sent yet" data-unsent={state}>
      <div class="bubble">
        {filesOf(body).map((file, index) => (
          <FileView key={index} file={file} />
        ))}
        <div class="plain">{textOf(body)}</div>
      </div>
      <p class="meta">
        {wordsOf(prompt)}
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
