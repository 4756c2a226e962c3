/** How requests fail. Codes of the server come as they are; `lost`, `timeout`, `closed` and `queue_full` are this side's. */

import type { ErrorFrame } from "./frames.ts";

export interface ErrorDetails {
  /** The path of the field that the server refused. */
  readonly field?: string | undefined;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** The whole `error` frame, with what else it says. */
  readonly frame?: ErrorFrame;
}

export class TurnwireError extends Error {
  override readonly name = "TurnwireError";
  readonly code: string;
  readonly field: string | undefined;
  readonly retryable: boolean;
  readonly frame: ErrorFrame | undefined;

  constructor(code: string, message: string, details: ErrorDetails) {
    super(message);
    this.code = code;
    this.field = details.field;
    this.retryable = details.retryable;
    this.frame = details.frame;
  }

  static of(frame: ErrorFrame): TurnwireError {
    return new TurnwireError(frame.code, frame.message, {
      field: frame.field,
      retryable: frame.retryable,
      frame,
    });
  }
}

/** No answer came, so the request may or may not have been carried out. */
export const lost = (): TurnwireError =>
  new TurnwireError("lost", "the connection was lost before an answer came", { retryable: true });

export const notConnected = (): TurnwireError =>
  new TurnwireError("lost", "there is no connection", { retryable: true });

export const timedOut = (op: string): TurnwireError =>
  new TurnwireError("timeout", `no answer to ${op} came in time`, { retryable: true });

export const closed = (reason: string): TurnwireError =>
  new TurnwireError("closed", `the connection is closed: ${reason}`, { retryable: false });
