/** Code in an answer: the name of its language and a button to copy above it, colours once it stands still. */

import { COPIED_MS, copyText } from "./copy.tsx";
import { colour } from "./highlight.ts";

/** Gives every code block in `box` its head and its colours. */
export function dressCode(box: HTMLElement): void {
  for (const code of box.querySelectorAll<HTMLElement>("pre > code")) {
    const pre = code.parentElement;
    if (!pre) continue;
    const frame = document.createElement("div");
    frame.className = "code";
    pre.replaceWith(frame);
    frame.append(headOf(code), pre);
    colour(code, languageOf(code));
  }
}

/**
 * Puts longer text into the only code block of `box`; false when there is none. While code streams in this spares
 * building the block anew with every fragment, and the button keeps the focus.
 */
export function growCode(box: Element | undefined, language: string, text: string): boolean {
  const codes = box?.querySelectorAll<HTMLElement>("pre > code") ?? [];
  const [code] = codes;
  if (codes.length !== 1 || !code || languageOf(code) !== language) return false;
  code.textContent = text;
  colour(code, language);
  return true;
}

const LANGUAGE = /(?:^| )language-(\S+)/;

const languageOf = (code: HTMLElement): string => LANGUAGE.exec(code.className)?.[1] ?? "";

function headOf(code: HTMLElement): HTMLElement {
  const head = document.createElement("div");
  head.className = "code-head";
  const name = document.createElement("span");
  name.textContent = languageOf(code);
  const button = document.createElement("button");
  button.type = "button";
  button.className = "code-copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy code");
  button.addEventListener("click", () => void copy(code, button));
  head.append(name, button);
  return head;
}

async function copy(code: HTMLElement, button: HTMLButtonElement): Promise<void> {
  button.textContent = (await copyText(code.textContent)) ? "Copied" : "Not possible here";
  setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
}
