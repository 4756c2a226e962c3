/** Messages of Turnwire as the UIMessages of the AI SDK: history at rest. The same in motion is `chunks`. */

import type { DynamicToolUIPart, UIMessage } from "ai";
import type { PartInput } from "../frames.ts";
import type { InteractionPart, Json, Message, Part, SourcePart, ToolPart } from "../types.ts";

export type UIPart = UIMessage["parts"][number];

/** For `useChat({ messages })`: what a Session has said so far. Tools are `dynamic-tool` Parts, run by the server. */
export function toUIMessages(messages: readonly Message[]): UIMessage[] {
  return messages.map((message) => ({
    id: message.message_id,
    role: message.role === "user" ? "user" : "assistant",
    parts: partsOf(message),
  }));
}

function partsOf({ parts }: Message): UIPart[] {
  const approvals = approvalsOf(parts);
  let step: string | undefined;
  return parts.flatMap((part) => {
    const shown = uiPart(part, approvals);
    const isNewStep = part.step_id !== undefined && part.step_id !== step;
    step = part.step_id ?? step;
    return [...(isNewStep ? [{ type: "step-start" } as const] : []), ...(shown ? [shown] : [])];
  });
}

/** The approvals among `parts`, by the Tool call that they are about. */
export function approvalsOf(parts: readonly Part[]): ReadonlyMap<string, InteractionPart> {
  const approvals = parts.filter(
    (part): part is InteractionPart => part.type === "interaction" && part.interaction_type === "approval",
  );
  return new Map(approvals.map((part) => [part.tool_call_id, part]));
}

function uiPart(part: Part, approvals: ReadonlyMap<string, InteractionPart>): UIPart | undefined {
  switch (part.type) {
    case "text":
    case "reasoning":
      return { type: part.type, text: part.text, ...(part.state !== undefined && { state: part.state }) };
    case "file": {
      const { url, media_type: mediaType, filename } = part;
      return { type: "file", url, mediaType, ...(filename !== undefined && { filename }) };
    }
    case "source":
      return sourceOf(part);
    case "tool":
      return toolOf(part, approvals.get(part.tool_call_id));
    default:
      return dataOf(part);
  }
}

export function sourceOf({ source_id: sourceId, source_type, url, title }: SourcePart) {
  const named = title === undefined ? {} : { title };
  if (url !== undefined) return { type: "source-url" as const, sourceId, url, ...named };
  return { type: "source-document" as const, sourceId, mediaType: source_type, title: title ?? sourceId };
}

/** What the AI SDK has no word for, as its data Parts: `data-action`, `data-question`, `data-error`, and so on. */
export function dataOf(part: Part) {
  switch (part.type) {
    case "data":
      return { type: `data-${part.data_type}` as const, id: part.data_id ?? part.part_id, data: part.data };
    case "context":
      return {
        type: "data-context" as const,
        id: part.part_id,
        data: { tag: part.tag, context: part.context },
      };
    case "action":
      return { type: "data-action" as const, id: part.action_id, data: part };
    case "error":
      return { type: "data-error" as const, id: part.part_id, data: part };
    case "interaction": {
      // An approval is a state of its Tool.
      if (part.interaction_type === "approval") return undefined;
      return { type: "data-question" as const, id: part.interaction_id, data: part };
    }
    default:
      return undefined;
  }
}

function toolOf(part: ToolPart, approval: InteractionPart | undefined): DynamicToolUIPart {
  const { tool_call_id: toolCallId, tool_name: toolName, title, input, input_text: rawInput } = part;
  const named = title === undefined ? {} : { title };
  const tool = { type: "dynamic-tool" as const, toolCallId, toolName, providerExecuted: true, ...named };
  const id = approval?.interaction_id;
  const approved = id === undefined ? {} : { approval: { id, approved: true as const } };
  switch (part.state) {
    case "input-streaming":
      return { ...tool, state: "input-streaming", input, ...(rawInput !== undefined && { rawInput }) };
    case "completed":
      return { ...tool, state: "output-available", input, output: part.output, ...approved };
    case "failed":
      if (id !== undefined && approval?.status === "denied") {
        return { ...tool, state: "output-denied", input, approval: { id, approved: false } };
      }
      return {
        ...tool,
        state: "output-error",
        input: input ?? rawInput,
        errorText: part.error ?? "failed",
        ...approved,
      };
    default:
      if (id !== undefined && approval?.status === "pending") {
        const descriptor = { revision: approval.revision, request: approval.request };
        return { ...tool, state: "approval-requested", input, approval: { id, descriptor } };
      }
      if (id !== undefined)
        return { ...tool, state: "approval-responded", input, approval: { id, approved: true } };
      return { ...tool, state: "input-available", input };
  }
}

/** The Parts of a prompt, out of what the user has put into a UIMessage. */
export function promptParts({ parts }: UIMessage): PartInput[] {
  return parts.flatMap((part): PartInput[] => {
    if (part.type === "text") return [{ type: "text", text: part.text }];
    if (part.type === "file") {
      const { url, mediaType: media_type, filename } = part;
      return [{ type: "file", url, media_type, ...(filename !== undefined && { filename }) }];
    }
    if (!part.type.startsWith("data-")) return [];
    const { id, data } = part as unknown as { id?: string; data: Json };
    return [
      {
        type: "data",
        data_type: part.type.slice("data-".length),
        data,
        ...(id !== undefined && { data_id: id }),
      },
    ];
  });
}
