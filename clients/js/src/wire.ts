/**
 * The shapes of the wire. Made from protocol/schema by scripts/types.mjs (`npm run types:generate`): not to be
 * changed by hand.
 *
 * A newer server may send Part types, kinds and fields that are not listed: they are kept as they came (P2), so
 * a `switch` over `type` or `variant` needs a default branch that does nothing.
 */

import type { Message } from "./types.ts";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export interface ActionPart {
  readonly type: "action";
  readonly part_id: string;
  readonly sequence: number;
  readonly step_id?: string;
  readonly action_id: string;
  readonly action_type: string;
  readonly state: "completed" | "failed" | "running";
  readonly title: string;
  readonly description?: string;
  readonly data?: Json;
}

export interface ActiveTurn {
  readonly turn_id: string;
  readonly started_at: number;
}

/** `state` says only whether Parts may still be appended (M7). */
export interface AgentMessage {
  readonly role: "agent";
  readonly message_id: string;
  readonly session_id: string;
  readonly turn_id?: string;
  readonly sequence: number;
  readonly revision: number;
  readonly state: "done" | "streaming";
  readonly visibility: "internal" | "visible";
  readonly created_at: number;
  readonly updated_at: number;
  readonly origin?: Origin;
  readonly parts: readonly (
    | TextPart
    | ReasoningPart
    | ToolPart
    | InteractionPart
    | FilePart
    | DataPart
    | SourcePart
    | ActionPart
    | ErrorPart
  )[];
}

/** What a Session runs with; `model` absent means the server's default model. */
export interface Config {
  readonly model?: string;
  readonly approval_mode: "always-allow" | "ask";
}

/** The settings to change; those left out stay. */
export interface ConfigChange {
  readonly model?: string;
  readonly approval_mode?: "always-allow" | "ask";
}

export interface ContextInput {
  readonly type: "context";
  readonly tag: string;
  readonly context: string;
}

/** Context of a User Message, stored as given; tagged only at the model boundary (P3). */
export interface ContextPart {
  readonly type: "context";
  readonly part_id: string;
  readonly sequence: number;
  readonly step_id?: string;
  readonly tag: string;
  readonly context: string;
}

export interface DataInput {
  readonly type: "data";
  readonly data_type: string;
  readonly data: Json;
  readonly data_id?: string;
}

export interface DataPart {
  readonly type: "data";
  readonly part_id: string;
  readonly sequence: number;
  readonly step_id?: string;
  readonly data_type: string;
  readonly data: Json;
  readonly data_id?: string;
}

/** A fragment to append to a Part's text or input_text; whole characters only (L4). */
export interface DeltaMutation {
  readonly variant: "delta";
  readonly mutation_id: string;
  readonly session_id: string;
  readonly created_at: number;
  readonly type: "reasoning" | "text" | "tool_input";
  readonly message_id: string;
  readonly revision: number;
  readonly turn_id?: string;
  readonly part_id: string;
  readonly delta: string;
  readonly tool_call_id?: string;
}

export interface Draining {
  readonly op: "draining";
  readonly retry_after_ms: number;
}

/** A result that says only that it was done. */
export type Empty = object;

/** A refused request, or without `id` a fault that belongs to none (W9). */
export interface Error {
  readonly op: "error";
  readonly id?: number;
  readonly code: string;
  readonly message: string;
  readonly field?: string;
  readonly retryable: boolean;
  readonly status?: string;
  readonly response?: Json;
  readonly by?: string;
  readonly at?: number;
}

/** A stored stop or failure reason (M7). */
export interface ErrorPart {
  readonly type: "error";
  readonly part_id: string;
  readonly sequence: number;
  readonly step_id?: string;
  readonly scope: "session" | "turn";
  readonly code: string;
  readonly message: string;
  readonly recoverable: boolean;
}

export interface FileChange {
  readonly path: string;
  readonly status: "added" | "deleted" | "modified";
  readonly additions: number;
  readonly deletions: number;
  readonly patch?: string;
}

/** Files changed in a Turn: counts and capped patches, never unbounded content (L5). */
export interface FileDiff {
  readonly variant: "file_diff";
  readonly mutation_id: string;
  readonly session_id: string;
  readonly created_at: number;
  readonly turn_id: string;
  readonly files: readonly FileChange[];
  readonly additions: number;
  readonly deletions: number;
}

export interface FileInput {
  readonly type: "file";
  readonly url: string;
  readonly media_type: string;
  readonly filename?: string;
}

export interface FilePart {
  readonly type: "file";
  readonly part_id: string;
  readonly sequence: number;
  readonly step_id?: string;
  readonly url: string;
  readonly media_type: string;
  readonly filename?: string;
}

