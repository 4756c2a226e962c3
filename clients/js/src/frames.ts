/** Frames: the maps that travel on the WebSocket, told apart by `op` (W3). Only types live here. */

import type * as wire from "./wire.ts";

export type {
  ConfigChange,
  Draining,
  Limits,
  Receipt,
  ReloadNotice,
  ServerFrame,
  Snapshot,
  StopResult,
  Unsubscribed,
  Welcome,
} from "./wire.ts";

/** Any frame from the server; unknown ones have just an `op` that this client does not know. */
export interface UnknownFrame {
  readonly op: string;
  readonly [field: string]: unknown;
}

export type ErrorFrame = wire.Error;
export type ResultFrame = wire.Result;

/** The frames that a SessionView takes in. */
export type SessionFrame = wire.Snapshot | wire.MutationFrame | wire.ReloadNotice | wire.Unsubscribed;

/** What a client may put into a prompt: User Parts without the identity that the server gives them. */
export type PartInput = NonNullable<wire.Prompt["parts"]>[number];

/** Every request after `hello`. */
export type RequestOp = keyof wire.Results & wire.Request["op"];

/** An Omit that works on each member of a union. */
export type OmitEach<T, Keys extends string> = T extends unknown ? Omit<T, Keys> : never;

/** The fields of a request, without those that the connection puts in. */
export type Fields<Op extends RequestOp> = OmitEach<Extract<wire.Request, { op: Op }>, "op" | "id">;
export type Result<Op extends RequestOp> = wire.Results[Op];
