/** Virtual time: nothing happens between two timers, so tests of minutes take milliseconds and never race. */

import type { Clock, Schedule } from "../../src/index.ts";

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

export const FRAME_MS = 16;

export class VirtualClock implements Clock {
  #now = 0;
  #order = 0;
  readonly #timers = new Map<number, Timer>();

  now(): number {
    return this.#now;
  }

  /** Virtual time began in 2033. */
  date(): number {
    return 2_000_000_000_000 + this.#now;
  }

  setTimeout(run: () => void, ms: number): number {
    this.#order += 1;
    this.#timers.set(this.#order, { at: this.#now + Math.max(0, ms), order: this.#order, run });
    return this.#order;
  }

  clearTimeout(timer: unknown): void {
    this.#timers.delete(timer as number);
  }

  get timers(): number {
    return this.#timers.size;
  }

  readonly schedule: Schedule = (run) => void this.setTimeout(run, FRAME_MS);

  /** Runs all that is due up to `ms` from now, with what it leads to, in order. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (let next = this.#next(end); next; next = this.#next(end)) {
      this.#timers.delete(next.order);
      this.#now = Math.max(this.#now, next.at);
      next.run();
      await settle();
    }
    this.#now = end;
  }

  #next(end: number): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers.values()) {
      if (timer.at > end) continue;
      if (!first || timer.at < first.at || (timer.at === first.at && timer.order < first.order))
        first = timer;
    }
    return first;
  }
}

/** Lets promises that are already decided run to their end: a macrotask comes after all microtasks. */
export const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
