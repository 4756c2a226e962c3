/** The examples of the README, and programs made of them. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const README = readFileSync(fileURLToPath(new URL("../../README.md", import.meta.url)), "utf8");

export interface Example {
  readonly heading: string;
  readonly code: string;
}

/** All blocks of a language, with the heading that they stand under. */
export function examplesOf(language: string): readonly Example[] {
  const sections = README.split(/^## /m);
  return sections.flatMap((section) => {
    const heading = section.startsWith("# ") ? "Start" : section.slice(0, section.indexOf("\n"));
    const blocks = section.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms"));
    return Array.from(blocks, ([, code]) => ({ heading, code: code ?? "" }));
  });
}

const IMPORTS = ['import { createClient } from "turnwire";', 'import { WebSocket } from "ws";'];
const CLIENT =
  'const client = createClient({ url: "ws://127.0.0.1:8787/ws", WebSocket });\nclient.connect();';
const END = "setTimeout(() => process.exit(0), 500);";

/** A whole program: what the examples before it have made is put before it. */
export function programOf({ code }: Example, url: string): string {
  const own = code.split("\n");
  const imports = [...IMPORTS, ...own].filter((line) => line.startsWith("import "));
  const known = imports.filter((line, index) => imports.findIndex((other) => isSame(line, other)) === index);
  const rest = own.filter((line) => !line.startsWith("import "));
  const client = /^const client\b/m.test(code) ? [] : [CLIENT];
  return [...known, ...client, ...rest, END].join("\n").replaceAll("ws://127.0.0.1:8787/ws", url);
}

/** Whether two imports bring the same; one may have a comment. */
const isSame = (a: string, b: string): boolean => a.split(";")[0] === b.split(";")[0];
