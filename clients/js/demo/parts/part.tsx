/** One Part of a Message, whatever its type. Only Parts that changed are rendered again. */

import { memo } from "preact/compat";
import type { InteractionPart, Part } from "../../src/index.ts";
import { changesOf, FileChanges } from "../file_changes.tsx";
import { MarkdownText } from "../markdown_text.tsx";
import { PlainText } from "../plain_text.tsx";
import { FileItem, SourceItem } from "./files.tsx";
import { InteractionCard } from "./interaction.tsx";
import { ActionNote, ErrorNote } from "./notes.tsx";
import { ToolCard } from "./tool.tsx";
import { pretty, TextBox } from "./values.tsx";

interface PartItemProps {
  readonly part: Part;
  readonly user: boolean;
  /** What the user is asked about this Part. */
  readonly interaction: InteractionPart | undefined;
  readonly onRetry: (() => void) | undefined;
}

export const PartItem = memo(({ part, user, interaction, onRetry }: PartItemProps) => {
  const { part_id } = part;
  switch (part.type) {
    case "text":
      if (user) return <PlainText part_id={part_id} text={part.text} />;
      return <MarkdownText part_id={part_id} text={part.text} streaming={part.state === "streaming"} />;
    case "reasoning":
      return (
        <details class="fold reasoning" data-reasoning={part.state}>
          <summary>{part.state === "streaming" ? "Reasoning…" : "Reasoning"}</summary>
          <PlainText part_id={part_id} text={part.text} />
        </details>
      );
    case "tool":
      return <ToolCard part={part} interaction={interaction} />;
    case "interaction":
      return <InteractionCard part={part} />;
    case "error":
      return <ErrorNote part={part} onRetry={onRetry} />;
    case "action":
      return <ActionNote part={part} />;
    case "file":
      return <FileItem part={part} />;
    case "source":
      return <SourceItem part={part} />;
    case "context":
      return (
        <details class="fold">
          <summary>Context: {part.tag}</summary>
          <PlainText part_id={part_id} text={part.context} />
        </details>
      );
    case "data": {
      const changes = user ? undefined : changesOf(part);
      if (changes) return <FileChanges part_id={part_id} changes={changes} />;
      return <Raw part_id={part_id} label={part.data_type} value={part.data} />;
    }
    default:
      // A newer server may send types that this page has never heard of (P2).
      return <Raw part_id={(part as Part).part_id} label={(part as Part).type} value={part} />;
  }
});

function Raw({ part_id, label, value }: { part_id: string; label: string; value: unknown }) {
  return (
    <details class="fold" data-part-id={part_id}>
      <summary>{label}</summary>
      <TextBox text={pretty(value)} label={label} />
    </details>
  );
}
