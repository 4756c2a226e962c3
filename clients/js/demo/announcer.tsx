/**
 * What a screen reader hears: a finished answer once, as text. Were the streaming text itself announced, every
 * fragment would interrupt the one before.
 */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Message } from "../src/index.ts";

/** Longer answers are better read than heard in one go. */
const MAX_CHARACTERS = 600;

export function Announcer({ running, messages }: { running: boolean; messages: readonly Message[] }) {
  const [words, setWords] = useState("");
  const wasRunning = useRef(running);
  useEffect(() => {
    if (wasRunning.current && !running) setWords(spoken(messages.at(-1)));
    if (running) setWords("");
    wasRunning.current = running;
  }, [running]);
  return (
    <p class="unseen" aria-live="polite" aria-atomic="true">
      {words}
    </p>
  );
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
