/** Markdown to safe DOM: marked reads it, DOMPurify lets only harmless elements through (X5). */

import createPurifier from "dompurify";
import { Lexer, Marked, type Token } from "marked";

export type Block = Token;

const BARE_TAG = /^<\/?[a-z][a-z0-9]*\s*\/?>$/i;

const escapeHtml = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

const marked = new Marked({
  gfm: true,
  renderer: {
    // A checkbox is no control here, just a sign.
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    // Bare tags are formatting; any other HTML is shown as it was written, so nothing vanishes unseen.
    html: ({ text }) => text.replace(/<[^>]*>?/g, (tag) => (BARE_TAG.test(tag) ? tag : escapeHtml(tag))),
  },
});

/** Blocks at the end of the text that its next fragment may still change: a list, its blank line, what follows. */
const OPEN_BLOCKS = 3;

/** Splits a growing text into blocks, reading only the end of it anew. */
export class BlockReader {
  #text = "";
  #blocks: Block[] = [];

  read(source: string, streaming: boolean): readonly Block[] {
    // The lexer does the same, and the offsets below must be those of what it read.
    const text = source.includes("\r") ? source.replaceAll(/\r\n?/g, "\n") : source;
    // The last time everything is read in one go: references may point to definitions far below.
    const kept = streaming && text.startsWith(this.#text) ? this.#blocks.slice(0, -OPEN_BLOCKS) : [];
    const offset = kept.reduce((length, block) => length + block.raw.length, 0);
    const fresh = new Lexer(marked.defaults).lex(text.slice(offset));
    this.#text = text;
    this.#blocks = [...kept, ...fresh];
    return this.#blocks.filter((block) => block.type !== "space" && block.type !== "def");
  }
}

export function renderBlock(block: Block): DocumentFragment {
  return purifier.sanitize(marked.parser([block]), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "src", "alt", "title", "align", "start", "class"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}

const TAGS = (
  "a b blockquote br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s " +
  "samp small span strong sub summary sup table tbody td tfoot th thead tr u ul var"
).split(" ");

const purifier = createPurifier(window);

/** Model text may name the language of its code, and no other class of this page's. */
const LANGUAGE = /^language-[\w+#-]+$/;

purifier.addHook("uponSanitizeAttribute", (node, attribute) => {
  if (attribute.attrName !== "class") return;
  attribute.keepAttr = node.nodeName === "CODE" && LANGUAGE.test(attribute.attrValue);
});

purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A") openApart(node);
  // Code that is wider than the screen must be reachable without a mouse.
  if (node.nodeName === "PRE") node.setAttribute("tabindex", "0");
  if (node.nodeName === "IMG" && !isLocal(node.getAttribute("src"))) node.replaceWith(linkTo(node));
});

function openApart(link: Element): void {
  if (!link.hasAttribute("href")) return;
  link.setAttribute("target", "_blank");
  link.setAttribute("rel", "noopener noreferrer");
}

/** Whether showing the image asks nobody outside for anything. */
function isLocal(src: string | null): boolean {
  if (src === null) return true;
  const url = parseUrl(src);
  if (url?.protocol === "data:") return src.trimStart().toLowerCase().startsWith("data:image/");
  return url?.origin === location.origin;
}

/** A link in the place of an image from elsewhere: it loads when the user says so. */
function linkTo(image: Element): Element {
  const src = image.getAttribute("src") ?? "";
  const words = image.getAttribute("alt") || src;
  const link = image.ownerDocument.createElement("a");
  link.textContent = `Image: ${words}`;
  if (/^https?:$/.test(parseUrl(src)?.protocol ?? "")) link.setAttribute("href", src);
  openApart(link);
  return link;
}

const parseUrl = (text: string): URL | undefined =>
  URL.canParse(text, document.baseURI) ? new URL(text, document.baseURI) : undefined;
