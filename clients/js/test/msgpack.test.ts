import { encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CodecError } from "../src/index.ts";
import { msgpackCodec } from "../src/msgpack.ts";
import { readVectors } from "./support/vectors.ts";

interface FrameCase {
  readonly name: string;
  readonly format: "json" | "msgpack";
  readonly hex?: string;
  readonly value?: unknown;
}

const bytes = (hex: string): ArrayBuffer => new Uint8Array(Buffer.from(hex, "hex")).buffer;
const binary = (frame: object): ArrayBuffer =>
  new Uint8Array(msgpackCodec.encode(frame) as Uint8Array).buffer;

test("W2 the MessagePack codec speaks the subprotocol of binary frames", () => {
  expect(msgpackCodec.subprotocol).toBe("turnwire.v1.msgpack");
  expect(msgpackCodec.encode({ op: "ping", id: 1 })).toBeInstanceOf(Uint8Array);
});

test("W2 what is encoded is decoded to the same frame, and unset fields are left out", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), (fields) => {
      const frame = { ...(JSON.parse(JSON.stringify(fields)) as object), op: "x" };
      fc.pre(!JSON.stringify(frame).includes('"__proto__"')); // of which more below
      expect(msgpackCodec.decode(binary(frame))).toEqual(frame);
    }),
  );
  expect(msgpackCodec.decode(binary({ op: "x", gone: undefined }))).toEqual({ op: "x" });
});

test("W2 integers keep all of their 53 bits", () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), (n) => {
      expect(msgpackCodec.decode(binary({ op: "x", n }))).toEqual({ op: "x", n });
    }),
  );
  expect(msgpackCodec.decode(binary({ op: "x", n: Number.MAX_SAFE_INTEGER }))).toEqual({
    op: "x",
    n: 9_007_199_254_740_991,
  });
});

const cases = readVectors<FrameCase>("codec").flatMap(({ file, cases: all }) =>
  file === "server_frames.json" ? all.filter((item) => item.format === "msgpack") : [],
);

describe("W2 frames of the server, from the shared vectors", () => {
  test("there are some", () => expect(cases.length).toBeGreaterThan(10));
  test.each(cases.map((item) => [item.name, item] as const))("%s", (_, { hex, value }) => {
    expect(msgpackCodec.decode(bytes(hex!))).toEqual(value);
  });
});

test("W9 half a surrogate pair is sent as the replacement character, and nothing else is touched", () => {
  const sent = (text: string) => msgpackCodec.decode(binary({ op: "x", text: [text], [text]: 1 }));
  expect(sent("a\ud83d b")).toEqual({ op: "x", text: ["a\ufffd b"], "a\ufffd b": 1 });
  expect(sent("\ude00\ud83d\ude00")).toEqual({ op: "x", text: ["\ufffd\u{1f600}"], "\ufffd\u{1f600}": 1 });
});

test("W9 a key that would change a prototype does not end the connection", () => {
  // By hand: a map of `op` and `data`, which is a map with the key `__proto__`.
  const proto = Buffer.from("__proto__");
  const inner = Buffer.concat([Buffer.from([0x81, 0xa0 + proto.length]), proto, Buffer.from([0x01])]);
  const head = Buffer.from([0x82, ...encode("op"), ...encode("x"), ...encode("data")]);
  const whole = new Uint8Array(Buffer.concat([head, inner])).buffer;
  const frame = msgpackCodec.decode(whole) as Record<string, unknown>;
  expect(frame).toEqual({ op: "x", data: { "__proto__ ": 1 } });
  expect(Object.getPrototypeOf(frame["data"])).toBe(Object.prototype);
});

test.each([
  ["text", "{}"],
  ["nothing", new ArrayBuffer(0)],
  ["half a map", bytes("82a26f70")],
  ["a list", bytes("90")],
  ["two values", bytes("8080")],
  ["a map without op", bytes("80")],
  ["an op that is no string", bytes("81a26f7001")],
])("W9 %s is no frame", (_, data) => {
  expect(() => msgpackCodec.decode(data)).toThrow(CodecError);
});
