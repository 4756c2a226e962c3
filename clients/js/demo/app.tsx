/** The page: list of Sessions on the left, the chosen one on the right. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Client, TurnwireError } from "../src/index.ts";
import { Bar, type BarMenu } from "./bar.tsx";
import { Composer } from "./composer.tsx";
import { type Draft, promptOf } from "./drafts.ts";
import { useClient, useRoute } from "./hooks.ts";
import { type Failure, Failures } from "./notices.tsx";
import { useSessionList } from "./session_list.ts";
import { SessionPane } from "./session_pane.tsx";
import { Sidebar } from "./sidebar.tsx";
import { ConnectionNotice } from "./status.tsx";

export function App({ client }: { client: Client }) {
  const { connection, unsent, welcome } = useClient(client);
  const connected = connection.status === "connected";
  const [session_id, go] = useRoute();
  const list = useSessionList(client, connected);
  const [menu, closeMenu] = useMenu(session_id);
  const { send, creating, failures, dismiss } = useSending(client, session_id, go);
  useUnloadWarning(unsent.length > 0);
  const chosen = list.items.find((item) => item.session_id === session_id);
  const failed = (
    <Failures items={failures.filter((failure) => failure.session_id === session_id)} onDismiss={dismiss} />
  );

  return (
    <div class={menu.open ? "app menu-open" : "app"}>
      <Sidebar list={list} chosen={session_id} onSelect={go} onClose={closeMenu} open={menu.open} />
      <main class="main" inert={menu.open}>
        {session_id === undefined ? (
          <>
            <Bar client={client} menu={menu} title="New session" />
            <ConnectionNotice client={client} state={connection} />
            <div class="start">
              <h2>What shall we work on?</h2>
              <p>The first message starts a session. Its address can be opened in any number of tabs.</p>
            </div>
            <div class="foot">
              {failed}
              {creating && !connected && (
                <p class="hint">The session is created once there is a connection.</p>
              )}
              <Composer
                draftKey=""
                busy={creating}
                maxRequest={welcome?.limits.max_request}
                onSend={(draft) => void send(draft, undefined)}
              />
            </div>
          </>
        ) : (
          <SessionPane
            key={session_id}
            client={client}
            session={client.session(session_id)}
            connected={connected}
            menu={menu}
            listed={chosen?.title ?? "Session"}
            notice={<ConnectionNotice client={client} state={connection} />}
            failed={failed}
            onSend={(draft, expected_turn_id) => void send(draft, expected_turn_id)}
            onGo={go}
            onChange={list.refresh}
          />
        )}
      </main>
    </div>
  );
}

/** The list of Sessions as a drawer, on narrow screens. */
function useMenu(session_id: string | undefined): [BarMenu, () => void] {
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const wasOpen = useRef(false);
  useEffect(() => {
    // Only now can the button take the focus: what lies behind an open menu is inert.
    if (wasOpen.current && !open) button.current?.focus();
    wasOpen.current = open;
  }, [open]);
  useEffect(() => setOpen(false), [session_id]);
  const close = useCallback(() => setOpen(false), []);
  return [{ button, open, onOpen: () => setOpen(true) }, close];
}

interface Sending {
  readonly send: (draft: Draft, expected_turn_id: string | undefined) => Promise<void>;
  readonly creating: boolean;
  readonly failures: readonly Failure[];
  readonly dismiss: (failure: Failure) => void;
}

function useSending(
  client: Client,
  session_id: string | undefined,
  go: (session_id: string) => void,
): Sending {
  const [creating, setCreating] = useState(false);
  const [failures, setFailures] = useState<readonly Failure[]>([]);
  const send = useCallback(
    async (draft: Draft, expected_turn_id: string | undefined): Promise<void> => {
      let target = session_id;
      try {
        if (target === undefined) {
          setCreating(true);
          target = (await client.createSession()).session_id;
          go(target);
        }
        await prompt(client, target, draft, expected_turn_id);
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        if (error instanceof TurnwireError && SHOWN_ELSEWHERE.includes(error.code)) return;
        const failure = { draft, error, session_id: target };
        setFailures((old) => [...old, failure]);
      } finally {
        setCreating(false);
      }
    },
    [client, session_id, go],
  );
  const dismiss = useCallback(
    (failure: Failure) => setFailures((old) => old.filter((other) => other !== failure)),
    [],
  );
  return { send, creating, failures, dismiss };
}

/** Who discarded a prompt knows; one that was given up after many tries is still there, among the unsent. */
const SHOWN_ELSEWHERE = ["discarded", "internal", "timeout"];

async function prompt(
  client: Client,
  session_id: string,
  draft: Draft,
  expected_turn_id: string | undefined,
): Promise<void> {
  const session = client.session(session_id);
  const body = promptOf(draft);
  if (expected_turn_id === undefined) return void (await session.prompt(body));
  try {
    await session.prompt({ ...body, expected_turn_id });
  } catch (error) {
    if (!(error instanceof TurnwireError) || error.code !== "conflict") throw error;
    // The Turn that it should have joined has ended meanwhile: it begins one of its own.
    await session.prompt(body);
  }
}

/** Prompts that were not sent live in this page only: closing it would lose them without a word. */
function useUnloadWarning(active: boolean): void {
  useEffect(() => {
    if (!active) return;
    const warn = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [active]);
}
