import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CodecError, jsonCodec } from "../src/index.ts";
import { readVectors } from "./support/vectors.ts";

test("W2 the JSON codec speaks the subprotocol of text frames", () => {
  expect(jsonCodec.subprotocol).toBe("turnwire.v1.json");
  expect(jsonCodec.encode({ op: "ping", id: 1 })).toBe('{"op":"ping","id":1}');
});

test("W2 what is encoded is decoded to the same frame, and unset fields are left out", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), (fields) => {
      const frame = { ...fields, op: "x" };
      expect(jsonCodec.decode(jsonCodec.encode(frame))).toEqual(JSON.parse(JSON.stringify(frame)));
    }),
  );
  expect(jsonCodec.encode({ op: "x", gone: undefined })).toBe('{"op":"x"}');
});

test("W9 half a surrogate pair is sent as the replacement character, and nothing else is touched", () => {
  const sent = (text: string): unknown => JSON.parse(String(jsonCodec.encode({ op: "x", text })));
  expect(sent("a\ud83d b")).toEqual({ op: "x", text: "a\ufffd b" });
  expect(sent("\ude00")).toEqual({ op: "x", text: "\ufffd" });
  fc.assert(
    fc.property(
      fc.string({ unit: "binary" }),
      fc.constantFrom("\\ud800", "\\\\udfff", "\ud83d\ude00"),
      (text, more) => {
        expect(sent(text + more + text)).toEqual({ op: "x", text: text + more + text });
      },
    ),
  );
  fc.assert(
    fc.property(fc.array(fc.nat(0xffff)), (units) => {
      const { text } = sent(String.fromCharCode(...units)) as { text: string };
      expect(new TextDecoder("utf-8", { ignoreBOM: true }).decode(new TextEncoder().encode(text))).toBe(text);
    }),
  );
});

test.each([
  ["binary data", new Uint8Array([123, 125])],
  ["no JSON", "{"],
  ["nothing", ""],
  ["a list", "[]"],
  ["null", "null"],
  ["a number", "1"],
  ["a map without op", "{}"],
  ["an op that is no string", '{"op":1}'],
])("W9 %s is no frame", (_, data) => {
  expect(() => jsonCodec.decode(data)).toThrow(CodecError);
});

interface Case {
  readonly name: string;
  readonly rules: readonly string[];
  readonly format: "json" | "msgpack";
  readonly text?: string;
  readonly value?: object;
}

const vectors = new Map(
  readVectors<Case>("codec").map(({ file, cases }) => [file, cases.filter((each) => each.format === "json")]),
);

function casesOf(file: string): readonly Case[] {
  const cases = vectors.get(file)?.filter((each) => each.value !== undefined) ?? [];
  if (cases.length === 0) throw new Error(`${file} has no case for JSON`);
  return cases;
}

describe("server_frames.json", () => {
  for (const { name, rules, text, value } of casesOf("server_frames.json")) {
    test(`${rules.join(" ")} ${name}`, () => {
      expect(jsonCodec.decode(text)).toEqual(value);
      expect(jsonCodec.decode(jsonCodec.encode(value!))).toEqual(value);
    });
  }
});

describe("requests.json", () => {
  for (const { name, rules, text, value } of casesOf("requests.json")) {
    test(`${rules.join(" ")} ${name}`, () => {
      expect(JSON.parse(String(jsonCodec.encode(value!)))).toEqual(JSON.parse(text!));
    });
  }
});
