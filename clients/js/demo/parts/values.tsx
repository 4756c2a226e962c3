/** Values as people read them: an object by its fields, text as text, and nothing longer than a screen or two. */

import { useState } from "preact/hooks";
import type { Json } from "../../src/index.ts";

/** More text than this is shown on request only: laying out megabytes would stop the page (Z2). */
const SHOWN_CHARACTERS = 8_000;

export const pretty = (value: unknown): string => JSON.stringify(value, null, 2);

const KILO = 1_000;
const sizeOf = (length: number): string =>
  length < KILO * KILO ? `${Math.round(length / KILO)},000` : `${(length / KILO / KILO).toFixed(1)} million`;

/** Text in its own box, scrolled when wide; a long one is cut until the user asks for all of it. */
export function TextBox({ text, label }: { text: string; label: string }) {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > SHOWN_CHARACTERS;
  return (
    <>
      <pre class="box" tabIndex={0} aria-label={label}>
        {cut ? text.slice(0, SHOWN_CHARACTERS) : text}
      </pre>
      {cut && (
        <button type="button" class="link-button" onClick={() => setAll(true)}>
          Show all {sizeOf(text.length)} characters
        </button>
      )}
    </>
  );
}

const LINE_CHARACTERS = 80;
const isLine = (value: Json): value is string | number | boolean | null =>
  typeof value === "string"
    ? value.length <= LINE_CHARACTERS && !value.includes("\n")
    : typeof value !== "object" || value === null;

const isObject = (value: Json): value is { [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A value of a tool: its input, its output, or what is asked to be allowed. */
export function Value({ value, label }: { value: Json; label: string }) {
  if (isLine(value)) return <p class="value-line">{String(value)}</p>;
  if (typeof value === "string") return <TextBox text={value} label={label} />;
  if (!isObject(value)) return <TextBox text={pretty(value)} label={label} />;
  const fields = Object.entries(value);
  if (fields.length === 0) return <p class="value-line faint">nothing</p>;
  return (
    <dl class="fields">
      {fields.map(([name, field]) => (
        <div class={isLine(field) ? "field" : "field tall"} key={name}>
          <dt>{name}</dt>
          <dd>
            {isLine(field) ? (
              String(field)
            ) : (
              <TextBox text={typeof field === "string" ? field : pretty(field)} label={`${label}: ${name}`} />
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** The first short text of a tool's input: what it is about, in the one line of its heading. */
export function gist(input: Json | undefined): string {
  if (input === undefined || !isObject(input)) return "";
  const line = Object.values(input).find((value) => typeof value === "string" && isLine(value));
  return typeof line === "string" ? line : "";
}
