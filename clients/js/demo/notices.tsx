/** Notices: what went wrong, and what can be done about it. */

import { TurnwireError } from "../src/index.ts";
import { type Draft, restoreDraft } from "./drafts.ts";

/** A prompt that the server refused. */
export interface Failure {
  readonly draft: Draft;
  readonly error: Error;
  readonly session_id: string | undefined;
}

interface FailuresProps {
  readonly items: readonly Failure[];
  readonly onDismiss: (failure: Failure) => void;
}

/** Prompts that were not taken. What they said is kept until the user has decided. */
export function Failures({ items, onDismiss }: FailuresProps) {
  return (
    <>
      {items.map((failure, index) => (
        <div class="notice error" role="alert" key={index}>
          <p>
            <strong>Not sent:</strong> {sentence(failure.error)}
          </p>
          <p class="quoted">{failure.draft.text}</p>
          <div class="notice-actions">
            <button
              type="button"
              class="button"
              onClick={() => {
                restoreDraft(failure.session_id ?? "", failure.draft);
                onDismiss(failure);
              }}
            >
              Edit again
            </button>
            <button type="button" class="button" onClick={() => onDismiss(failure)}>
              Dismiss
            </button>
          </div>
        </div>
      ))}
    </>
  );
}

/** One fault of something that the user asked for. */
export function Fault({ text, onDismiss }: { text: string; onDismiss: () => void }) {
  return (
    <div class="notice error" role="alert">
      <p>{text}</p>
      <div class="notice-actions">
        <button type="button" class="button" onClick={onDismiss}>
          Dismiss
        </button>
      </div>
    </div>
  );
}

/** What a failure says to a person; the code helps whoever is asked about it. */
export function sentence(error: unknown): string {
  if (error instanceof TurnwireError) return `${error.message} (${error.code})`;
  return error instanceof Error ? error.message : String(error);
}
