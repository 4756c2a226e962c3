/** A Message and its Parts. Only Messages that changed are rendered again: the view gives the same objects otherwise. */

import { memo } from "preact/compat";
import type { Message, Part, ToolPart } from "../src/index.ts";
import { MarkdownText } from "./markdown_text.tsx";
import { PlainText } from "./plain_text.tsx";

export const MessageItem = memo(({ message }: { message: Message }) => {
  const user = message.role === "user";
  return (
    <article
      class={`message ${message.role}`}
      aria-label={user ? "You" : "Agent"}
      data-message-id={message.message_id}
      data-role={message.role}
      data-state={message.state ?? "done"}
      data-revision={message.revision}
    >
      <div class={user ? "bubble" : "parts"}>
        {message.parts.map((part) => (
          <PartItem key={part.part_id} part={part} user={user} />
        ))}
      </div>
    </article>
  );
});

const PartItem = memo(({ part, user }: { part: Part; user: boolean }) => {
  switch (part.type) {
    case "text":
      if (user) return <PlainText part_id={part.part_id} text={part.text} />;
      return <MarkdownText part_id={part.part_id} text={part.text} streaming={part.state === "streaming"} />;
    case "reasoning":
      return (
        <details class="fold">
          <summary>{part.state === "streaming" ? "Reasoning…" : "Reasoning"}</summary>
          <PlainText part_id={part.part_id} text={part.text} />
        </details>
      );
    case "tool":
      return <Tool part={part} />;
    case "error":
      return (
        // That somebody pressed Stop is no fault.
        <p
          class={part.code === "stopped" ? "notice" : "notice error"}
          data-part-id={part.part_id}
          data-code={part.code}
        >
          {part.message}
        </p>
      );
    case "interaction":
      return (
        <p class="notice warning" data-part-id={part.part_id}>
          {part.interaction_type === "approval" ? "Approval" : "Question"}: {part.status}
        </p>
      );
    case "action":
      return (
        <p class="notice" data-part-id={part.part_id}>
          {part.title} ({part.state}){part.description !== undefined && `: ${part.description}`}
        </p>
      );
    case "file":
      return <Reference part_id={part.part_id} url={part.url} label={part.filename ?? part.media_type} />;
    case "source":
      return <Reference part_id={part.part_id} url={part.url} label={part.title ?? part.source_id} />;
    case "context":
      return (
        <details class="fold">
          <summary>Context: {part.tag}</summary>
          <PlainText part_id={part.part_id} text={part.context} />
        </details>
      );
    case "data":
      return <Json part_id={part.part_id} label={part.data_type} value={part.data} />;
    default:
      // A newer server may send types that this page has never heard of (P2).
      return <Json part_id={(part as Part).part_id} label={(part as Part).type} value={part} />;
  }
});

const TOOL_WORDS: Readonly<Record<ToolPart["state"], string>> = {
  "input-streaming": "is being called",
  ready: "is about to run",
  "waiting-user": "waits for approval",
  running: "runs",
  completed: "done",
  failed: "failed",
};

function Tool({ part }: { part: ToolPart }) {
  return (
    <details class={`fold tool ${part.state}`} data-part-id={part.part_id} data-tool-state={part.state}>
      <summary>
        <code>{part.title ?? part.tool_name}</code> {TOOL_WORDS[part.state]}
      </summary>
      <pre tabIndex={0}>{part.input === undefined ? (part.input_text ?? "") : pretty(part.input)}</pre>
      {part.output !== undefined && <pre tabIndex={0}>{pretty(part.output)}</pre>}
      {part.error !== undefined && <p class="notice error">{part.error}</p>}
    </details>
  );
}

function Json({ part_id, label, value }: { part_id: string; label: string; value: unknown }) {
  return (
    <details class="fold" data-part-id={part_id}>
      <summary>{label}</summary>
      <pre tabIndex={0}>{pretty(value)}</pre>
    </details>
  );
}

const pretty = (value: unknown): string => JSON.stringify(value, null, 2);

/** A link where the address can be followed, else just its name. */
function Reference({ part_id, url, label }: { part_id: string; url: string | undefined; label: string }) {
  const followable = url !== undefined && /^https?:/i.test(url);
  return (
    <p class="reference" data-part-id={part_id}>
      {followable ? (
        <a href={url} target="_blank" rel="noopener noreferrer">
          {label}
        </a>
      ) : (
        label
      )}
    </p>
  );
}
