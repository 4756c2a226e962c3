/** What ties components to the client's stores and to the address of the page. */

import { useCallback, useEffect, useReducer, useState } from "preact/hooks";
import type { Client, ClientState, Session, SessionHandle, SessionState } from "../src/index.ts";

interface Subscribable<State> {
  subscribe(listener: () => void): () => void;
  getSnapshot(): State;
}

function useStore<State>(store: Subscribable<State>): State {
  const [, rerender] = useReducer((count: number) => count + 1, 0);
  const state = store.getSnapshot();
  useEffect(() => {
    const unsubscribe = store.subscribe(() => rerender(undefined));
    // What changed between rendering and subscribing has told nobody.
    if (store.getSnapshot() !== state) rerender(undefined);
    return unsubscribe;
  }, [store]);
  return state;
}

export const useClient = (client: Client): ClientState => useStore(client);
export const useSession = (session: SessionHandle): SessionState => useStore(session);

const ROUTE = /^#\/s\/([A-Za-z0-9_.:-]{1,128})$/;

const routeOf = (hash: string): string | undefined => ROUTE.exec(hash)?.[1];

/** The Session that the address names, and how to go to another. */
export function useRoute(): [string | undefined, (session_id: string | undefined) => void] {
  const [current, setCurrent] = useState(() => routeOf(location.hash));
  useEffect(() => {
    const update = (): void => setCurrent(routeOf(location.hash));
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  const go = useCallback((session_id: string | undefined) => {
    location.hash = session_id === undefined ? "#/" : `#/s/${session_id}`;
  }, []);
  return [current, go];
}

export interface SessionList {
  readonly items: readonly Session[];
  readonly error?: string;
  readonly more?: () => void;
  readonly refresh: () => void;
}

/** The list has no live feed of its own, so it is asked for again from time to time. */
const REFRESH_MS = 10_000;
const PAGE = 50;

export function useSessionList(client: Client, connected: boolean): SessionList {
  const [limit, setLimit] = useState(PAGE);
  const [page, setPage] = useState<{ items: readonly Session[]; has_more: boolean; error?: string }>({
    items: [],
    has_more: false,
  });
  const refresh = useCallback(() => {
    client.listSessions({ limit }).then(setPage, (error: unknown) => {
      setPage((old) => ({ ...old, error: error instanceof Error ? error.message : String(error) }));
    });
  }, [client, limit]);
  useEffect(() => {
    if (!connected) return;
    refresh();
    const timer = setInterval(() => document.visibilityState === "visible" && refresh(), REFRESH_MS);
    return () => clearInterval(timer);
  }, [connected, refresh]);
  return {
    items: page.items,
    ...(page.error !== undefined && { error: page.error }),
    ...(page.has_more && { more: () => setLimit((old) => old + PAGE) }),
    refresh,
  };
}
