/**
 * What a screen reader hears: a finished answer once, as text, and that the agent asks something. Were the streaming
 * text itself announced, every fragment would interrupt the one before.
 */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Message, PendingInteraction } from "../src/index.ts";

/** Longer answers are better read than heard in one go. */
const MAX_CHARACTERS = 600;

interface AnnouncerProps {
  readonly running: boolean;
  readonly messages: readonly Message[];
  readonly interactions: readonly PendingInteraction[];
}

export function Announcer({ running, messages, interactions }: AnnouncerProps) {
  const [words, setWords] = useState("");
  const wasRunning = useRef(running);
  useEffect(() => {
    if (wasRunning.current && !running) setWords(spoken(messages.at(-1)));
    if (running) setWords("");
    wasRunning.current = running;
  }, [running]);
  const asked = interactions.at(-1);
  useEffect(() => {
    if (asked)
      setWords(asked.interaction_type === "question" ? "The agent asks you something." : approval(asked));
  }, [asked?.interaction_id]);
  return (
    <p class="unseen" aria-live="polite" aria-atomic="true">
      {words}
    </p>
  );
}

function approval({ request }: PendingInteraction): string {
  const { tool_name = "a tool" } = request as { tool_name?: string };
  return `The agent asks for your approval of ${tool_name}.`;
}

function spoken(message: Message | undefined): string {
  if (message?.role !== "agent") return "";
  const parts = message.parts.map((part) => {
    if (part.type === "text") return part.text;
    return part.type === "error" ? part.message : "";
  });
  const text = parts.filter((part) => part !== "").join("\n");
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text;
}
