/**
 * How requests fail. Codes of the server come as they are; `lost`, `timeout`, `closed`, `queue_full`, `discarded`,
 * `unsendable`, `storage` and `too_large` before it was sent are this side's.
 */

import type { ErrorFrame } from "./frames.ts";

export class TurnwireError extends Error {
  override readonly name = "TurnwireError";
  readonly code: string;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** The whole `error` frame, with what else it says; absent for errors of this side. */
  readonly frame: ErrorFrame | undefined;

  constructor(code: string, message: string, retryable = false, frame?: ErrorFrame, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.retryable = retryable;
    this.frame = frame;
  }

  static of(frame: ErrorFrame): TurnwireError {
    return new TurnwireError(frame.code, frame.message, frame.retryable, frame);
  }

  /** What code of others has thrown. */
  static from(code: string, cause: unknown): TurnwireError {
    return new TurnwireError(code, `${cause}`, false, undefined, { cause });
  }

  /** The path of the field that the server refused. */
  get field(): string | undefined {
    return this.frame?.field;
  }
}

/** No answer came, so the request may or may not have been carried out. */
export const lost = (): TurnwireError => new TurnwireError("lost", "there is no connection", true);

/** `error` where it is one that a request may fail with; anything else is a fault of the program and is thrown on. */
export function refusal(error: unknown): TurnwireError {
  if (error instanceof TurnwireError) return error;
  throw error;
}
