/** Store: a set of listeners that hear of changes at frame pace, however often things change. */

import type { Schedule } from "./environment.ts";

export class Store {
  readonly #schedule: Schedule;
  readonly #listeners = new Set<() => void>();
  #scheduled = false;

  constructor(schedule: Schedule) {
    this.#schedule = schedule;
  }

  get size(): number {
    return this.#listeners.size;
  }

  /** `unsubscribe` may be called any number of times. */
  add(listener: () => void): () => void {
    // A wrapper of its own keeps two subscriptions of one function apart.
    const entry = (): void => listener();
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  /** Something changed: listeners hear of it with the next frame, once. */
  changed(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#schedule(() => {
      this.#scheduled = false;
      callEach(this.#listeners);
    });
  }
}

/** Calls every listener; the fault of one is reported as uncaught and reaches none of the others. */
export function callEach<Args extends unknown[]>(
  listeners: Iterable<(...args: Args) => void>,
  ...args: Args
): void {
  // A copy: a listener may add others, which did not exist yet when this happened.
  for (const listener of Array.from(listeners)) {
    try {
      listener(...args);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}
