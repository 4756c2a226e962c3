/** Rows of the conversation: Messages with what the page says of them. A row that stays the same stays the same object. */

import type { FileDiff, Message, SessionState } from "../src/index.ts";

export interface Row {
  readonly message: Message;
  /** What became of a prompt. */
  readonly note: string | undefined;
  /** Files that its Turn has changed; at the Turn's last Message. */
  readonly changes: FileDiff | undefined;
  /** The first Message that the user has not seen yet. */
  readonly unread: boolean;
  /** The newest Message, with nothing going on. */
  readonly last: boolean;
}

/** How many Messages are in one group: only the groups in sight are laid out, only those that changed rendered. */
const GROUP = 20;

export interface Group {
  readonly key: number;
  readonly rows: readonly Row[];
}

export class RowReader {
  #rows = new Map<string, Row>();

  /**
   * `seen` is the highest `sequence` that had been read when the Session was opened. Groups go by `sequence`, so that older Messages put in above change no group but their own.
   */
  read(state: SessionState, seen: number): readonly Group[] {
    const queued = new Set(state.queue.map((item) => item.message_id));
    const idle = state.turn === undefined && state.queue.length === 0;
    const rows = new Map<string, Row>();
    const groups: { key: number; rows: Row[] }[] = [];
    const { messages } = state;
    const begun = new Set<string>();
    const ends = endsOf(state);
    messages.forEach((message, index) => {
      const { turn_id } = message;
      const before = messages[index - 1];
      const row = this.#row({
        message,
        note: noteOf(message, begun, queued),
        changes: ends.get(message.message_id),
        unread: message.sequence > seen && before !== undefined && before.sequence <= seen,
        last: index === messages.length - 1 && idle,
      });
      if (turn_id !== undefined) begun.add(turn_id);
      rows.set(message.message_id, row);
      const key = Math.floor((message.sequence - 1) / GROUP);
      const group = groups.at(-1);
      if (group?.key === key) group.rows.push(row);
      else groups.push({ key, rows: [row] });
    });
    this.#rows = rows;
    return groups;
  }

  #row(row: Row): Row {
    const held = this.#rows.get(row.message.message_id);
    return held && isSame(held, row) ? held : row;
  }
}

const isSame = (a: Row, b: Row): boolean =>
  a.message === b.message &&
  a.note === b.note &&
  a.changes === b.changes &&
  a.unread === b.unread &&
  a.last === b.last;

export const sameRows = (a: readonly Row[], b: readonly Row[]): boolean =>
  a.length === b.length && a.every((row, index) => row === b[index]);

/** The Turn tells what became of a prompt: whether it waits, or joined one that had begun already (M6). */
function noteOf(
  message: Message,
  begun: ReadonlySet<string>,
  queued: ReadonlySet<string>,
): string | undefined {
  if (message.role !== "user") return undefined;
  if (queued.has(message.message_id)) return "Waits for its turn";
  const joined = message.turn_id !== undefined && begun.has(message.turn_id);
  return joined ? "Joined the running answer" : undefined;
}

/** The changes by the last Message of their Turn; prompts that wait may stand between its Messages. */
function endsOf({ file_diffs, messages }: SessionState): ReadonlyMap<string, FileDiff> {
  const ends = new Map<string, FileDiff>();
  for (const [turn_id, change] of Object.entries(file_diffs)) {
    const end = findLast(messages, (message) => message.turn_id === turn_id);
    if (end) ends.set(end.message_id, change);
  }
  return ends;
}

/** The newest Message of a kind. */
export function findLast(
  messages: readonly Message[],
  test: (message: Message) => boolean,
): Message | undefined {
  for (let index = messages.length - 1; index >= 0; index -= 1) {
    const message = messages[index];
    if (message && test(message)) return message;
  }
  return undefined;
}
