/**
 * MessageLog: the Messages that a view holds, ascending by `sequence`, found by `message_id` (J3).
 *
 * Changes go into mutable copies; `messages` turns them into immutable objects when somebody looks. Text grows with
 * `+=`: JavaScript engines keep such strings as ropes, so an append costs the same however long the text is, and
 * the text is laid out flat once, by whoever reads it.
 */

import type { Message, Part } from "./types.ts";

type Writable<T> = { -readonly [Key in keyof T]: T[Key] };
type TextField = "text" | "input_text";
/** A Part under change: of any type, so the growing fields are addressed by name. */
type GrowingPart = Writable<Part> & { [field in TextField]?: string };

interface Entry {
  /** What readers get; out of date when `changed`. */
  message: Message;
  changed: boolean;
  revision: number;
  /** Copies made since the last look, by part_id; only these may be written to. */
  readonly growing: Map<string, GrowingPart>;
  parts: readonly Part[];
}

export class MessageLog {
  #entries: Entry[] = [];
  readonly #byId = new Map<string, Entry>();
  #shown: readonly Message[] | undefined;

  /** The lowest sequence held. */
  get first(): number | undefined {
    return this.#entries[0]?.message.sequence;
  }

  /** The highest sequence held. */
  get last(): number | undefined {
    return this.#entries.at(-1)?.message.sequence;
  }

  /** All Messages: the same array, Messages and Parts until they changed. */
  get messages(): readonly Message[] {
    this.#shown ??= this.#entries.map(show);
    return this.#shown;
  }

  message(message_id: string): Message | undefined {
    const entry = this.#byId.get(message_id);
    return entry && show(entry);
  }

  revisionOf(message_id: string): number | undefined {
    return this.#byId.get(message_id)?.revision;
  }

  clear(): void {
    this.#entries = [];
    this.#byId.clear();
    this.#shown = undefined;
  }

  /** Stores a Message that is unknown or newer than what is held; says whether it was. */
  store(message: Message): boolean {
    const held = this.#byId.get(message.message_id);
    if (held && held.revision >= message.revision) return false;
    this.#put(message);
    return true;
  }

  /**
   * Puts `items` in the place of everything at or above the first of them. Gives the Messages that stay as they are
   * held because they are ahead of the item.
   */
  replaceFrom(start: number, items: readonly Message[]): readonly Message[] {
    const ids = new Set(items.map((item) => item.message_id));
    for (const { message } of this.#entries.slice(this.#placeOf(start)))
      if (!ids.has(message.message_id)) this.#byId.delete(message.message_id);
    this.#entries = this.#entries.filter(({ message }) => this.#byId.has(message.message_id));
    this.#shown = undefined;
    const ahead: Message[] = [];
    for (const item of items) {
      const held = this.message(item.message_id);
      if (held && held.revision > item.revision) ahead.push(held);
      // What is the same stays the same object: readers then see that nothing changed.
      else if (JSON.stringify(held) !== JSON.stringify(item)) this.#put(item);
    }
    return ahead;
  }

  #put(message: Message): void {
    const { message_id, sequence, revision, parts } = message;
    const entry: Entry = { message, changed: false, revision, parts, growing: new Map() };
    this.#entries.splice(this.#placeOf(sequence), this.#byId.has(message_id) ? 1 : 0, entry);
    this.#byId.set(message_id, entry);
    this.#shown = undefined;
  }

  /** Replaces the Part with this `part_id`, or inserts it by its `sequence`. */
  putPart(message_id: string, revision: number, part: Part): void {
    const entry = this.#change(message_id, revision);
    entry.growing.delete(part.part_id);
    const others = entry.parts.filter((other) => other.part_id !== part.part_id);
    entry.parts = [...others, part].sort((one, other) => one.sequence - other.sequence);
  }

  /**
   * Appends to a Part's text; says whether the Part is known. Without a `field` only the revision counts: a delta of
   * a type that a newer server has (P2).
   */
  append(
    message_id: string,
    revision: number,
    part_id: string,
    field: TextField | undefined,
    delta: string,
  ): boolean {
    const known = this.#byId.get(message_id);
    const growing = known?.growing.get(part_id) ?? (known && grow(known, part_id));
    if (!growing) return false;
    if (field) growing[field] = (growing[field] ?? "") + delta;
    this.#change(message_id, revision);
    return true;
  }

  #change(message_id: string, revision: number): Entry {
    const entry = this.#byId.get(message_id) as Entry; // whose revision has been looked at
    entry.revision = revision;
    entry.changed = true;
    this.#shown = undefined;
    return entry;
  }

  /** Where a Message with this sequence belongs; nearly always at the end. */
  #placeOf(sequence: number): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#entries[middle]?.message.sequence ?? Infinity) < sequence) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function show(entry: Entry): Message {
  const { changed, growing, revision } = entry;
  if (!changed) return entry.message;
  if (growing.size > 0) {
    entry.parts = entry.parts.map((part) => growing.get(part.part_id) ?? part);
    growing.clear();
  }
  entry.changed = false;
  entry.message = { ...entry.message, revision, parts: entry.parts };
  return entry.message;
}

function grow(entry: Entry, part_id: string): GrowingPart | undefined {
  const part = entry.parts.find((other) => other.part_id === part_id);
  if (!part) return undefined;
  const copy: GrowingPart = { ...part };
  entry.growing.set(part_id, copy);
  return copy;
}
