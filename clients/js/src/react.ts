/** `turnwire/react`: the client's stores as hooks. A component renders again only when what it took has changed. */

import { useCallback, useRef, useSyncExternalStore } from "react";
import type { Client } from "./client.ts";
import type { ConnectionState } from "./connection.ts";
import type { SessionHandle, SessionState } from "./session.ts";
import type { Message } from "./types.ts";

interface Subscribable {
  subscribe(listener: () => void): () => void;
}

/**
 * The Session, live while the component is there. With `select` only what it gives: the component renders again when
 * that has changed by `isEqual`, by default `Object.is`.
 */
export function useSession(session: SessionHandle): SessionState;
export function useSession<Selected>(
  session: SessionHandle,
  select: (state: SessionState) => Selected,
  isEqual?: (a: Selected, b: Selected) => boolean,
): Selected;
export function useSession<Selected>(
  session: SessionHandle,
  select?: (state: SessionState) => Selected,
  isEqual: (a: Selected, b: Selected) => boolean = Object.is,
): Selected | SessionState {
  const last = useRef<Selected>(undefined);
  return useStore(session, () => {
    const state = session.getSnapshot();
    if (!select) return state;
    const selected = select(state);
    if (last.current === undefined || !isEqual(last.current, selected)) last.current = selected;
    return last.current;
  });
}

/** The ids of all Messages held, ascending; the same array while they are the same, however much text streams. */
export function useMessageIds(session: SessionHandle): readonly string[] {
  return useSession(session, idsOf, isSameList);
}

/** One Message. A token renders the component of its own Message again, and no other. */
export function useMessage(session: SessionHandle, message_id: string): Message | undefined {
  return useStore(session, () => session.message(message_id));
}

export function useConnection(client: Client): ConnectionState {
  return useStore(client, () => client.getSnapshot().connection);
}

function useStore<Value>(store: Subscribable, get: () => Value): Value {
  const subscribe = useCallback((listener: () => void) => store.subscribe(listener), [store]);
  return useSyncExternalStore(subscribe, get, get);
}

const idsOf = (state: SessionState): readonly string[] => state.messages.map((message) => message.message_id);

const isSameList = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((item, index) => item === b[index]);
