/** The page: list of Sessions on the left, the chosen one on the right. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Client, type Receipt, type Session, TurnwireError } from "../src/index.ts";
import { randomId } from "../src/environment.ts";
import { Bar, type BarMenu } from "./bar.tsx";
import { Composer } from "./composer.tsx";
import { type Draft, forgetDrafts, promptOf } from "./drafts.ts";
import { useClient, useRoute } from "./hooks.ts";
import { type Failure, Failures } from "./notices.tsx";
import { useSessionList } from "./session_list.ts";
import { SessionPane } from "./session_pane.tsx";
import { nameOf, Sidebar } from "./sidebar.tsx";
import { ConnectionNotice } from "./status.tsx";
import type { TokenKeeper } from "./token.ts";
import { forgetUnsent } from "./unsent_storage.ts";

export function App({ client, tokens }: { client: Client; tokens: TokenKeeper }) {
  const { connection, unsent, welcome } = useClient(client);
  const connected = connection.status === "connected";
  const [session_id, go] = useRoute();
  const list = useSessionList(client, connected);
  const [menu, closeMenu] = useMenu(session_id);
  const { send, failures, dismiss } = useSending(client, session_id, go, list.refresh);
  useUnloadWarning(unsent.length > 0);
  const chosen = list.items.find((item) => item.session_id === session_id);
  const failed = (
    <Failures items={failures.filter((failure) => failure.session_id === session_id)} onDismiss={dismiss} />
  );

  const notice = <ConnectionNotice client={client} tokens={tokens} state={connection} />;
  const user =
    tokens.token === undefined || !welcome
      ? undefined
      : { id: welcome.principal.id, signOut: () => signOut(tokens) };

  return (
    <div class={menu.open ? "app menu-open" : "app"}>
      <Sidebar
        list={list}
        chosen={session_id}
        onSelect={go}
        onClose={closeMenu}
        open={menu.open}
        user={user}
      />
      <main class="main" inert={menu.open}>
        {session_id === undefined ? (
          <>
            <Bar client={client} menu={menu} title="New session" />
            {notice}
            <div class="start">
              <h2>What shall we work on?</h2>
              <p>The first message starts a session. Its address can be opened in any number of tabs.</p>
            </div>
            <div class="foot">
              {failed}
              <Composer
                draftKey=""
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
            listed={chosen ? nameOf(chosen) : "Session"}
            notice={notice}
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

/** Whoever comes next sees nothing of what was here. */
function signOut(tokens: TokenKeeper): void {
  tokens.forget();
  forgetUnsent();
  forgetDrafts();
  location.reload();
}

interface Sending {
  readonly send: (draft: Draft, expected_turn_id: string | undefined) => Promise<void>;
  readonly failures: readonly Failure[];
  readonly dismiss: (failure: Failure) => void;
}

function useSending(
  client: Client,
  session_id: string | undefined,
  go: (session_id: string | undefined) => void,
  onCreated: () => void,
): Sending {
  const [failures, setFailures] = useState<readonly Failure[]>([]);
  const send = useCallback(
    async (draft: Draft, expected_turn_id: string | undefined): Promise<void> => {
      let target = session_id;
      try {
        if (target !== undefined) return await prompt(client, target, draft, expected_turn_id);
        target = randomId();
        const { created, prompted } = begin(client, target, draft);
        go(target);
        const onRefused = (error: unknown): never => {
          target = undefined;
          go(undefined);
          throw error;
        };
        await Promise.all([created.then(onCreated, onRefused), prompted]);
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        if (error instanceof TurnwireError && SHOWN_ELSEWHERE.includes(error.code)) return;
        const failure = { draft, error, session_id: target };
        setFailures((old) => [...old, failure]);
      }
    },
    [client, session_id, go, onCreated],
  );
  const dismiss = useCallback(
    (failure: Failure) => setFailures((old) => old.filter((other) => other !== failure)),
    [],
  );
  return { send, failures, dismiss };
}

/** A Session with its first prompt. Both wait in their order where there is no connection, also across a reload. */
function begin(
  client: Client,
  session_id: string,
  draft: Draft,
): { created: Promise<Session>; prompted: Promise<Receipt> } {
  const session = client.session(session_id);
  const created = client.createSession({ session_id });
  // It is followed before its first prompt goes out, so that nothing that this leads to is missed.
  const leave = session.subscribe(() => {});
  const prompted = session.prompt(promptOf(draft)).finally(leave);
  return { created, prompted };
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

/** What was not sent lives in this tab only: closing it would lose that without a word. */
function useUnloadWarning(active: boolean): void {
  useEffect(() => {
    if (!active) return;
    const warn = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [active]);
}
