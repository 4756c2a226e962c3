/** Rows of the conversation: Messages with what the page says of them. A row that stays the same stays the same object. */

import type { Message, SessionState } from "../src/index.ts";

export interface Row {
  readonly message: Message;
  /** What became of a prompt. */
  readonly note: string | undefined;
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
  #state: SessionState | undefined;
  #groups: readonly Group[] = [];

  /**
   * `seen` is the highest `sequence` that had been read when the Session was opened. Groups go by `sequence`, so
   * that older Messages put in above change no group but their own.
   */
  read(state: SessionState, seen: number): readonly Group[] {
    const last = state.messages.at(-1);
    if (last && this.#state && onlyLastChanged(this.#state, state)) this.#replaceLast(last);
    else this.#groups = this.#readAll(state, seen);
    this.#state = state;
    return this.#groups;
  }

  /** What happens on every frame while text streams in, however long the conversation is. */
  #replaceLast(message: Message): void {
    const group = this.#groups.at(-1);
    const row = group?.rows.at(-1);
    if (!group || !row || row.message === message) return;
    const next = { ...row, message };
    this.#rows.set(message.message_id, next);
    const rows = [...group.rows.slice(0, -1), next];
    this.#groups = [...this.#groups.slice(0, -1), { key: group.key, rows }];
  }

  #readAll(state: SessionState, seen: number): readonly Group[] {
    const idle = state.turn === undefined && state.queue.length === 0;
    const rows = new Map<string, Row>();
    const groups: { key: number; rows: Row[] }[] = [];
    const { messages } = state;
    const turns = turnsOf(state);
    const begun = new Set<string>();
    messages.forEach((message, index) => {
      const { turn_id } = message;
      const before = messages[index - 1];
      const row = this.#row({
        message,
        note: noteOf(message, begun, turns),
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

/** Whether all that may make another row different is the same, but for the newest Message itself. */
function onlyLastChanged(before: SessionState, after: SessionState): boolean {
  const { messages, turn, queue } = after;
  if (before.turn !== turn || before.queue !== queue) return false;
  if (before.messages.length !== messages.length) return false;
  const old = before.messages.at(-1);
  const last = messages.at(-1);
  if (old?.message_id !== last?.message_id || old?.turn_id !== last?.turn_id) return false;
  return messages.every(
    (message, index) => index === messages.length - 1 || message === before.messages[index],
  );
}

const isSame = (a: Row, b: Row): boolean =>
  a.message === b.message && a.note === b.note && a.unread === b.unread && a.last === b.last;

export const sameRows = (a: readonly Row[], b: readonly Row[]): boolean =>
  a === b || (a.length === b.length && a.every((row, index) => row === b[index]));

interface Turns {
  /** Those whose turn has not come yet. */
  readonly queued: ReadonlySet<string>;
  /** Those that run, or have said something. */
  readonly alive: ReadonlySet<string>;
}

function turnsOf({ queue, turn, messages }: SessionState): Turns {
  const alive = new Set<string>();
  if (turn) alive.add(turn.turn_id);
  for (const { role, turn_id } of messages) if (role === "agent" && turn_id !== undefined) alive.add(turn_id);
  return { queued: new Set(queue.map((item) => item.turn_id)), alive };
}

/** The Turn tells what became of a prompt: it waits, joined a Turn that had begun already (M6), or came to nothing. */
function noteOf(
  { role, turn_id }: Message,
  begun: ReadonlySet<string>,
  { queued, alive }: Turns,
): string | undefined {
  if (role !== "user" || turn_id === undefined) return undefined;
  if (queued.has(turn_id)) return "Waits for its turn";
  if (!alive.has(turn_id)) return "Not answered";
  return begun.has(turn_id) ? "Joined the running answer" : undefined;
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
