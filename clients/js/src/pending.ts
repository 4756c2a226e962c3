/** PendingRequests: the requests of one connection that have no answer yet, by `id` (W3). */

import type { Clock, TimerId } from "./environment.ts";
import { lost, timedOut, type TurnwireError } from "./errors.ts";

export const REQUEST_TIMEOUT_MS = 30_000;

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: TurnwireError) => void;
  readonly timer: TimerId;
}

export class PendingRequests {
  readonly #clock: Clock;
  readonly #pending = new Map<number, Pending>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The answer to request `id`; rejects with `timeout` when there is none in time. */
  add(id: number, op: string): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.setTimeout(() => this.reject(id, timedOut(op)), REQUEST_TIMEOUT_MS);
      this.#pending.set(id, { resolve, reject, timer });
    });
  }

  resolve(id: number, result: unknown): void {
    this.#take(id)?.resolve(result);
  }

  /** Says whether there was such a request. */
  reject(id: number | undefined, error: TurnwireError): boolean {
    const pending = this.#take(id);
    pending?.reject(error);
    return pending !== undefined;
  }

  /** The connection is gone: nobody knows what became of them. */
  loseAll(): void {
    for (const id of Array.from(this.#pending.keys())) this.reject(id, lost());
  }

  #take(id: number | undefined): Pending | undefined {
    if (id === undefined) return undefined;
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    this.#clock.clearTimeout(pending?.timer);
    return pending;
  }
}
