/** Approvals and questions of FakeSession, and the race for their answers (P7). */

import type { InteractionPart, Json, PendingInteraction } from "../../src/index.ts";
import type { FakeSession } from "./fake_session.ts";

/** A Tool that waits for approval, with its Interaction, at the end of a Message. */
export function ask(
  fake: FakeSession,
  message_id: string,
  tool_call_id: string,
  input: Json,
): InteractionPart {
  const tool = {
    type: "tool",
    tool_call_id,
    tool_name: "write_file",
    state: "waiting-user",
    input,
    step_id: "st1",
  };
  fake.addPart(message_id, tool);
  const revision = fake.message(message_id).revision + 1;
  const card = {
    type: "interaction",
    interaction_type: "approval",
    interaction_id: `${tool_call_id}.i`,
    revision,
  };
  const request = { tool_name: "write_file", input };
  return fake.addPart(message_id, { ...card, tool_call_id, status: "pending", request }) as InteractionPart;
}

export function pendingOf(fake: FakeSession): PendingInteraction[] {
  return fake.messages.flatMap(({ message_id, parts }) =>
    parts.flatMap((part) => {
      if (part.type !== "interaction" || part.status !== "pending") return [];
      const { interaction_id, interaction_type, tool_call_id, part_id, revision, request } = part;
      return [{ interaction_id, interaction_type, tool_call_id, message_id, part_id, revision, request }];
    }),
  );
}

export type Answer = { readonly interaction_id: string; readonly revision: number; readonly response: Json };

/** The first answer counts; for the others what an `already_resolved` error says, or that it has changed. */
export function respond(fake: FakeSession, answer: Answer, by: string, now: number): object | "changed" {
  const { interaction_id, revision, response } = answer;
  const message = fake.messages.find((item) => item.parts.some((part) => isCard(part, interaction_id)));
  const card = message?.parts.find((part) => isCard(part, interaction_id));
  if (!message || card?.type !== "interaction") throw new Error(`no Interaction ${interaction_id}`);
  if (card.status !== "pending") {
    return { status: card.status, response: card.response, by: card.resolved_by, at: card.resolved_at };
  }
  if (card.revision !== revision) return "changed";
  const isDenied = (response as { decision?: string }).decision === "denied";
  const status = isDenied ? "denied" : "resolved";
  fake.setPart(message.message_id, { ...card, status, response, resolved_by: by, resolved_at: now });
  const tool = message.parts.find((part) => part.type === "tool" && part.tool_call_id === card.tool_call_id);
  if (tool?.type === "tool") {
    const next = isDenied ? ({ state: "failed", error: "denied" } as const) : ({ state: "running" } as const);
    fake.setPart(message.message_id, { ...tool, ...next });
  }
  return { accepted: { status, response } };
}

const isCard = (part: { type: string }, interaction_id: string): boolean =>
  part.type === "interaction" && (part as InteractionPart).interaction_id === interaction_id;
