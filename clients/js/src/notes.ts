/** What Mutations tell that is no part of the view, and that a user wants to see all the same. */

import type { ModelRequestWarning, Mutation } from "./types.ts";

export interface Notes {
  /** The last failed call of the model, until it is known how that went on. */
  readonly warning?: ModelRequestWarning;
}

export const NO_NOTES: Notes = {};

/** The notes after `mutation`: the same object where it told nothing. */
export function noted(notes: Notes, mutation: Mutation): Notes {
  switch (mutation.variant) {
    case "warning":
      return { warning: mutation };
    // The model has spoken, or the Turn is over: what was warned of is history.
    case "part":
    case "delta":
    case "turn":
      return notes.warning ? NO_NOTES : notes;
    default:
      return notes;
  }
}
