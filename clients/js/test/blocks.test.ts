/** The page's Markdown while it streams, against the same text read in one go. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { BlockReader, htmlOf } from "../demo/blocks.ts";

const read = (text: string): string => new BlockReader().read(text, false).map(htmlOf).join("");

const piece = fc.constantFrom(
  "# Heading\n",
  "Some *text* with `code`\n",
  "more of it",
  "\n",
  "\n\n",
  "- item\n",
  "  - nested\n",
  "1. one\n",
  "    indented\n",
  "```js\n",
  "```\n",
  "let a = 1;\n",
  "> quote\n",
  "---\n",
  "===\n",
  "| a | b |\n|---|---|\n| 1 | 2 |\n",
  "<details>\n",
  "</details>\n",
  "<!-- ",
  "-->\n",
  "\t",
  "\r\n",
  "~~~\n",
  "**bold",
  "**",
  "日本語\n",
);

test("J2 a text that streams in looks at every fragment as if it had been there at once", () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const reader = new BlockReader();
      let text = "";
      for (const next of pieces) {
        text += next;
        expect(reader.read(text, true).map(htmlOf).join("")).toBe(read(text));
      }
    }),
    { numRuns: 2_000 },
  );
});

test("J1 a text that is replaced by another is read anew", () => {
  const reader = new BlockReader();
  reader.read("one\n\ntwo\n\nthree\n\nfour\n\nfive", true);
  expect(reader.read("five\n\nfour", true).map(htmlOf).join("")).toBe("<p>five</p>\n<p>four</p>\n");
});

test("J2 references are resolved at the end, wherever they are defined", () => {
  const text = `[far][x]\n\n${"filler\n\n".repeat(10)}[x]: https://example.com/\n`;
  const reader = new BlockReader();
  for (let end = 0; end < text.length; end += 7) reader.read(text.slice(0, end), true);
  expect(reader.read(text, false).map(htmlOf).join("")).toContain('href="https://example.com/"');
});

test("Z2 blocks that are done stay the same objects, so that nobody shows them again", () => {
  const reader = new BlockReader();
  let text = "para\n\n".repeat(50);
  const before = reader.read(text, true);
  text += "and more";
  const after = reader.read(text, true);
  expect(after.length).toBeGreaterThan(50);
  expect(after.filter((block) => before.includes(block)).length).toBeGreaterThan(45);
});

test("X5 bare tags format, and all other HTML is shown as it was written", () => {
  expect(read("a<br>b <sub>2</sub>")).toBe("<p>a<br>b <sub>2</sub></p>\n");
  expect(read("<img src=x onerror=alert(1)>")).not.toContain("<img");
  expect(read('x <a href="javascript:alert(1)">y</a>')).toContain("&lt;a href=");
  expect(read("<script>alert(1)</script>")).toContain("&lt;script>alert(1)&lt;/script>");
});
