// Writes src/wire.ts from the JSON Schema of the wire; with --check only says whether it is as it should be.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { format } from "prettier";

const SCHEMA = new URL("../../../protocol/schema/turnwire.v1.schema.json", import.meta.url);
const TARGET = fileURLToPath(new URL("../src/wire.ts", import.meta.url));
/** What types.ts derives from the generated types, for the generated types to use in turn. */
const DERIVED = new Set(["Message"]);
const RESULT = "Result of ";

const HEAD = `/**
 * The shapes of the wire. Made from protocol/schema by scripts/types.mjs (\`npm run types:generate\`): not to be
 * changed by hand.
 *
 * A newer server may send Part types, kinds and fields that are not listed: they are kept as they came (P2), so
 * a \`switch\` over \`type\` or \`variant\` needs a default branch that does nothing.
 */

import type { ${[...DERIVED].join(", ")} } from "./types.ts";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
`;

/** The TypeScript type of a schema. Throws at what it does not know: a silent `unknown` would be drift. */
function typeOf(schema) {
  if (schema.$ref) return schema.$ref.replace("#/$defs/", "");
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" | ");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "integer" || schema.type === "number") return "number";
  if (schema.type === "string" || schema.type === "boolean") return schema.type;
  if (schema.type === "array") return `readonly (${typeOf(schema.items)})[]`;
  if (schema.type === "object")
    return schema.properties ? fieldsOf(schema) : "{ readonly [key: string]: Json }";
  if (Object.keys(schema).length === 0) return "Json";
  throw new Error(`no TypeScript for ${JSON.stringify(schema)}`);
}

const commentOf = ({ description }) => (description ? `/** ${description} */\n` : "");

function fieldsOf({ properties, required }) {
  const fields = Object.entries(properties).map(
    ([name, schema]) =>
      `${commentOf(schema)}readonly ${name}${required.includes(name) ? "" : "?"}: ${typeOf(schema)};`,
  );
  return `{ ${fields.join("\n")} }`;
}

function definitionOf([name, schema]) {
  const comment = commentOf(schema);
  if (schema.allOf) {
    return `${comment}export type ${name} = ${fieldsOf(schema)} & (${schema.allOf.map(typeOf).join(" & ")});`;
  }
  const isMap = schema.type === "object" && schema.properties && Object.keys(schema.properties).length > 0;
  if (isMap) return `${comment}export interface ${name} ${fieldsOf(schema)}`;
  return `${comment}export type ${name} = ${schema.type === "object" ? "object" : typeOf(schema)};`;
}

function source({ $defs }) {
  const all = Object.entries($defs);
  const results = all.filter(([name]) => name.startsWith(RESULT));
  const named = all.filter(([name]) => !name.startsWith(RESULT) && !DERIVED.has(name));
  const entries = results.map(
    ([name, schema]) => `${JSON.stringify(name.slice(RESULT.length))}: ${typeOf(schema)};`,
  );
  const table = `/** What the \`result\` of each request holds. */\nexport interface Results { ${entries.join("\n")} }`;
  return [HEAD, ...named.map(definitionOf), table].join("\n\n");
}

const schema = JSON.parse(readFileSync(SCHEMA, "utf8"));
const text = await format(source(schema), { parser: "typescript", printWidth: 110 });
if (!process.argv.includes("--check")) {
  writeFileSync(TARGET, text);
} else if (readFileSync(TARGET, "utf8") !== text) {
  console.error("src/wire.ts differs from the schema of the wire: run npm run types:generate");
  process.exitCode = 1;
}
