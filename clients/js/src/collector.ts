/** SnapshotCollector: snapshots that come in several frames become one here (W10). */

import type { Snapshot } from "./frames.ts";

export class SnapshotCollector {
  #joined: Snapshot | undefined;

  clear(): void {
    this.#joined = undefined;
  }

  /** The whole snapshot when this was its last part; otherwise what became of the part. */
  add(frame: Snapshot): Snapshot | "buffered" | "ignored" {
    const before = this.#joined;
    this.clear();
    const { epoch, seq, part, parts, page, queue, interactions } = frame;
    let joined = frame;
    if (part > 1) {
      if (before?.epoch !== epoch || before.seq !== seq || before.part + 1 !== part) return "ignored";
      // The lists of all parts joined, everything else as the first has it.
      joined = {
        ...before,
        part,
        page: { ...before.page, items: [...before.page.items, ...page.items] },
        queue: [...before.queue, ...queue],
        interactions: [...before.interactions, ...interactions],
      };
    }
    if (part >= parts) return joined;
    this.#joined = joined;
    return "buffered";
  }
}
