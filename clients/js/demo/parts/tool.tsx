/** A Tool call: one card that moves through the states of P4, with its input as it streams in (P5). */

import type { ComponentChildren } from "preact";
import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import type { InteractionPart, ToolPart } from "../../src/index.ts";
import { Icon, type IconName } from "../icons.tsx";
import { InteractionCard } from "./interaction.tsx";
import { gist, Value } from "./values.tsx";

const WORDS: Readonly<Record<ToolPart["state"], string>> = {
  "input-streaming": "Preparing",
  ready: "About to run",
  "waiting-user": "Waits for you",
  running: "Running",
  completed: "Done",
  failed: "Failed",
};

const ICONS: Readonly<Partial<Record<ToolPart["state"], IconName>>> = {
  "waiting-user": "hand",
  completed: "check",
  failed: "cross",
};

interface ToolCardProps {
  readonly part: ToolPart;
  /** What the user is asked about this call. */
  readonly interaction: InteractionPart | undefined;
}

export const ToolCard = memo(({ part, interaction }: ToolCardProps) => {
  const { state } = part;
  const name = part.title ?? part.tool_name;
  const asks = state === "waiting-user" && interaction?.interaction_type === "question";
  const icon = asks ? "question" : ICONS[state];
  const words = state === "waiting-user" ? waitingFor(interaction) : (WORDS[state] ?? state);
  return (
    <div
      class="tool"
      role="group"
      aria-label={`Tool ${name}`}
      data-part-id={part.part_id}
      data-tool-state={state}
    >
      <Disclosure open={state === "input-streaming"}>
        <summary>
          <span class="tool-mark">{icon ? <Icon name={icon} /> : <span class="spinner" />}</span>
          <code class="tool-name">{name}</code>
          <span class="tool-gist">{gist(part.input)}</span>
          <span class="tool-state">{words}</span>
        </summary>
        <div class="tool-body">
          <Input part={part} />
          {part.output !== undefined && (
            <>
              <p class="label">Result</p>
              <Value value={part.output} label="Result" />
            </>
          )}
        </div>
      </Disclosure>
      {interaction && <InteractionCard part={interaction} />}
      {part.error !== undefined && !(interaction && SAID.includes(interaction.status)) && (
        <p class="tool-error">{part.error}</p>
      )}
    </div>
  );
});

/** Ends of an Interaction that say as well why its Tool has failed. */
const SAID: readonly string[] = ["denied", "expired", "cancelled"];

const waitingFor = (interaction: InteractionPart | undefined): string =>
  interaction?.interaction_type === "question" ? "Asks you" : "Waits for your approval";

/** Open or closed as `open` says, until the user decides. */
function Disclosure({ open, children }: { open: boolean; children: ComponentChildren }) {
  const [chosen, choose] = useState<boolean>();
  const shown = chosen ?? open;
  return (
    <details
      open={shown}
      onToggle={(event) => {
        // The event also tells of changes that were made here.
        if (event.currentTarget.open !== shown) choose(event.currentTarget.open);
      }}
    >
      {children}
    </details>
  );
}

/** What can be followed of a text that streams in; the whole is shown once it is complete. */
const TAIL_CHARACTERS = 2_000;

function Input({ part: { input, input_text = "", state } }: { part: ToolPart }) {
  if (input !== undefined) {
    return (
      <>
        <p class="label">Input</p>
        <Value value={input} label="Input" />
      </>
    );
  }
  if (input_text === "") return <p class="value-line faint">No input yet</p>;
  const tail = state === "input-streaming" ? input_text.slice(-TAIL_CHARACTERS) : undefined;
  return (
    <>
      <p class="label">{state === "input-streaming" ? "Input as it comes" : "Input as it came"}</p>
      {tail === undefined ? (
        <Value value={input_text} label="Input" />
      ) : (
        <pre class="box tail" tabIndex={0} aria-label="Input as it comes">
          {(tail.length < input_text.length ? "…" : "") + tail}
        </pre>
      )}
    </>
  );
}
