/** What no Mutation tells is asked for again while it is looked at: at once, from time to time, and on coming back. */

import { useEffect } from "preact/hooks";

const REFRESH_MS = 10_000;

export function useRefreshing(refresh: () => void, connected: boolean): void {
  useEffect(() => {
    if (!connected) return;
    refresh();
    const look = (): void => {
      if (document.visibilityState === "visible") refresh();
    };
    const timer = setInterval(look, REFRESH_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [connected, refresh]);
}
