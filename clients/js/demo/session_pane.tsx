/** One Session: its conversation, what it is doing, and the composer. */

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Client, Message, SessionHandle, SessionState } from "../src/index.ts";
import { Announcer } from "./announcer.tsx";
import { useArchived } from "./archived.ts";
import { Bar, type BarMenu } from "./bar.tsx";
import { Composer } from "./composer.tsx";
import { Conversation } from "./conversation.tsx";
import type { DeliveryMode } from "./delivery.tsx";
import { type Draft, promptOf } from "./drafts.ts";
import { useSession, useTask } from "./hooks.ts";
import { isComposing } from "./keys.ts";
import { Fault, sentence } from "./notices.tsx";
import { findLast } from "./rows.ts";
import { useSeen, useVisible } from "./seen.ts";
import { SessionContext, type SessionTools } from "./session_context.ts";
import { SessionMenu } from "./session_menu.tsx";
import { FailedCommands } from "./unsent.tsx";
import { WarningNote } from "./warning.tsx";

interface SessionPaneProps {
  readonly client: Client;
  readonly session: SessionHandle;
  readonly connected: boolean;
  readonly menu: BarMenu;
  /** What the list calls this Session, until its own title is known. */
  readonly listed: string;
  /** What has to be said about the connection. */
  readonly notice: ComponentChildren;
  readonly failed: ComponentChildren;
  /** Sends a prompt; into the running Turn when its id is given. */
  readonly onSend: (draft: Draft, expected_turn_id: string | undefined) => void;
  readonly onGo: (session_id: string | undefined) => void;
  /** Something changed that the list of Sessions shows. */
  readonly onChange: () => void;
}

export function SessionPane(props: SessionPaneProps) {
  const { client, session, connected, failed, onSend, onGo, onChange } = props;
  const state = useSession(session);
  const running = state.turn !== undefined;
  const seen = useSeen(session.session_id, state);
  const news = useNews(state);
  const [fault, setFault] = useState<string>();
  const { stop, stopping } = useStop(session, state, setFault);
  const tools = useSessionTools(session, state, onGo, setFault);
  const title = state.session?.title;
  useEffect(onChange, [running, title]);
  const [archived, lookAgain] = useArchived(client, session.session_id, state, connected);
  const send = (draft: Draft, mode: DeliveryMode): void =>
    onSend(draft, mode === "steer" ? state.turn?.turn_id : undefined);

  return (
    <SessionContext.Provider value={tools}>
      <Bar client={client} menu={props.menu} title={title ?? props.listed} news={news}>
        {state.session && state.status !== "error" && (
          <SessionMenu
            handle={session}
            session={state.session}
            live={tools.live}
            archived={archived}
            onChange={onChange}
            onBack={() => {
              lookAgain();
              onChange();
            }}
            onGone={() => {
              onChange();
              onGo(undefined);
            }}
            onFault={setFault}
          />
        )}
      </Bar>
      {props.notice}
      <Conversation session={session} state={state} seen={seen} />
      <div class="foot">
        {fault !== undefined && <Fault text={fault} onDismiss={() => setFault(undefined)} />}
        {state.warning && <WarningNote key={state.warning.mutation_id} warning={state.warning} />}
        {failed}
        <FailedCommands session={session} items={state.commands} />
        <Announcer running={running} messages={state.messages} interactions={state.interactions} />
        <Activity state={state} connected={connected} archived={archived} />
        <Composer
          draftKey={session.session_id}
          disabled={state.status === "error" ? (ENDED[state.reason ?? ""] ?? ENDED_ANYHOW) : undefined}
          running={running}
          stopping={stopping}
          maxRequest={client.getSnapshot().welcome?.limits.max_request}
          onSend={send}
          onStop={stop}
        />
      </div>
    </SessionContext.Provider>
  );
}

const ENDED_ANYHOW = "This session cannot be followed any more";
const ENDED: Readonly<Record<string, string>> = {
  deleted: "This session was deleted",
  not_found: "There is no such session",
  forbidden: "This session is not yours to see",
};

interface ActivityProps {
  readonly state: SessionState;
  readonly connected: boolean;
  readonly archived: boolean;
}

/** A line that says what goes on. */
function Activity({ state, connected, archived }: ActivityProps) {
  const queued = state.queue.length;
  const behind = state.status === "stale" && !connected;
  const asked = state.interactions.length > 0;
  return (
    <p class="activity" role="status" aria-live="polite">
      {behind
        ? "What you see may be out of date."
        : state.turn && (asked ? "The agent waits for you." : "The agent is answering.")}
      {queued > 0 && ` ${queued} ${queued === 1 ? "message waits" : "messages wait"} for its turn.`}
      {archived && " This session is archived. The next message brings it back."}
      {state.session?.config.approval_mode === "always-allow" && " Tools run without asking."}
    </p>
  );
}

/** Stop: by the button, or by Escape wherever the focus is. */
function useStop(
  session: SessionHandle,
  { turn }: SessionState,
  onFault: (text: string | undefined) => void,
): { stop: () => void; stopping: boolean } {
  const { busy: stopping, run } = useTask();
  const stop = useCallback((): void => {
    run(() => {
      onFault(undefined);
      return session
        .stop()
        .catch((error: unknown) => onFault(`Stop did not get through: ${sentence(error)}`));
    });
  }, [session, onFault, run]);
  const running = turn !== undefined;
  useEffect(() => {
    if (!running) return;
    const onKey = (event: KeyboardEvent): void => {
      // In a dialog Escape means the dialog.
      if (event.key !== "Escape" || event.defaultPrevented || isComposing(event)) return;
      if (document.querySelector("dialog[open]") === null) stop();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [running, stop]);
  return { stop, stopping };
}

function useSessionTools(
  session: SessionHandle,
  state: SessionState,
  onGo: (session_id: string) => void,
  onFault: (text: string) => void,
): SessionTools {
  const live = state.status === "live";
  // What is asked later is asked of the Messages as they are then; the tools themselves stay the same.
  const messages = useRef(state.messages);
  messages.current = state.messages;
  const { run } = useTask();
  return useMemo(
    () => ({
      session,
      live,
      fork: (message: Message) =>
        run(() =>
          session.fork({ through_message_id: message.message_id }).then(
            (forked) => onGo(forked.session_id),
            (error: unknown) => onFault(`The session could not be forked: ${sentence(error)}`),
          ),
        ),
      retry: (message: Message) => {
        const draft = promptBefore(messages.current, message);
        if (!draft) return;
        run(() => session.prompt(promptOf(draft)).catch((error: unknown) => onFault(sentence(error))));
      },
    }),
    [session, live, onGo, onFault, run],
  );
}

/** What the user said last before this Message. */
function promptBefore(messages: readonly Message[], { sequence }: Message): Draft | undefined {
  const said = findLast(messages, (message) => message.role === "user" && message.sequence < sequence);
  if (!said) return undefined;
  return {
    text: said.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n"),
    files: said.parts.flatMap((part) => {
      if (part.type !== "file") return [];
      const { url, media_type, filename } = part;
      return [{ url, media_type, ...(filename !== undefined && { filename }) }];
    }),
  };
}

/** Whether an answer has ended, or asks something, while nobody looked at the page. */
function useNews({ turn, interactions }: SessionState): boolean {
  const [news, setNews] = useState(false);
  const visible = useVisible();
  const waits = turn === undefined || interactions.length > 0;
  const before = useRef(waits);
  useEffect(() => {
    if (visible) setNews(false);
    else if (waits && !before.current) setNews(true);
    before.current = waits;
  }, [waits, visible]);
  return news;
}
