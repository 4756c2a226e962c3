/** Short ways to make the frames and Messages that tests need. */

import type {
  DeltaMutation,
  Message,
  MessageMutation,
  Page,
  Part,
  PartMutation,
  Session,
  Snapshot,
  TextPart,
} from "../../src/index.ts";

export const SESSION = "s1";
export const EPOCH = "e1";

export const session = (fields: Partial<Session> = {}): Session => ({
  session_id: SESSION,
  config: { approval_mode: "ask" },
  created_at: 1,
  updated_at: 1,
  message_count: 0,
  executing: false,
  ...fields,
});

export const textPart = (part_id: string, text: string, fields: Partial<TextPart> = {}): TextPart => ({
  part_id,
  sequence: 1,
  type: "text",
  text,
  ...fields,
});

export const message = (sequence: number, fields: Partial<Message> = {}): Message => ({
  message_id: `m${sequence}`,
  session_id: SESSION,
  sequence,
  revision: 1,
  role: "user",
  visibility: "visible",
  created_at: 1,
  updated_at: 1,
  parts: [textPart(`m${sequence}p1`, `text ${sequence}`)],
  ...fields,
});

export const agentMessage = (sequence: number, fields: Partial<Message> = {}): Message =>
  message(sequence, {
    role: "agent",
    state: "streaming",
    parts: [textPart(`m${sequence}p1`, "", { state: "streaming" })],
    ...fields,
  });

export function page(items: readonly Message[], fields: Partial<Page> = {}): Page {
  const first = items[0];
  const last = items.at(-1);
  return {
    items,
    total: items.length,
    has_more: false,
    ...(first && last && { start_sequence: first.sequence, end_sequence: last.sequence }),
    ...fields,
  };
}

export const snapshot = (items: readonly Message[], fields: Partial<Snapshot> = {}): Snapshot => ({
  op: "snapshot",
  session_id: SESSION,
  epoch: EPOCH,
  seq: 0,
  session: session(),
  page: page(items),
  queue: [],
  interactions: [],
  part: 1,
  parts: 1,
  ...fields,
});

const envelope = (seq: number) =>
  ({
    op: "mutation",
    epoch: EPOCH,
    seq,
    mutation_id: `mu${seq}`,
    session_id: SESSION,
    created_at: seq,
  }) as const;

export const messageMutation = (seq: number, item: Message): MessageMutation => ({
  ...envelope(seq),
  variant: "message",
  type: item.role,
  message_id: item.message_id,
  sequence: item.sequence,
  revision: item.revision,
  ...(item.turn_id !== undefined && { turn_id: item.turn_id }),
  message: item as MessageMutation["message"],
});

export const partMutation = (
  seq: number,
  message_id: string,
  revision: number,
  part: Part,
): PartMutation => ({
  ...envelope(seq),
  variant: "part",
  type: part.type,
  message_id,
  revision,
  part_id: part.part_id,
  part: part as PartMutation["part"],
});

export const delta = (
  seq: number,
  message_id: string,
  revision: number,
  text: string,
  fields: Partial<DeltaMutation> = {},
): DeltaMutation => ({
  ...envelope(seq),
  variant: "delta",
  type: "text",
  message_id,
  revision,
  part_id: `${message_id}p1`,
  delta: text,
  ...fields,
});

export const turnStart = (seq: number, turn_id: string) =>
  ({ ...envelope(seq), variant: "turn", type: "start", turn_id }) as const;

export const turnFinish = (seq: number, turn_id: string) =>
  ({ ...envelope(seq), variant: "turn", type: "finish", turn_id, status: "completed" }) as const;
