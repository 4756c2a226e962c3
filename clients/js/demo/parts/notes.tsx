/** Parts that say what happened: actions and errors. */

import type { ActionPart, ErrorPart } from "../../src/index.ts";
import { Icon } from "../icons.tsx";

export function ActionNote({ part }: { part: ActionPart }) {
  const { title, description, state } = part;
  return (
    <div class={`action ${state}`} data-part-id={part.part_id} data-action-state={state}>
      {state === "running" ? (
        <span class="spinner" />
      ) : (
        <Icon name={state === "failed" ? "cross" : "spark"} />
      )}
      <p>
        {title}
        {state === "running" && "…"}
        {state === "failed" && " failed"}
        {description !== undefined && <span class="faint"> {description}</span>}
      </p>
    </div>
  );
}

interface ErrorNoteProps {
  readonly part: ErrorPart;
  /** Absent where trying again would repeat something old. */
  readonly onRetry: (() => void) | undefined;
}

export function ErrorNote({ part, onRetry }: ErrorNoteProps) {
  // That somebody pressed Stop is no fault.
  const fault = part.code !== "stopped";
  return (
    <div class={fault ? "notice error" : "notice"} data-part-id={part.part_id} data-code={part.code}>
      <p>{part.message}</p>
      {fault && <p class="error-code">{part.code}</p>}
      {fault && part.recoverable && onRetry && (
        <div class="notice-actions">
          <button type="button" class="button" onClick={onRetry}>
            Try again
          </button>
        </div>
      )}
    </div>
  );
}
