/** Pending Interactions as a view holds them: lists that are replaced, never changed. */

import type { Message, Part, PendingInteraction } from "./types.ts";

type Interactions = readonly PendingInteraction[];

/** Takes over one Part: a pending Interaction is put in, in its old place if it had one; any other is taken out. */
export function takePart(held: Interactions, message_id: string, part: Part): Interactions {
  if (part.type !== "interaction") return held;
  const { interaction_id, interaction_type, tool_call_id, part_id, revision, request } = part;
  const isThis = (other: PendingInteraction): boolean => other.interaction_id === interaction_id;
  const known = held.some(isThis);
  if (part.status !== "pending") return known ? held.filter((other) => !isThis(other)) : held;
  const item = { interaction_id, interaction_type, tool_call_id, revision, request, message_id, part_id };
  return known ? held.map((other) => (isThis(other) ? item : other)) : [...held, item];
}

/** Takes over a whole Message: what has no Part in it any more is taken out first (T6). */
export function takeMessage(held: Interactions, { message_id, parts }: Message): Interactions {
  const present = new Set(parts.map((part) => part.type === "interaction" && part.interaction_id));
  const left = held.filter((item) => item.message_id !== message_id || present.has(item.interaction_id));
  const first = left.length < held.length ? left : held;
  return parts.reduce((list, part) => takePart(list, message_id, part), first);
}
