/** A Message: its Parts, what can be done with it, and what became of it. */

import { memo } from "preact/compat";
import { useCallback } from "preact/hooks";
import type { InteractionPart, Message } from "../src/index.ts";
import { CopyButton } from "./copy.tsx";
import { Icon } from "./icons.tsx";
import { PartItem } from "./parts/part.tsx";
import type { Row } from "./rows.ts";
import { useTools } from "./session_context.ts";

export const MessageItem = memo(({ row }: { row: Row }) => {
  const { message, note, unread, last } = row;
  const tools = useTools();
  const user = message.role === "user";
  const asked = interactionsOf(message);
  const retry = useCallback(() => tools.retry(message), [tools, message]);
  return (
    <>
      {unread && (
        <p class="unread-mark">
          <span>New</span>
        </p>
      )}
      <article
        class={`message ${message.role}`}
        aria-label={user ? "You" : "Agent"}
        data-message-id={message.message_id}
        data-role={message.role}
        data-state={message.state ?? "done"}
        data-revision={message.revision}
      >
        <div class={user ? "bubble" : "parts"}>
          {message.parts.map((part) => {
            if (part.type === "interaction" && asked.get(part.tool_call_id) === part) return null;
            return (
              <PartItem
                key={part.part_id}
                part={part}
                user={user}
                interaction={part.type === "tool" ? asked.get(part.tool_call_id) : undefined}
                onRetry={last ? retry : undefined}
              />
            );
          })}
        </div>
        {note !== undefined && <p class="meta">{note}</p>}
        {message.state !== "streaming" && <MessageActions message={message} />}
      </article>
    </>
  );
});

/** The newest Interaction of each Tool that has its card in this Message: it is shown in that card. */
function interactionsOf({ parts }: Message): ReadonlyMap<string, InteractionPart> {
  const asked = new Map<string, InteractionPart>();
  for (const part of parts) if (part.type === "interaction") asked.set(part.tool_call_id, part);
  if (asked.size === 0) return asked;
  const cards = new Set(parts.map((part) => part.type === "tool" && part.tool_call_id));
  for (const tool_call_id of asked.keys()) if (!cards.has(tool_call_id)) asked.delete(tool_call_id);
  return asked;
}

function MessageActions({ message }: { message: Message }) {
  const { fork, live } = useTools();
  return (
    <div class="message-actions">
      <CopyButton label="Copy message" text={() => textOf(message)} />
      <button
        type="button"
        class="tiny-button"
        title="Fork a session from here"
        aria-label="Fork a session from here"
        disabled={!live}
        onClick={() => fork(message)}
      >
        <Icon name="fork" />
      </button>
      <Time at={message.created_at} />
    </div>
  );
}

export const textOf = ({ parts }: Message): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n");

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

function Time({ at }: { at: number }) {
  const date = new Date(at);
  const today = date.toDateString() === new Date().toDateString();
  return <time dateTime={date.toISOString()}>{(today ? CLOCK : DATE).format(date)}</time>;
}
