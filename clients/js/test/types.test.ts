/** That the types cannot drift from the schema of the wire. */

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, expectTypeOf, test } from "vitest";
import type { Fields, Message, Mutation, PartInput, Receipt, Result } from "../src/index.ts";
import type { AgentMessage, UserMessage } from "../src/wire.ts";

const script = fileURLToPath(new URL("../scripts/types.mjs", import.meta.url));

test("W2 src/wire.ts is what the schema of the wire says", () => {
  expect(() => execFileSync(process.execPath, [script, "--check"], { stdio: "pipe" })).not.toThrow();
});

test("M5 both kinds of Message can be read as one", () => {
  expectTypeOf<UserMessage>().toExtend<Message>();
  expectTypeOf<AgentMessage>().toExtend<Message>();
});

test("L3 a Mutation is told apart by its variant", () => {
  expectTypeOf<Extract<Mutation, { variant: "delta" }>["delta"]>().toEqualTypeOf<string>();
  expectTypeOf<Mutation["seq"]>().toEqualTypeOf<number>();
});

test("W3 a request has the fields and the result of the schema", () => {
  expectTypeOf<Fields<"stop">>().toEqualTypeOf<{ readonly session_id: string; readonly turn_id?: string }>();
  expectTypeOf<Result<"prompt">>().toEqualTypeOf<Receipt>();
  expectTypeOf<PartInput["type"]>().toEqualTypeOf<"text" | "context" | "file" | "data">();
});
