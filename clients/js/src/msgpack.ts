/** `turnwire/msgpack`: the MessagePack format of the wire (W2), for less to send and to parse. Needs `@msgpack/msgpack`. */

import { Decoder, Encoder } from "@msgpack/msgpack";
import { type Codec, CodecError, frameOf } from "./codec.ts";

/** Fields that are unset are left out, as in JSON. */
const encoder = new Encoder({ ignoreUndefined: true });

/**
 * Setting a key `__proto__` would change a map's prototype, so the library refuses it; but the input of a tool may well
 * hold one, and then the whole Session could not be read. Under this name it is an ordinary key.
 */
const HARMLESS = "__proto__ ";
const utf8 = new TextDecoder();

const decoder = new Decoder({
  keyDecoder: {
    canBeCached: () => true,
    decode(bytes, start, length) {
      const key = keyOf(bytes.subarray(start, start + length));
      return key === "__proto__" ? HARMLESS : key;
    },
  },
});

/** Keys are short and nearly always ASCII, where this is much faster than a TextDecoder. */
function keyOf(bytes: Uint8Array): string {
  let key = "";
  for (const byte of bytes) {
    if (byte > 0x7f) return utf8.decode(bytes);
    key += String.fromCharCode(byte);
  }
  return key;
}

export const msgpackCodec: Codec = {
  subprotocol: "turnwire.v1.msgpack",
  encode: (frame) => encoder.encode(wellFormed(frame)),
  decode(data) {
    if (!(data instanceof ArrayBuffer)) throw new CodecError("expected a binary frame");
    return frameOf(parse(data));
  },
};

/** Half of a surrogate pair is no UTF-8: it becomes the replacement character, as in JSON. */
const HALVES = /[\ud800-\udfff]/gu;

function wellFormed(value: unknown): unknown {
  if (typeof value === "string") return value.replace(HALVES, "\ufffd");
  if (Array.isArray(value)) return value.map(wellFormed);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [wellFormed(key), wellFormed(item)]));
}

function parse(data: ArrayBuffer): unknown {
  try {
    return decoder.decode(data);
  } catch (error) {
    throw new CodecError("not MessagePack", { cause: error });
  }
}
