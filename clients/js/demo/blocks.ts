/** Markdown as blocks: a growing text is read again only at its end. What blocks look like is `markdown`. */

import { Lexer, Marked, type Token } from "marked";

export type Block = Token;

/** Elements that only format what is in them. */
export const FORMATTING = (
  "b blockquote br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i ins kbd li mark ol p pre q s samp small " +
  "span strong sub summary sup table tbody td tfoot th thead tr u ul var"
).split(" ");

const BARE_TAG = new RegExp(`^</?(?:${FORMATTING.join("|")})\\s*/?>$`, "i");

const escapeHtml = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

const marked = new Marked({
  gfm: true,
  renderer: {
    // A checkbox is no control here, just a sign.
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    // Formatting without attributes is taken; any other HTML is shown as it was written, so nothing vanishes.
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

/** HTML of one block, not yet to be trusted. */
export const htmlOf = (block: Block): string => marked.parser([block]);
