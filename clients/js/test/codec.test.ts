import fc from "fast-check";
import { expect, test } from "vitest";
import { CodecError, jsonCodec } from "../src/index.ts";

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
