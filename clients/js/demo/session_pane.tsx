/** One Session: its conversation, what it is doing, and the composer. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ModelRequestWarning, SessionHandle, SessionState } from "../src/index.ts";
import { Announcer } from "./announcer.tsx";
import { Composer } from "./composer.tsx";
import { Conversation } from "./conversation.tsx";
import { useSession } from "./hooks.ts";
import { sentence } from "./notices.tsx";

interface SessionPaneProps {
  readonly session: SessionHandle;
  readonly connected: boolean;
  readonly failed: ComponentChildren;
  readonly onSend: (text: string) => void;
  /** Something changed that the list of Sessions shows. */
  readonly onChange: () => void;
}

export function SessionPane({ session, connected, failed, onSend, onChange }: SessionPaneProps) {
  const state = useSession(session);
  const running = state.turn !== undefined;
  const warning = useWarning(session);
  const [stopping, setStopping] = useState(false);
  const [stopFailed, setStopFailed] = useState<string>();
  const title = state.session?.title;
  useEffect(onChange, [running, title]);
  useEffect(() => {
    setStopping(false);
    setStopFailed(undefined);
  }, [state.turn?.turn_id]);

  const stop = (): void => {
    setStopping(true);
    setStopFailed(undefined);
    session
      .stop()
      .catch((error: unknown) => setStopFailed(sentence(error)))
      .finally(() => setStopping(false));
  };
  useEffect(() => {
    if (!running) return;
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === "Escape" && !event.defaultPrevented && !event.isComposing) stop();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [running, session]);

  return (
    <>
      <Conversation session={session} state={state} />
      <div class="foot">
        {stopFailed !== undefined && (
          <p class="notice error" role="alert">
            Stop did not get through: {stopFailed}
          </p>
        )}
        {warning && <Warning warning={warning} />}
        {failed}
        <Announcer running={running} messages={state.messages} />
        <Activity state={state} connected={connected} />
        <Composer
          draftKey={session.session_id}
          disabled={state.status === "error" ? (ENDED[state.reason ?? ""] ?? ENDED_ANYHOW) : undefined}
          running={running}
          stopping={stopping}
          onSend={onSend}
          onStop={stop}
        />
      </div>
    </>
  );
}

const ENDED_ANYHOW = "This session cannot be followed any more";
const ENDED: Readonly<Record<string, string>> = {
  deleted: "This session was deleted",
  not_found: "There is no such session",
  forbidden: "This session is not yours to see",
};

/** A line that says what goes on. */
function Activity({ state, connected }: { state: SessionState; connected: boolean }) {
  const queued = state.queue.length;
  const behind = state.status === "stale" && !connected;
  return (
    <p class="activity" role="status" aria-live="polite">
      {behind ? "What you see may be out of date." : state.turn && "The agent is answering."}
      {queued > 0 && ` ${queued} ${queued === 1 ? "message waits" : "messages wait"} for its turn.`}
    </p>
  );
}

/** The last failed model call of the running Turn, until something else happens (T5). */
function useWarning(session: SessionHandle): ModelRequestWarning | undefined {
  const [warning, setWarning] = useState<ModelRequestWarning>();
  useEffect(
    () =>
      session.onMutation((mutation) => {
        if (mutation.variant !== "warning") setWarning(undefined);
        else if (mutation.request_kind === "turn") setWarning(mutation);
      }),
    [session],
  );
  return warning;
}

function Warning({ warning }: { warning: ModelRequestWarning }) {
  const { message, attempt, max_attempts, will_retry } = warning;
  return (
    <p class="notice warning" role="status">
      The model could not be reached (attempt {attempt} of {max_attempts}
      {will_retry ? ", trying again" : ""}): {message}
    </p>
  );
}