export interface Hello {
  readonly op: "hello";
  readonly id: number;
  readonly token?: string;
  readonly client?: string;
  readonly protocol?: number;
}

/** How an Interaction ended, for the one who ended it (P7). */
export interface InteractionAnswer {
  readonly status: string;
  readonly response: Json;
}

export interface InteractionList {
  readonly items: readonly PendingInteraction[];
}

/** A question to the user. `revision` is the Message revision that last changed this Interaction (P7). */
export interface InteractionPart {
  readonly type: "interaction";
  readonly part_id: string;
  readonly sequence: number;
  readonly step_id?: string;
  readonly interaction_id: string;
  readonly interaction_type: "approval" | "question";
  readonly tool_call_id: string;
  readonly status: "cancelled" | "denied" | "expired" | "pending" | "resolved";
  readonly revision: number;
  readonly request: Json;
  readonly response?: Json;
  readonly resolved_by?: string;
  readonly resolved_at?: number;
}

export interface InteractionRespond {
  readonly op: "interaction.respond";
  readonly id: number;
  readonly session_id: string;
  readonly interaction_id: string;
  readonly revision: number;
  readonly response: { readonly [key: string]: Json };
  readonly client_request_id?: string;
}

export interface Interactions {
  readonly op: "interactions";
  readonly id: number;
  readonly session_id: string;
}

/** The result of `subscribe` and `reload`: where the snapshot that follows stands. */
export interface Joined {
  readonly epoch: string;
  readonly seq: number;
}

/** What the server holds clients to: bytes for `max_frame`, `max_request` and what ends with `_bytes`, milliseconds
for what ends with `_ms`, counts for the others. */
export interface Limits {
  readonly max_frame: number;
  readonly max_request: number;
  readonly page: number;
  readonly max_page: number;
  readonly max_subscriptions: number;
  readonly max_depth?: number;
  readonly max_values?: number;
  readonly max_fragments?: number;
  readonly max_requests?: number;
  readonly max_queued_bytes?: number;
  readonly requests_per_s?: number;
  readonly request_burst?: number;
  readonly principal_requests_per_s?: number;
  readonly principal_request_burst?: number;
  readonly max_connections?: number;
  readonly max_connections_per_address?: number;
  readonly max_connections_per_principal?: number;
  readonly max_sessions_per_principal?: number;
  readonly hello_bytes?: number;
  readonly hello_timeout_ms?: number;
}

/** The complete Message as it was committed, at the revision that was committed (S3-S5). */
export interface MessageMutation {
  readonly variant: "message";
  readonly mutation_id: string;
  readonly session_id: string;
  readonly created_at: number;
  readonly type: "agent" | "user";
  readonly message_id: string;
  readonly sequence: number;
  readonly revision: number;
  readonly turn_id?: string;
  readonly message: UserMessage | AgentMessage;
}

export interface Messages {
  readonly op: "messages";
  readonly id: number;
  readonly session_id: string;
  readonly before_sequence?: number;
  readonly limit?: number;
  readonly include_internal?: boolean;
}

/** One failed model call (T5). `retryable` classifies the failure; `will_retry: false` means no retry follows. */
export interface ModelRequestWarning {
  readonly variant: "warning";
  readonly mutation_id: string;
  readonly session_id: string;
  readonly created_at: number;
  readonly type: "model_request";
  readonly request_kind: "compaction" | "title" | "turn";
  readonly turn_id?: string;
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly will_retry: boolean;
  readonly retry_in_ms?: number;
}

export type Mutation =
  | MessageMutation
  | PartMutation
  | DeltaMutation
  | TurnStart
  | TurnFinish
  | FileDiff
  | SessionTitle
  | SessionConfig
  | ModelRequestWarning;

/** A Mutation's own fields after `op`, `epoch` and `seq`, in one flat map (W5). */
export type MutationFrame = {
  readonly op: "mutation";
  readonly epoch: string;
  readonly seq: number;
} & Mutation;

/** Where a forked Message or Session came from. */
export interface Origin {
  readonly session_id: string;
  readonly message_id?: string;
}

/** A page of history (M3): whole Messages, ascending; `total` counts all Messages of the Session. */
export interface Page {
  readonly items: readonly Message[];
  readonly total: number;
  readonly start_sequence?: number;
  readonly end_sequence?: number;
  readonly next_before_sequence?: number;
  readonly has_more: boolean;
}

export type Part =
  | TextPart
  | ContextPart
  | FilePart
  | DataPart
  | ReasoningPart
  | ToolPart
  | InteractionPart
  | SourcePart
  | ActionPart
  | ErrorPart;

