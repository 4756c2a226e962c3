/** What Mutations tell that is no part of the view, and that a user wants to see all the same. */

import type { FileDiff, ModelRequestWarning, Mutation } from "./types.ts";

/** Turns whose file changes are kept. */
export const MAX_FILE_DIFFS = 50;

export interface Notes {
  /** The newest file changes of each Turn, by `turn_id`; none from before this client followed the Session. */
  readonly file_diffs: { readonly [turn_id: string]: FileDiff };
  /** The last failed call of the model, until it is known how that went on. */
  readonly warning?: ModelRequestWarning;
}

export const NO_NOTES: Notes = { file_diffs: {} };

/** The notes after `mutation`: the same object where it told nothing. */
export function noted(notes: Notes, mutation: Mutation): Notes {
  const { file_diffs, warning } = notes;
  switch (mutation.variant) {
    case "file_diff": {
      const all = Object.entries({ ...file_diffs, [mutation.turn_id]: mutation });
      return { ...notes, file_diffs: Object.fromEntries(all.slice(-MAX_FILE_DIFFS)) };
    }
    case "warning":
      return { file_diffs, warning: mutation };
    // The model has spoken, or the Turn is over: what was warned of is history.
    case "part":
    case "delta":
    case "turn":
      return warning ? { file_diffs } : notes;
    default:
      return notes;
  }
}
