/**
 * The shapes of the wire as TypeScript sees them. Only types live here.
 *
 * A newer server may send Part types, kinds and fields that are not listed: they are kept as they came (P2), so
 * a `switch` over `type` or `variant` needs a default branch that does nothing.
 */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

// ------------------------------------------------------------------------------------------------------ Parts

interface PartBase {
  readonly part_id: string;
  readonly sequence: number;
  readonly step_id?: string;
}

export interface TextPart extends PartBase {
  readonly type: "text";
  readonly text: string;
  /** Only on Agent Parts. */
  readonly state?: "streaming" | "done";
}

export interface ReasoningPart extends PartBase {
  readonly type: "reasoning";
  readonly text: string;
  readonly state: "streaming" | "done";
}

export interface ContextPart extends PartBase {
  readonly type: "context";
  readonly tag: string;
  readonly context: string;
}

export interface FilePart extends PartBase {
  readonly type: "file";
  readonly url: string;
  readonly media_type: string;
  readonly filename?: string;
}

export interface DataPart extends PartBase {
  readonly type: "data";
  readonly data_type: string;
  readonly data_id?: string;
  readonly data: Json;
}

export interface SourcePart extends PartBase {
  readonly type: "source";
  readonly source_type: string;
  readonly source_id: string;
  readonly url?: string;
  readonly title?: string;
}

export interface ToolPart extends PartBase {
  readonly type: "tool";
  readonly tool_call_id: string;
  readonly tool_name: string;
  readonly state: "input-streaming" | "ready" | "waiting-user" | "running" | "completed" | "failed";
  readonly input_text?: string;
  readonly input?: Json;
  readonly output?: Json;
  readonly error?: string;
  readonly title?: string;
}

export interface InteractionPart extends PartBase {
  readonly type: "interaction";
  readonly interaction_id: string;
  readonly interaction_type: "approval" | "question";
  readonly tool_call_id: string;
  readonly status: "pending" | "resolved" | "denied" | "expired" | "cancelled";
  /** The Message revision that last changed this Interaction (P7). */
  readonly revision: number;
  readonly request: Json;
  readonly response?: Json;
  readonly resolved_by?: string;
  readonly resolved_at?: number;
}

export interface ActionPart extends PartBase {
  readonly type: "action";
  readonly action_id: string;
  readonly action_type: string;
  readonly state: "running" | "completed" | "failed";
  readonly title: string;
  readonly description?: string;
  readonly data?: Json;
}

export interface ErrorPart extends PartBase {
  readonly type: "error";
  readonly scope: "session" | "turn";
  readonly code: string;
  readonly message: string;
  readonly recoverable: boolean;
}

export type Part =
  | TextPart
  | ReasoningPart
  | ContextPart
  | FilePart
  | DataPart
  | SourcePart
  | ToolPart
  | InteractionPart
  | ActionPart
  | ErrorPart;

// ------------------------------------------------------------------------------------- Messages and Sessions

export interface Message {
  readonly message_id: string;
  readonly session_id: string;
  readonly turn_id?: string;
  readonly sequence: number;
  readonly revision: number;
  readonly role: "user" | "agent";
  /** Only on Agent Messages; says only whether Parts may still be appended (M7). */
  readonly state?: "streaming" | "done";
  readonly visibility: "visible" | "internal";
  readonly created_at: number;
  readonly updated_at: number;
  readonly origin?: { readonly session_id: string; readonly message_id?: string };
  readonly parts: readonly Part[];
}

export interface Config {
  readonly model?: string;
  readonly approval_mode: "ask" | "always-allow";
}

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
  readonly origin?: { readonly session_id: string; readonly message_id?: string };
}

/** A page of history: whole Messages, ascending (M3). */
export interface Page {
  readonly items: readonly Message[];
  readonly total: number;
  readonly start_sequence?: number;
  readonly end_sequence?: number;
  readonly next_before_sequence?: number;
  readonly has_more: boolean;
}

export interface SessionPage {
  readonly items: readonly Session[];
  readonly next_before?: string;
  readonly has_more: boolean;
}

export interface ActiveTurn {
  readonly turn_id: string;
  readonly started_at: number;
}

export interface QueuedPrompt {
  readonly turn_id: string;
  readonly message_id: string;
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

// ------------------------------------------------------------------------------------------------- Mutations

interface MutationBase {
  readonly op: "mutation";
  readonly epoch: string;
  readonly seq: number;
  readonly mutation_id: string;
  readonly session_id: string;
  readonly created_at: number;
}

export interface MessageMutation extends MutationBase {
  readonly variant: "message";
  readonly type: "user" | "agent";
  readonly message_id: string;
  readonly sequence: number;
  readonly revision: number;
  readonly turn_id?: string;
  readonly message: Message;
}

export interface PartMutation extends MutationBase {
  readonly variant: "part";
  readonly type: string;
  readonly message_id: string;
  readonly revision: number;
  readonly turn_id?: string;
  readonly part_id: string;
  readonly part: Part;
}

export interface DeltaMutation extends MutationBase {
  readonly variant: "delta";
  readonly type: "text" | "reasoning" | "tool_input";
  readonly message_id: string;
  readonly revision: number;
  readonly turn_id?: string;
  readonly part_id: string;
  readonly delta: string;
  readonly tool_call_id?: string;
}

export interface TurnStart extends MutationBase {
  readonly variant: "turn";
  readonly type: "start";
  readonly turn_id: string;
}

export interface TurnFinish extends MutationBase {
  readonly variant: "turn";
  readonly type: "finish";
  readonly turn_id: string;
  readonly status: "completed" | "failed" | "stopped";
  readonly error?: { readonly code: string; readonly message: string };
}

export interface FileDiff extends MutationBase {
  readonly variant: "file_diff";
  readonly turn_id: string;
  readonly files: readonly {
    readonly path: string;
    readonly status: "added" | "modified" | "deleted";
    readonly additions: number;
    readonly deletions: number;
    readonly patch?: string;
  }[];
  readonly additions: number;
  readonly deletions: number;
}

export interface SessionTitle extends MutationBase {
  readonly variant: "session";
  readonly type: "title";
  readonly title: string;
}

export interface SessionConfig extends MutationBase {
  readonly variant: "session";
  readonly type: "config";
  readonly config: Config;
}

export interface ModelRequestWarning extends MutationBase {
  readonly variant: "warning";
  readonly type: "model_request";
  readonly request_kind: "turn" | "title" | "compaction";
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