/** One complete Part of the live Agent Message; always comes before the Part's first delta (L4). */
export interface PartMutation {
  readonly variant: "part";
  readonly mutation_id: string;
  readonly session_id: string;
  readonly created_at: number;
  readonly type: string;
  readonly message_id: string;
  readonly revision: number;
  readonly turn_id?: string;
  readonly part_id: string;
  readonly part:
    | TextPart
    | ReasoningPart
    | ToolPart
    | InteractionPart
    | FilePart
    | DataPart
    | SourcePart
    | ActionPart
    | ErrorPart;
}

export interface PendingInteraction {
  readonly interaction_id: string;
  readonly interaction_type: "approval" | "question";
  readonly tool_call_id: string;
  readonly message_id: string;
  readonly part_id: string;
  readonly revision: number;
  readonly request: Json;
}

export interface Ping {
  readonly op: "ping";
  readonly id: number;
}

export interface Principal {
  readonly id: string;
}

export interface Prompt {
  readonly op: "prompt";
  readonly id: number;
  readonly session_id: string;
  readonly client_request_id: string;
  readonly text?: string;
  readonly parts?: readonly (TextInput | ContextInput | FileInput | DataInput)[];
  readonly if_idle?: boolean;
  readonly expected_turn_id?: string;
}

export interface QueuedPrompt {
  readonly turn_id: string;
  readonly message_id: string;
}

export interface ReasoningPart {
  readonly type: "reasoning";
  readonly part_id: string;
  readonly sequence: number;
  readonly step_id?: string;
  readonly text: string;
  readonly state: "done" | "streaming";
}

/** Where a prompt went (T1). A repeated `client_request_id` gives the first receipt, as `duplicate` (S9). */
export interface Receipt {
  readonly outcome: "duplicate" | "queued" | "started" | "steered";
  readonly turn_id: string;
  readonly message_id: string;
  readonly sequence: number;
}

export interface Reload {
  readonly op: "reload";
  readonly id: number;
  readonly session_id: string;
}

/** No further Mutations of this Session come until the client asks for a new snapshot (W6).

`rolled_back` is reserved. */
export interface ReloadNotice {
  readonly op: "reload";
  readonly session_id: string;
  readonly reason: "lagged" | "restarted" | "rolled_back";
}

export type Request =
  | Hello
  | Ping
  | SessionCreate
  | SessionList
  | SessionGet
  | SessionUpdate
  | Subscribe
  | Reload
  | Unsubscribe
  | Messages
  | Prompt
  | Stop
  | SessionFork
  | SessionArchive
  | SessionDelete
  | InteractionRespond
  | Interactions;

export interface Result {
  readonly op: "result";
  readonly id: number;
  readonly result: Json;
}

export type ServerFrame =
  Welcome | Tick | Result | Error | Snapshot | ReloadNotice | Unsubscribed | Draining | MutationFrame;

/** A Session as clients see it in `session.get`, `session.list` and every snapshot. */
export interface Session {
  readonly session_id: string;
  readonly title?: string;
  readonly config: Config;
  readonly metadata?: { readonly [key: string]: Json };
  readonly created_at: number;
  readonly updated_at: number;
  readonly archived_at?: number;
  readonly message_count: number;
  readonly preview?: string;
  readonly executing: boolean;
  readonly origin?: Origin;
}

export interface SessionArchive {
  readonly op: "session.archive";
  readonly id: number;
  readonly session_id: string;
}

export interface SessionConfig {
  readonly variant: "session";
  readonly mutation_id: string;
  readonly session_id: string;
  readonly created_at: number;
  readonly type: "config";
  readonly config: Config;
}

export interface SessionCreate {
  readonly op: "session.create";
  readonly id: number;
  readonly session_id?: string;
  readonly title?: string;
  readonly config?: ConfigChange;
  readonly metadata?: { readonly [key: string]: Json };
  readonly client_request_id?: string;
}

export interface SessionDelete {
  readonly op: "session.delete";
  readonly id: number;
  readonly session_id: string;
}

export interface SessionFork {
  readonly op: "session.fork";
  readonly id: number;
  readonly session_id: string;
  readonly through_message_id?: string;
  readonly new_session_id?: string;
  readonly client_request_id?: string;
}

export interface SessionGet {
  readonly op: "session.get";
  readonly id: number;
  readonly session_id: string;
}

export interface SessionList {
  readonly op: "session.list";
  readonly id: number;
  readonly before?: string;
  readonly limit?: number;
  readonly archived?: boolean;
}

