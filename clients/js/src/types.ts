/** What the schema of the wire cannot say: the generated types as it is handy to read them. Only types live here. */

import type * as wire from "./wire.ts";

export type {
  ActionPart,
  ActiveTurn,
  Config,
  ContextPart,
  DataPart,
  ErrorPart,
  FileChange,
  FilePart,
  InteractionPart,
  Json,
  Page,
  Part,
  PendingInteraction,
  QueuedPrompt,
  ReasoningPart,
  Session,
  SessionPage,
  SourcePart,
  TextPart,
  ToolPart,
} from "./wire.ts";

/** A User or an Agent Message, whose fields can be read without asking first which of both it is. */
export interface Message extends Omit<wire.AgentMessage, "role" | "state" | "parts"> {
  readonly role: "user" | "agent";
  /** Only on Agent Messages; says only whether Parts may still be appended (M7). */
  readonly state?: wire.AgentMessage["state"];
  readonly parts: readonly wire.Part[];
}

/** A Mutation as it travels: with its place in the Session's order (W5). */
type Framed<T> = T & Omit<wire.MutationFrame, keyof wire.Mutation>;

export type MessageMutation = Framed<wire.MessageMutation>;
export type PartMutation = Framed<wire.PartMutation>;
export type DeltaMutation = Framed<wire.DeltaMutation>;
export type TurnStart = Framed<wire.TurnStart>;
export type TurnFinish = Framed<wire.TurnFinish>;
export type FileDiff = Framed<wire.FileDiff>;
export type SessionTitle = Framed<wire.SessionTitle>;
export type SessionConfig = Framed<wire.SessionConfig>;
export type ModelRequestWarning = Framed<wire.ModelRequestWarning>;
export type Mutation = wire.MutationFrame;

/** What an `approval` asks, and its answer; the shapes of `request` and `response` (P7). */
export interface ApprovalRequest {
  readonly tool_name: string;
  readonly input: wire.Json;
  readonly reason?: string;
}

export type ApprovalResponse = {
  readonly decision: "approved" | "denied";
  readonly reason?: string;
};

export interface QuestionRequest {
  readonly questions: readonly {
    readonly question_id: string;
    readonly question: string;
    readonly options?: readonly { readonly value: string; readonly label: string }[];
    readonly multiple?: boolean;
  }[];
}

export type QuestionResponse = {
  readonly answers: { readonly [question_id: string]: string | readonly string[] };
};
