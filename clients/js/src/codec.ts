/**
 * Frames to what a WebSocket sends, and back (W2). A Codec is one format; which one is spoken is said by its
 * subprotocol. JSON lives here; another format is another Codec, given to `createClient`.
 */

import type { ServerFrame, UnknownFrame } from "./frames.ts";

export interface Codec {
  /** What is offered in the WebSocket handshake. */
  readonly subprotocol: string;
  encode(frame: object): string | Uint8Array<ArrayBuffer>;
  /** The frame in `data`, a WebSocket message as it came. Throws CodecError when it is none. */
  decode(data: unknown): ServerFrame | UnknownFrame;
}

/** What came is not one frame of the negotiated format. */
export class CodecError extends Error {
  override readonly name = "CodecError";
}

/**
 * Half of a surrogate pair, as JSON.stringify writes it, or an escaped backslash, which may stand before an innocent
 * "ud800". No peer can hold such a half: the server refuses the frame without knowing which request it was.
 */
const ESCAPES = /\\(?:\\|ud[89a-f][\da-f]{2})/g;

export const jsonCodec: Codec = {
  subprotocol: "turnwire.v1.json",
  encode: (frame) =>
    JSON.stringify(frame).replace(ESCAPES, (escape) => (escape === "\\\\" ? escape : "\ufffd")),
  decode(data) {
    if (typeof data !== "string") throw new CodecError("expected a text frame");
    return frameOf(parse(data));
  },
};

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CodecError("not JSON", { cause: error });
  }
}

/** `value` as a frame: one map with an `op`. Throws CodecError. */
export function frameOf(value: unknown): ServerFrame | UnknownFrame {
  const frame = value as UnknownFrame | undefined | null;
  if (typeof frame?.op !== "string") throw new CodecError("a frame is one map with an op");
  return frame;
}