export interface SessionPage {
  readonly items: readonly Session[];
  readonly next_before?: string;
  readonly has_more: boolean;
}

export interface SessionResult {
  readonly session: Session;
}

export interface SessionTitle {
  readonly variant: "session";
  readonly mutation_id: string;
  readonly session_id: string;
  readonly created_at: number;
  readonly type: "title";
  readonly title: string;
}

export interface SessionUpdate {
  readonly op: "session.update";
  readonly id: number;
  readonly session_id: string;
  readonly title?: string;
  readonly config?: ConfigChange;
  readonly archived?: boolean;
}

/** The state of a Session at one point (`epoch`, `seq`) of its order; `part` of `parts` frames (W4, W10). */
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

export interface SourcePart {
  readonly type: "source";
  readonly part_id: string;
  readonly sequence: number;
  readonly step_id?: string;
  readonly source_type: string;
  readonly source_id: string;
  readonly url?: string;
  readonly title?: string;
}

export interface Stop {
  readonly op: "stop";
  readonly id: number;
  readonly session_id: string;
  readonly turn_id?: string;
}

export interface StopResult {
  readonly stopped: boolean;
  readonly turn_id?: string;
  readonly cancelled_prompts: number;
  readonly reason: "idle" | "stopped";
}

export interface Subscribe {
  readonly op: "subscribe";
  readonly id: number;
  readonly session_id: string;
  readonly limit?: number;
  readonly include_internal?: boolean;
}

export interface TextInput {
  readonly type: "text";
  readonly text: string;
}

/** Text of either role; only an Agent's text has a `state`. */
export interface TextPart {
  readonly type: "text";
  readonly part_id: string;
  readonly sequence: number;
  readonly step_id?: string;
  readonly text: string;
  readonly state?: "done" | "streaming";
}

/** Sent every `tick_ms`, whatever else flows: the liveness that a browser can see (W8). */
export interface Tick {
  readonly op: "tick";
}

/** One Tool call through all of its states (P4); `input_text` grows while it streams (P5). */
export interface ToolPart {
  readonly type: "tool";
  readonly part_id: string;
  readonly sequence: number;
  readonly step_id?: string;
  readonly tool_call_id: string;
  readonly tool_name: string;
  readonly state: "completed" | "failed" | "input-streaming" | "ready" | "running" | "waiting-user";
  readonly input_text?: string;
  readonly input?: Json;
  readonly output?: Json;
  readonly error?: string;
  readonly title?: string;
}

export interface TurnError {
  readonly code: string;
  readonly message: string;
}

/** The end of a Turn, published exactly once for every `turn_id` that was given out (T1, T2). */
export interface TurnFinish {
  readonly variant: "turn";
  readonly mutation_id: string;
  readonly session_id: string;
  readonly created_at: number;
  readonly type: "finish";
  readonly turn_id: string;
  readonly status: "completed" | "failed" | "stopped";
  readonly error?: TurnError;
}

export interface TurnStart {
  readonly variant: "turn";
  readonly mutation_id: string;
  readonly session_id: string;
  readonly created_at: number;
  readonly type: "start";
  readonly turn_id: string;
}

export interface Unsubscribe {
  readonly op: "unsubscribe";
  readonly id: number;
  readonly session_id: string;
}

export interface Unsubscribed {
  readonly op: "unsubscribed";
  readonly session_id: string;
  readonly reason: "deleted" | "forbidden";
}

export interface UserMessage {
  readonly role: "user";
  readonly message_id: string;
  readonly session_id: string;
  readonly turn_id?: string;
  readonly sequence: number;
  readonly revision: number;
  readonly visibility: "internal" | "visible";
  readonly created_at: number;
  readonly updated_at: number;
  readonly origin?: Origin;
  readonly parts: readonly (TextPart | ContextPart | FilePart | DataPart)[];
}

export interface Welcome {
  readonly op: "welcome";
  readonly id: number;
  readonly protocol: number;
  readonly server: string;
  readonly limits: Limits;
  readonly tick_ms: number;
  readonly principal: Principal;
}

/** What the `result` of each request holds. */
export interface Results {
  "interaction.respond": InteractionAnswer;
  interactions: InteractionList;
  messages: Page;
  ping: Empty;
  prompt: Receipt;
  reload: Joined;
  "session.archive": Empty;
  "session.create": SessionResult;
  "session.delete": Empty;
  "session.fork": SessionResult;
  "session.get": SessionResult;
  "session.list": SessionPage;
  "session.update": SessionResult;
  stop: StopResult;
  subscribe: Joined;
  unsubscribe: Empty;
}
