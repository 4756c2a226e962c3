/** The page: list of Sessions on the left, the chosen one on the right. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Client } from "../src/index.ts";
import { Composer } from "./composer.tsx";
import { useClient, useRoute, useSessionList } from "./hooks.ts";
import { type Failure, Failures } from "./notices.tsx";
import { SessionPane } from "./session_pane.tsx";
import { Sidebar } from "./sidebar.tsx";
import { ConnectionNotice, ConnectionPill } from "./status.tsx";

export function App({ client }: { client: Client }) {
  const { connection, unsent } = useClient(client);
  const connected = connection.status === "connected";
  const [session_id, go] = useRoute();
  const list = useSessionList(client, connected);
  const [menu, setMenu] = useState(false);
  const [creating, setCreating] = useState(false);
  const [failures, setFailures] = useState<readonly Failure[]>([]);
  const chosen = list.items.find((item) => item.session_id === session_id);
  const title = chosen?.title ?? (session_id === undefined ? "New session" : "Session");
  const menuButton = useRef<HTMLButtonElement>(null);
  const closeMenu = useCallback(() => setMenu(false), []);
  const wasOpen = useRef(false);
  useEffect(() => {
    // Only now can the button take the focus: what lies behind an open menu is inert.
    if (wasOpen.current && !menu) menuButton.current?.focus();
    wasOpen.current = menu;
  }, [menu]);
  useEffect(() => setMenu(false), [session_id]);
  useUnloadWarning(unsent.length > 0);
  useEffect(() => void (document.title = `${title} · Turnwire`), [title]);

  const send = useCallback(
    async (text: string): Promise<void> => {
      let target = session_id;
      try {
        if (target === undefined) {
          setCreating(true);
          target = (await client.createSession()).session_id;
          go(target);
        }
        await client.session(target).prompt(text);
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        const failure = { text, error, session_id: target };
        setFailures((old) => [...old, failure]);
      } finally {
        setCreating(false);
      }
    },
    [client, session_id, go],
  );
  const failed = (
    <Failures
      items={failures.filter((failure) => failure.session_id === session_id)}
      onDismiss={(failure) => setFailures((old) => old.filter((other) => other !== failure))}
    />
  );

  return (
    <div class={menu ? "app menu-open" : "app"}>
      <Sidebar list={list} chosen={session_id} onSelect={go} onClose={closeMenu} open={menu} />
      <main class="main" inert={menu}>
        <header class="bar">
          <button
            ref={menuButton}
            type="button"
            class="icon-button menu-button"
            aria-label="Sessions"
            aria-expanded={menu}
            onClick={() => setMenu(true)}
          >
            <span aria-hidden="true">☰</span>
          </button>
          <h1 class="bar-title">{title}</h1>
          <ConnectionPill state={connection} unsent={unsent.length} />
        </header>
        <ConnectionNotice client={client} state={connection} />
        {session_id === undefined ? (
          <>
            <div class="start">
              <h2>What shall we work on?</h2>
              <p>The first message starts a session. Its address can be opened in any number of tabs.</p>
            </div>
            <div class="foot">
              {failed}
              {creating && !connected && (
                <p class="hint">The session is created once there is a connection.</p>
              )}
              <Composer draftKey="" busy={creating} onSend={(text) => void send(text)} />
            </div>
          </>
        ) : (
          <SessionPane
            key={session_id}
            session={client.session(session_id)}
            connected={connected}
            failed={failed}
            onSend={(text) => void send(text)}
            onChange={list.refresh}
          />
        )}
      </main>
    </div>
  );
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
