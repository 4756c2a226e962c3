/**
 * What to do after a connection was lost, and when (W8). Pure policy: no timers and no clock of its own.
 */

export type Retry = "retry" | "refresh_token" | "stop";

const REFRESH_TOKEN = 4401;
/** Wrong kind of frame, not UTF-8, frame too large. */
const STOP: readonly number[] = [1003, 1007, 1009];
/** Too slow, too many requests: what is told apart in the range that otherwise says stop. */
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

/** A random delay between MIN_DELAY_MS and a bound that doubles with each failed attempt (full jitter). */
export function backoff(attempt: number, random: () => number): number {
  const bound = Math.min(MAX_DELAY_MS, MIN_DELAY_MS * 2 ** attempt);
  return MIN_DELAY_MS + Math.floor(random() * (bound - MIN_DELAY_MS));
}

export class ReconnectPolicy {
  /** The next connection needs a new token. */
  refreshToken = false;
  #attempt = 0;
  #connectedAt = Infinity;
  #hint: number | undefined;
  #refreshed = false;
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** `welcome` came. */
  connected(now: number): void {
    this.#connectedAt = now;
    this.refreshToken = false;
  }

  /** The server said when to come back; that wins over the next back-off, once. */
  hint(retry_after_ms: number): void {
    this.#hint = retry_after_ms;
  }

  /** The connection, or the attempt to have one, ended with `code`: how long to wait, undefined for ever. */
  lost(code: number, now: number): number | undefined {
    if (now - this.#connectedAt >= STABLE_MS) this.reset();
    this.#connectedAt = Infinity;
    const retry = retryOf(code);
    if (retry === "retry") return this.#delay();
    if (retry === "stop" || this.#refreshed) return undefined;
    this.#refreshed = this.refreshToken = true;
    return 0;
  }

  /** Forgets all failures, as after a connection that was stable. */
  reset(): void {
    this.#attempt = 0;
    this.#refreshed = this.refreshToken = false;
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
