/** What no Mutation tells is asked for again while it is looked at: at once, from time to time, and on coming back. */

import { useEffect } from "preact/hooks";

export const REFRESH_MS = 10_000;

/** What of `document` says whether the page is looked at. */
export type Looked = Pick<Document, "visibilityState" | "addEventListener" | "removeEventListener">;

export function useRefreshing(refresh: () => void, connected: boolean): void {
  useEffect(() => (connected ? keepRefreshing(refresh, document) : undefined), [connected, refresh]);
}

/** Refreshes until what it gives is called. */
export function keepRefreshing(refresh: () => void, page: Looked): () => void {
  refresh();
  const look = (): void => {
    if (page.visibilityState === "visible") refresh();
  };
  const timer = setInterval(look, REFRESH_MS);
  page.addEventListener("visibilitychange", look);
  return () => {
    clearInterval(timer);
    page.removeEventListener("visibilitychange", look);
  };
}
