/** What the agent asks the user: an approval or questions, answered once by whoever is first (P7). */

import { useState } from "preact/hooks";
import {
  type ApprovalResponse,
  type InteractionPart,
  type Json,
  type QuestionResponse,
  type Resolution,
  TurnwireError,
} from "../../src/index.ts";
import { useTask } from "../hooks.ts";
import { Icon } from "../icons.tsx";
import { sentence } from "../notices.tsx";
import { useTools } from "../session_context.ts";
import { Questions, questionsOf } from "./questions.tsx";
import { Value } from "./values.tsx";

type Response = ApprovalResponse | QuestionResponse;

export interface Responder {
  /** An answer is on its way. */
  readonly busy: boolean;
  readonly live: boolean;
  readonly send: (response: Response) => void;
}

export function InteractionCard({ part }: { part: InteractionPart }) {
  const { responder, fault } = useResponder(part);
  const pending = part.status === "pending";
  return (
    <div class="interaction" data-part-id={part.part_id} data-interaction-status={part.status}>
      {!pending && <Outcome part={part} />}
      {pending && part.interaction_type === "question" && <Questions part={part} responder={responder} />}
      {pending && part.interaction_type !== "question" && <Approval part={part} responder={responder} />}
      {pending && !responder.live && (
        <p class="faint">
          {responder.busy ? "Your answer goes out" : "An answer goes out"} once the connection is back.
        </p>
      )}
      {fault !== undefined && (
        <p class="notice error" role="alert">
          {fault}
        </p>
      )}
    </div>
  );
}

function useResponder(part: InteractionPart): { responder: Responder; fault: string | undefined } {
  const { session, live } = useTools();
  const { busy, run } = useTask();
  const [fault, setFault] = useState<string>();
  const { interaction_id, revision } = part;
  const answer = (response: Response): Promise<void> => {
    setFault(undefined);
    // The revision says what the user has seen (P7).
    return session.respond(interaction_id, { revision, response }).then(
      (resolution) => setFault(resolution.accepted ? undefined : tooLate(resolution)),
      (error: unknown) => setFault(refusal(error)),
    );
  };
  const send = (response: Response): void => run(() => answer(response));
  return { responder: { busy, live, send }, fault };
}

/** Whoever comes second is told who was first, and with what (A1). */
function tooLate({ status, by }: Resolution): string {
  const what = STATUS_WORDS[status] ?? status;
  return `Your answer came too late: ${what}${by === undefined ? "" : ` by ${by}`} already.`;
}

function refusal(error: unknown): string {
  if (error instanceof TurnwireError && error.code === "conflict") {
    return "It has changed since it was shown. Look again, then decide.";
  }
  return `The answer did not get through: ${sentence(error)}`;
}

const STATUS_WORDS: Readonly<Record<string, string>> = {
  resolved: "answered",
  denied: "denied",
  expired: "expired",
  cancelled: "cancelled",
};

// ------------------------------------------------------------------------------------------------- approvals

function Approval({ part, responder }: { part: InteractionPart; responder: Responder }) {
  const [reason, setReason] = useState("");
  const request = part.request as { tool_name?: string; input?: Json; reason?: string };
  const { busy, send } = responder;
  const deny = (): void => {
    const words = reason.trim();
    send({ decision: "denied", ...(words !== "" && { reason: words }) });
  };
  return (
    <form
      class="approval"
      aria-label="Approval"
      onSubmit={(event) => {
        event.preventDefault();
        deny();
      }}
    >
      <p class="ask">
        May <code>{request.tool_name}</code> run with this?
      </p>
      {request.reason !== undefined && <p>{request.reason}</p>}
      <Value value={request.input ?? {}} label="What it would run with" />
      <div class="choices">
        <button
          type="button"
          class="button primary"
          disabled={busy}
          onClick={() => send({ decision: "approved" })}
        >
          Approve
        </button>
        <button type="submit" class="button" disabled={busy}>
          Deny
        </button>
        <input
          class="text-field"
          aria-label="Reason for denying"
          placeholder="Reason, if you deny"
          maxLength={4_000}
          value={reason}
          onInput={(event) => setReason(event.currentTarget.value)}
        />
      </div>
    </form>
  );
}

// --------------------------------------------------------------------------------------------------- outcome

function Outcome({ part }: { part: InteractionPart }) {
  const by = part.resolved_by === undefined ? "" : ` by ${part.resolved_by}`;
  const approval = part.interaction_type !== "question";
  const answered = part.status === "resolved";
  const what = answered && approval ? "approved" : (STATUS_WORDS[part.status] ?? part.status);
  const { reason } = (part.response ?? {}) as { reason?: string };
  return (
    <>
      <p class="outcome">
        <Icon name={answered ? "check" : "cross"} />
        <span>
          {what.charAt(0).toUpperCase() + what.slice(1)}
          {by}
          {reason !== undefined && `: ${reason}`}
        </span>
      </p>
      {answered && !approval && <Answers part={part} />}
    </>
  );
}

function Answers({ part }: { part: InteractionPart }) {
  const { answers = {} } = (part.response ?? {}) as { answers?: Record<string, string | string[]> };
  return (
    <dl class="fields">
      {questionsOf(part).map(({ question_id, question, options = [] }) => {
        const labels = [answers[question_id] ?? []]
          .flat()
          .map((value) => options.find((option) => option.value === value)?.label ?? value);
        return (
          <div class="field tall" key={question_id}>
            <dt>{question}</dt>
            <dd>{labels.join(", ")}</dd>
          </div>
        );
      })}
    </dl>
  );
}
