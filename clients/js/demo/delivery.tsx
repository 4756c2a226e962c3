/** What becomes of a prompt that is sent while a Turn runs: it waits for its turn, or joins the running answer (T1). */

import { useState } from "preact/hooks";
import { browser } from "./storage.ts";

export type DeliveryMode = "queue" | "steer";

const KEY = "turnwire.delivery";

/** The choice is kept for this browser. */
export function useDelivery(): [DeliveryMode, (mode: DeliveryMode) => void] {
  const [mode, setMode] = useState<DeliveryMode>(() => (browser.get(KEY) === "steer" ? "steer" : "queue"));
  const choose = (chosen: DeliveryMode): void => {
    browser.set(KEY, chosen);
    setMode(chosen);
  };
  return [mode, choose];
}

const CHOICES = [
  { mode: "queue", label: "Queue", hint: "Wait until the answer is finished" },
  { mode: "steer", label: "Steer", hint: "Join the running answer with its next step" },
] as const;

interface DeliveryProps {
  readonly mode: DeliveryMode;
  readonly onChange: (mode: DeliveryMode) => void;
}

export function Delivery({ mode, onChange }: DeliveryProps) {
  return (
    <fieldset class="delivery" title="Ctrl+Enter sends the other way">
      <legend class="unseen">When to send</legend>
      {CHOICES.map((choice) => (
        <label key={choice.mode} title={choice.hint}>
          <input
            class="unseen"
            type="radio"
            name="delivery"
            value={choice.mode}
            checked={mode === choice.mode}
            onChange={() => onChange(choice.mode)}
          />
          <span>{choice.label}</span>
        </label>
      ))}
    </fieldset>
  );
}
