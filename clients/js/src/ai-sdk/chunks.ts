/**
 * ChunkFeed: the Agent Messages of a Turn, as they grow, told as the chunks of one UIMessage of the AI SDK.
 *
 * It is given what is there now, again and again, and tells what is new; so it does not matter which way the view came
 * by it: Mutation by Mutation, or in a snapshot after a loss.
 */

import type { UIMessage, UIMessageChunk } from "ai";
import type { InteractionPart, Message, Part, ToolPart } from "../types.ts";
import { approvalsOf, dataOf, sourceOf } from "./ui_messages.ts";

/** How far a text has been told. A block is what the AI SDK has between `start` and `end`. */
interface TextProgress {
  readonly type: "text" | "reasoning";
  block: string | undefined;
  blocks: number;
  text: string;
}

/** A Tool in the eyes of the AI SDK only moves forward. */
const Phase = { None: 0, Started: 1, Available: 2, Asked: 3, Ended: 4 } as const;

const PHASES: Readonly<Record<string, number>> = {
  "input-streaming": Phase.Started,
  "input-available": Phase.Available,
  "approval-requested": Phase.Asked,
  "approval-responded": Phase.Asked,
  "output-available": Phase.Ended,
  "output-error": Phase.Ended,
  "output-denied": Phase.Ended,
};

const EXECUTED = { dynamic: true, providerExecuted: true } as const;

export class ChunkFeed {
  #chunks: UIMessageChunk[] = [];
  #messageId: string | undefined;
  #isStarted = false;
  #step: string | undefined;
  #isInStep = false;
  readonly #texts = new Map<string, TextProgress>();
  readonly #tools = new Map<string, { phase: number; input: number }>();
  /** Everything else, as it was told last. */
  readonly #told = new Map<string, Part>();

  /** What is new in `messages`, the Agent Messages told here, each in its present state. */
  take(messages: readonly Message[]): UIMessageChunk[] {
    for (const message of messages) this.#message(message);
    return this.#chunks.splice(0);
  }

  /** What is left to be said when no more comes. */
  end(): UIMessageChunk[] {
    this.#endStep();
    return this.#chunks.splice(0);
  }

  /** Goes on after `told`, the UIMessage that an earlier feed of the same Messages has led to. */
  adopt(told: UIMessage, messages: readonly Message[]): void {
    this.#messageId = told.id;
    const texts = told.parts.filter((part) => part.type === "text" || part.type === "reasoning");
    for (const part of told.parts) {
      if (!("toolCallId" in part)) continue;
      const input = part.state === "input-streaming" ? (part.rawInput?.length ?? 0) : 0;
      this.#tools.set(part.toolCallId, { phase: PHASES[part.state] ?? Phase.None, input });
    }
    for (const part of messages.flatMap((message) => message.parts)) {
      const isText = part.type === "text" || part.type === "reasoning";
      const index = isText ? texts.findIndex((other) => other.type === part.type) : -1;
      const [text] = index < 0 ? [] : texts.splice(index, 1);
      if (text)
        this.#texts.set(part.part_id, { type: text.type, block: undefined, blocks: 1, text: text.text });
      if (text || (part.type === "tool" && this.#tools.has(part.tool_call_id)))
        this.#step = part.step_id ?? this.#step;
      if (
        (part.type === "file" || part.type === "source") &&
        told.parts.some((other) => isThis(part, other))
      ) {
        this.#told.set(part.part_id, part);
      }
    }
  }

  #message({ message_id, state, parts }: Message): void {
    if (!this.#isStarted) {
      this.#isStarted = true;
      this.#chunks.push({ type: "start", messageId: this.#messageId ?? message_id });
    }
    const approvals = approvalsOf(parts);
    for (const part of parts) {
      if (part.type === "text" || part.type === "reasoning") {
        this.#text(part, state === "done" || part.state === "done");
      } else if (part.type === "tool") {
        this.#tool(part, approvals.get(part.tool_call_id));
      } else {
        this.#whole(part);
      }
    }
  }

  #text(part: Part & { type: "text" | "reasoning" }, isDone: boolean): void {
    const { type, part_id, text } = part;
    let progress = this.#texts.get(part_id);
    if (!progress) {
      progress = { type, block: undefined, blocks: 0, text: "" };
      this.#texts.set(part_id, progress);
      this.#enterStep(part);
      this.#startText(part_id, progress);
    }
    if (!text.startsWith(progress.text)) {
      // What was said cannot be taken back: the corrected text is said anew.
      this.#endText(progress);
      progress.text = "";
    }
    const delta = text.slice(progress.text.length);
    if (delta !== "") {
      const id = progress.block ?? this.#startText(part_id, progress);
      this.#chunks.push({ type: `${type}-delta`, id, delta });
      progress.text = text;
    }
    if (isDone) this.#endText(progress);
  }

