/** Frames: the maps that travel on the WebSocket, told apart by `op` (W3). Only types live here. */

import type {
  ActiveTurn,
  Config,
  Json,
  Mutation,
  Page,
  PendingInteraction,
  QueuedPrompt,
  Session,
  SessionPage,
} from "./types.ts";

/** Any frame from the server; unknown ones have just an `op` that this client does not know. */
export interface UnknownFrame {
  readonly op: string;
  readonly [field: string]: unknown;
}

/** What the server holds clients to: bytes for `max_frame` and `max_request`, items for the others. */
export interface Limits {
  readonly max_frame: number;
  readonly max_request: number;
  readonly page: number;
  readonly max_page: number;
  readonly max_subscriptions: number;
}

export interface Welcome {
  readonly op: "welcome";
  readonly id: number;
  readonly protocol: number;
  readonly server: string;
  readonly limits: Limits;
  readonly tick_ms: number;
  readonly principal: { readonly id: string };
}

export interface Snapshot {
  readonly op: "snapshot";
  readonly session_id: string;
  readonly epoch: string;
  readonly seq: number;
  readonly session: Session;
  readonly page: Page;
  readonly turn?: ActiveTurn;
  readonly queue: readonly QueuedPrompt[];
  readonly interactions: readonly PendingInteraction[];
  readonly part: number;
  readonly parts: number;
}

export interface ReloadNotice {
  readonly op: "reload";
  readonly session_id: string;
  readonly reason: string;
}

export interface Unsubscribed {
  readonly op: "unsubscribed";
  readonly session_id: string;
  readonly reason: string;
}

export interface ResultFrame {
  readonly op: "result";
  readonly id: number;
  readonly result: unknown;
}

export interface ErrorFrame {
  readonly op: "error";
  readonly id?: number;
  readonly code: string;
  readonly message: string;
  readonly field?: string;
  readonly retryable: boolean;
  readonly [detail: string]: unknown;
}

export interface Draining {
  readonly op: "draining";
  readonly retry_after_ms: number;
}

/** The frames that a SessionView takes in. */
export type SessionFrame = Snapshot | Mutation | ReloadNotice | Unsubscribed;

export type ServerFrame =
  Welcome | ResultFrame | ErrorFrame | SessionFrame | Draining | { readonly op: "tick" };

// -------------------------------------------------------------------------------------------------- requests

/** What a client may put into a prompt: User Parts without the identity that the server gives them. */
export type PartInput =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "context"; readonly tag: string; readonly context: string }
  | { readonly type: "file"; readonly url: string; readonly media_type: string; readonly filename?: string }
  | { readonly type: "data"; readonly data_type: string; readonly data: Json; readonly data_id?: string };

export interface Receipt {
  readonly outcome: "started" | "steered" | "queued" | "duplicate";
  readonly turn_id: string;
  readonly message_id: string;
  readonly sequence: number;
}

export interface StopResult {
  readonly stopped: boolean;
  readonly turn_id?: string;
  readonly cancelled_prompts: number;
  readonly reason: "stopped" | "idle";
}

type ConfigChange = Partial<Config>;

/** Every request after `hello`: its fields, and what its `result` holds. */
export interface Requests {
  ping: { fields: object; result: object };
  "session.create": {
    fields: {
      session_id?: string;
      title?: string;
      config?: ConfigChange;
      metadata?: { [key: string]: Json };
      client_request_id?: string;
    };
    result: { session: Session };
  };
  "session.list": { fields: { before?: string; limit?: number; archived?: boolean }; result: SessionPage };
  "session.get": { fields: { session_id: string }; result: { session: Session } };
  "session.update": {
    fields: { session_id: string; title?: string; config?: ConfigChange };
    result: { session: Session };
  };
  subscribe: {
    fields: { session_id: string; limit?: number; include_internal?: boolean };
    result: { epoch: string; seq: number };
  };
  reload: { fields: { session_id: string }; result: { epoch: string; seq: number } };
  unsubscribe: { fields: { session_id: string }; result: object };
  messages: {
    fields: { session_id: string; before_sequence?: number; limit?: number; include_internal?: boolean };
    result: Page;
  };
  prompt: {
    fields: {
      session_id: string;
      client_request_id: string;
      text?: string;
      parts?: readonly PartInput[];
      if_idle?: boolean;
      expected_turn_id?: string;
    };
    result: Receipt;
  };
  stop: { fields: { session_id: string; turn_id?: string }; result: StopResult };
  interactions: { fields: { session_id: string }; result: { items: PendingInteraction[] } };
}

export type RequestOp = keyof Requests;
export type Fields<Op extends RequestOp> = Requests[Op]["fields"];
export type Result<Op extends RequestOp> = Requests[Op]["result"];
