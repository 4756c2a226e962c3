/**
 * What to do after a connection was lost, and when (W8). Pure policy: no timers and no clock of its own.
 */

export type Retry = "retry" | "refresh_token" | "stop";

const REFRESH_TOKEN = 4401;
/** Done, wrong kind of frame, not UTF-8, frame too large. */
const STOP: readonly number[] = [1000, 1003, 1007, 1009];
/** No hello in time, too many requests: what is told apart in the range that otherwise says stop. */
const RETRY: readonly number[] = [4408, 4429];

/** What a client does after a connection was closed with `code`, also for codes that it does not know. */
export function retryOf(code: number): Retry {
  if (code === REFRESH_TOKEN) return "refresh_token";
  const stops = STOP.includes(code) || (code >= 4400 && code <= 4499 && !RETRY.includes(code));
  return stops ? "stop" : "retry";
}

export const MIN_DELAY_MS = 500;
export const MAX_DELAY_MS = 20_000;
/** A connection that lived as long as this has proved itself: the next loss starts counting anew. */
export const STABLE_MS = 5_000;

export type Decision =
  | { readonly action: "retry"; readonly delay_ms: number; readonly refresh_token: boolean }
  | { readonly action: "stop" };

/** A random delay between MIN_DELAY_MS and a bound that doubles with each failed attempt (full jitter). */
export function backoff(attempt: number, random: () => number): number {
  const bound = Math.min(MAX_DELAY_MS, MIN_DELAY_MS * 2 ** Math.min(attempt, 30));
  return MIN_DELAY_MS + Math.floor(random() * (bound - MIN_DELAY_MS));
}

export class ReconnectPolicy {
  #attempt = 0;
  #connectedAt: number | undefined;
  #hint: number | undefined;
  #refreshed = false;
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** `welcome` came. */
  connected(now: number): void {
    this.#connectedAt = now;
  }

  /** The server said when to come back; that wins over the next back-off, once. */
  hint(retry_after_ms: number): void {
    this.#hint = retry_after_ms;
  }

  /** The connection, or the attempt to have one, ended with `code`. */
  lost(code: number, now: number): Decision {
    if (this.#connectedAt !== undefined && now - this.#connectedAt >= STABLE_MS) this.reset();
    this.#connectedAt = undefined;
    const retry = retryOf(code);
    if (retry === "retry") return { action: retry, delay_ms: this.#delay(), refresh_token: false };
    if (retry === "stop" || this.#refreshed) return { action: "stop" };
    this.#refreshed = true;
    return { action: "retry", delay_ms: 0, refresh_token: true };
  }

  /** Forgets all failures, as after a connection that was stable. */
  reset(): void {
    this.#attempt = 0;
    this.#refreshed = false;
  }

  #delay(): number {
    // The first wait is spread too: after a restart all clients come at once (R5).
    const attempt = ++this.#attempt;
    const hint = this.#hint;
    this.#hint = undefined;
    // Never before the hint, and not all in the same instant either.
    if (hint !== undefined) return hint + Math.floor(this.#random() * MIN_DELAY_MS);
    return backoff(attempt, this.#random);
  }
}
