/** How far each Session has been read in this browser, as the highest `sequence` that was shown. */

import { useEffect, useReducer, useState } from "preact/hooks";
import type { Session, SessionState } from "../src/index.ts";
import { browser, isEntries, readJson } from "./storage.ts";

const KEY = "turnwire.seen";
/** More Sessions than this are not remembered: those read longest ago are forgotten, and count as read. */
const REMEMBERED = 500;

const listeners = new Set<() => void>();

const isSeen = isEntries((value) => typeof value === "number");

/** Entries in the order in which they were read last. */
const read = (): Map<string, number> => new Map(readJson(browser, KEY, isSeen));

export const seenOf = (session_id: string): number | undefined => read().get(session_id);

function markSeen(session_id: string, sequence: number): void {
  const seen = read();
  if (seen.get(session_id) === sequence) return;
  seen.delete(session_id);
  seen.set(session_id, sequence);
  browser.set(KEY, JSON.stringify([...seen].slice(-REMEMBERED)));
  for (const listener of listeners) listener();
}

/** Whether a Session of the list has Messages that were not shown. Sessions that nobody opened here are not news. */
export function useUnread(): (session: Session) => boolean {
  const [, rerender] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const update = (): void => rerender(undefined);
    listeners.add(update);
    // Another tab has shown something.
    addEventListener("storage", update);
    return () => {
      listeners.delete(update);
      removeEventListener("storage", update);
    };
  }, []);
  const seen = read();
  return ({ session_id, message_count }) => message_count > (seen.get(session_id) ?? Infinity);
}

/** Keeps track of what is shown; gives how far the Session had been read when it was opened. */
export function useSeen(session_id: string, state: SessionState): number {
  const [atOpening] = useState(() => seenOf(session_id) ?? Infinity);
  const visible = useVisible();
  const newest = state.messages.at(-1)?.sequence;
  useEffect(() => {
    if (visible && newest !== undefined) markSeen(session_id, newest);
  }, [session_id, visible, newest]);
  return atOpening;
}

const isVisible = (): boolean => document.visibilityState === "visible";

export function useVisible(): boolean {
  const [visible, setVisible] = useState(isVisible);
  useEffect(() => {
    const update = (): void => setVisible(isVisible());
    document.addEventListener("visibilitychange", update);
    return () => document.removeEventListener("visibilitychange", update);
  }, []);
  return visible;
}
