/** What ties components to the client's stores and to the address of the page. */

import { useCallback, useEffect, useReducer, useRef, useState } from "preact/hooks";
import type { Client, ClientState, Session, SessionHandle, SessionState } from "../src/index.ts";
import { sentence } from "./notices.tsx";

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
  readonly error?: string | undefined;
  readonly more?: () => void;
  readonly refresh: () => void;
}

/** The list has no live feed of its own, so it is asked for again from time to time. */
const REFRESH_MS = 10_000;
const PAGE = 50;

type Listed = Pick<SessionList, "items" | "error"> & { readonly has_more: boolean };

export function useSessionList(client: Client, connected: boolean): SessionList {
  const [pages, setPages] = useState(1);
  const [listed, setListed] = useState<Listed>({ items: [], has_more: false });
  const latest = useRef(0);
  const refresh = useCallback(() => {
    if (client.getSnapshot().connection.status !== "connected") return;
    const mine = ++latest.current;
    const show = (change: (old: Listed) => Listed): void => {
      // An answer that comes after a younger question is out of date.
      if (mine === latest.current) setListed(change);
    };
    listPages(client, pages).then(
      (page) => show(() => page),
      (error: unknown) => show((old) => ({ ...old, error: sentence(error) })),
    );
  }, [client, pages]);
  useEffect(() => {
    if (!connected) return;
    refresh();
    const timer = setInterval(() => document.visibilityState === "visible" && refresh(), REFRESH_MS);
    return () => clearInterval(timer);
  }, [connected, refresh]);
  const { has_more, ...rest } = listed;
  return { ...rest, ...(has_more && { more: () => setPages((old) => old + 1) }), refresh };
}

async function listPages(client: Client, pages: number): Promise<Listed> {
  const items: Session[] = [];
  let before: string | undefined;
  for (let left = pages; ; left -= 1) {
    const page = await client.listSessions({ limit: PAGE, ...(before !== undefined && { before }) });
    items.push(...page.items);
    before = page.next_before;
    if (left <= 1 || !page.has_more) return { items, has_more: page.has_more };
  }
}
