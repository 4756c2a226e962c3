/** SnapshotCollector: snapshots that come in several frames become one here (W10). */

import type { Snapshot } from "./frames.ts";

export class SnapshotCollector {
  #parts: Snapshot[] = [];

  clear(): void {
    this.#parts = [];
  }

  /** The whole snapshot when this was its last part; otherwise what became of the part. */
  add(frame: Snapshot): Snapshot | "buffered" | "ignored" {
    const first = frame.part === 1 ? frame : this.#parts[0];
    const follows = frame.part === 1 || frame.part === this.#parts.length + 1;
    if (!first || !follows || frame.epoch !== first.epoch || frame.seq !== first.seq) {
      this.clear();
      return "ignored";
    }
    this.#parts = frame.part === 1 ? [frame] : [...this.#parts, frame];
    if (frame.part < frame.parts) return "buffered";
    const parts = this.#parts;
    this.clear();
    // The lists of all parts joined, everything else as the first has it.
    return {
      ...first,
      page: { ...first.page, items: parts.flatMap((part) => part.page.items) },
      queue: parts.flatMap((part) => part.queue),
      interactions: parts.flatMap((part) => part.interactions),
    };
  }
}
