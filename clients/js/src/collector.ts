/** SnapshotCollector: snapshots that come in several frames become one here (W10). */

import type { Snapshot } from "./frames.ts";

export class SnapshotCollector {
  #parts: Snapshot[] = [];

  clear(): void {
    this.#parts = [];
  }

  /** The whole snapshot when this was its last part; otherwise what became of the part. */
  add(frame: Snapshot): Snapshot | "buffered" | "ignored" {
    if (frame.part === 1) this.#parts = [frame];
    else if (frame.part === this.#parts.length + 1 && isSamePoint(frame, this.#parts[0]))
      this.#parts.push(frame);
    else {
      this.clear();
      return "ignored";
    }
    if (frame.part < frame.parts) return "buffered";
    const parts = this.#parts;
    this.clear();
    return join(parts);
  }
}

const isSamePoint = (frame: Snapshot, other: Snapshot | undefined): boolean =>
  frame.epoch === other?.epoch && frame.seq === other.seq;

/** The lists of all parts joined, everything else as the first has it. */
function join(parts: readonly Snapshot[]): Snapshot {
  const [first] = parts;
  if (!first) throw new Error("a snapshot has at least one part");
  if (parts.length === 1) return first;
  return {
    ...first,
    page: { ...first.page, items: parts.flatMap((part) => part.page.items) },
    queue: parts.flatMap((part) => part.queue),
    interactions: parts.flatMap((part) => part.interactions),
  };
}
