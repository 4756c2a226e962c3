/** What ties components to the client's stores and to the address of the page. */

import { useCallback, useEffect, useReducer, useRef, useState } from "preact/hooks";
import type { Client, ClientState, SessionHandle, SessionState } from "../src/index.ts";

interface Subscribable<State> {
  subscribe(listener: () => void): () => void;
  getSnapshot(): State;
}

export function useStore<State>(store: Subscribable<State>): State {
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

export interface Task {
  readonly busy: boolean;
  readonly run: (work: () => Promise<unknown>) => void;
}

/**
 * Runs what the user asks for, one piece at a time: whatever sends a command goes through one of these, since a button
 * that was pressed twice is pressed again before it is drawn as busy. `work` sees to its own failure.
 */
export function useTask(): Task {
  const [busy, setBusy] = useState(false);
  const running = useRef(false);
  const run = useCallback((work: () => Promise<unknown>): void => {
    if (running.current) return;
    const show = (now: boolean): void => {
      running.current = now;
      setBusy(now);
    };
    show(true);
    void work().finally(() => show(false));
  }, []);
  return { busy, run };
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