  #startText(part_id: string, progress: TextProgress): string {
    progress.blocks += 1;
    const id = progress.blocks === 1 ? part_id : `${part_id}.${progress.blocks}`;
    progress.block = id;
    this.#chunks.push({ type: `${progress.type}-start`, id });
    return id;
  }

  #endText(progress: TextProgress): void {
    if (progress.block !== undefined) this.#chunks.push({ type: `${progress.type}-end`, id: progress.block });
    progress.block = undefined;
  }

  #tool(part: ToolPart, approval: InteractionPart | undefined): void {
    const { tool_call_id: toolCallId, tool_name: toolName, title, state, input } = part;
    const progress = this.#tools.get(toolCallId) ?? { phase: Phase.None, input: 0 };
    if (!this.#tools.has(toolCallId)) this.#enterStep(part);
    this.#tools.set(toolCallId, progress);
    const named = title === undefined ? {} : { title };
    // The server runs it: `onToolCall` and automatic answers of the AI SDK are for Tools that run in the page.
    const tool = { toolCallId, toolName, ...EXECUTED, ...named };
    const reach = (phase: number, ...chunks: UIMessageChunk[]): void => {
      if (progress.phase >= phase) return;
      progress.phase = phase;
      this.#chunks.push(...chunks);
    };
    if (state === "input-streaming") {
      reach(Phase.Started, { type: "tool-input-start", ...tool });
      const inputTextDelta = (part.input_text ?? "").slice(progress.input);
      progress.input += inputTextDelta.length;
      if (inputTextDelta !== "") this.#chunks.push({ type: "tool-input-delta", toolCallId, inputTextDelta });
      return;
    }
    const errorText = part.error ?? "failed";
    if (state === "failed" && input === undefined) {
      reach(Phase.Ended, { type: "tool-input-error", ...tool, input: part.input_text, errorText });
      return;
    }
    reach(Phase.Available, { type: "tool-input-available", ...tool, input });
    if (approval?.status === "pending") {
      const { interaction_id: approvalId, revision, request } = approval;
      const approvalDescriptor = { revision, request };
      reach(Phase.Asked, { type: "tool-approval-request", approvalId, toolCallId, approvalDescriptor });
    }
    if (state === "completed") {
      reach(Phase.Ended, { type: "tool-output-available", toolCallId, output: part.output, ...EXECUTED });
    } else if (state === "failed" && approval?.status === "denied") {
      reach(Phase.Ended, { type: "tool-output-denied", toolCallId });
    } else if (state === "failed") {
      reach(Phase.Ended, { type: "tool-output-error", toolCallId, errorText, ...EXECUTED });
    }
  }

  /** Parts that come whole: told when they are new, and again when they have changed. */
  #whole(part: Part): void {
    if (this.#told.get(part.part_id) === part) return;
    const isNew = !this.#told.has(part.part_id);
    this.#told.set(part.part_id, part);
    const data = dataOf(part);
    if (data) {
      this.#chunks.push(data as UIMessageChunk);
    } else if (isNew && part.type === "file") {
      this.#enterStep(part);
      this.#chunks.push({ type: "file", url: part.url, mediaType: part.media_type });
    } else if (isNew && part.type === "source") {
      this.#enterStep(part);
      this.#chunks.push(sourceOf(part));
    }
  }

  #enterStep({ step_id }: Part): void {
    if (step_id === undefined || step_id === this.#step) return;
    if (this.#isInStep) this.#endStep();
    this.#step = step_id;
    this.#isInStep = true;
    this.#chunks.push({ type: "start-step" });
  }

  /** A reader forgets its open texts with the step. */
  #endStep(): void {
    for (const progress of this.#texts.values()) this.#endText(progress);
    if (this.#isInStep) this.#chunks.push({ type: "finish-step" });
    this.#isInStep = false;
  }
}

const isThis = (part: Part, told: UIMessage["parts"][number]): boolean =>
  (part.type === "file" && told.type === "file" && told.url === part.url) ||
  (part.type === "source" && "sourceId" in told && told.sourceId === part.source_id);
