/**
 * Model text as Markdown, block by block: while text streams in only the blocks that changed are rendered again,
 * which is the last one or two, however long the answer has become.
 */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { type Block, BlockReader } from "./blocks.ts";
import { dressCode, growCode } from "./code_blocks.ts";
import { renderBlock } from "./markdown.ts";
import type { TextElement } from "./plain_text.tsx";

interface MarkdownTextProps {
  readonly part_id: string;
  readonly text: string;
  readonly streaming: boolean;
}

/** A block that takes long to render may keep the page busy for one part in so many of the time. */
const SHARE = 4;

export function MarkdownText({ part_id, text, streaming }: MarkdownTextProps) {
  const element = useRef<TextElement>(null);
  const renderer = useRef<Renderer>(undefined);
  useLayoutEffect(() => {
    if (!element.current) return;
    renderer.current ??= new Renderer(element.current);
    renderer.current.show(text, streaming);
  }, [text, streaming]);
  useEffect(() => () => renderer.current?.stop(), []);
  // The children are made by the renderer; the tree has none, so it leaves them alone.
  return <div ref={element} class="markdown" data-part-id={part_id} data-streaming={streaming} />;
}

/** Shows a growing text in an element: at once while that is quick, else as often as leaves the page usable. */
class Renderer {
  readonly #element: TextElement;
  readonly #reader = new BlockReader();
  #shown: readonly Block[] = [];
  #text = "";
  #streaming = true;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #free = 0;

  constructor(element: TextElement) {
    this.#element = element;
  }

  show(text: string, streaming: boolean): void {
    this.#text = text;
    this.#streaming = streaming;
    const wait = this.#free - performance.now();
    if (!streaming || wait <= 0) this.#render();
    else this.#timer ??= setTimeout(() => this.#render(), wait);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #render(): void {
    this.stop();
    const start = performance.now();
    const blocks = this.#reader.read(this.#text, this.#streaming);
    patch(this.#element, this.#shown, blocks);
    this.#shown = blocks;
    this.#element.turnwireText = this.#text;
    const end = performance.now();
    this.#free = end + (end - start) * (SHARE - 1);
  }
}

/** Makes the children of `element`, which show `before`, show `after`. */
function patch(element: HTMLElement, before: readonly Block[], after: readonly Block[]): void {
  let same = 0;
  while (same < before.length && before[same]?.raw === after[same]?.raw) same += 1;
  if (grow(element.children[same], before[same], after[same])) same += 1;
  while (element.childElementCount > same) element.lastElementChild?.remove();
  for (const block of after.slice(same)) {
    const box = document.createElement("div");
    box.className = "block";
    box.append(renderBlock(block));
    dressCode(box);
    element.append(box);
  }
}

/** Code that only got longer grows in its place; says whether it did. */
function grow(box: Element | undefined, before: Block | undefined, after: Block | undefined): boolean {
  if (before?.type !== "code" || after?.type !== "code" || before["lang"] !== after["lang"]) return false;
  const text = String(after["text"]);
  // As the renderer writes it: with one line break at the end.
  return growCode(box, languageIn(String(after["lang"] ?? "")), text && `${text.replace(/\n$/, "")}\n`);
}

/** The language as it stands in the class that Markdown gives to code: the first word after the fence. */
const languageIn = (info: string): string => /^\S*/.exec(info)?.[0] ?? "";
