/** Reads the cases that all implementations of the protocol share. */

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const VECTORS = new URL("../../../../protocol/vectors/", import.meta.url);

export interface VectorFile<Case> {
  readonly file: string;
  readonly cases: readonly Case[];
}

/** Every file of `vectors/<folder>`. Throws where there is nothing to test: that would prove nothing. */
export function readVectors<Case>(folder: string): readonly VectorFile<Case>[] {
  const directory = new URL(`${folder}/`, VECTORS);
  const files = readdirSync(directory).filter((name) => name.endsWith(".json"));
  if (files.length === 0) throw new Error(`${fileURLToPath(directory)} holds no vectors`);
  return files.sort().map((file) => {
    const { cases } = JSON.parse(readFileSync(new URL(file, directory), "utf8")) as { cases: Case[] };
    if (cases.length === 0) throw new Error(`${file} holds no case`);
    return { file, cases };
  });
}
