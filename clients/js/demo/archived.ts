/** Whether a Session is in the archive, which snapshots say, but no Mutation does. */

import { useCallback, useState } from "preact/hooks";
import type { Client, Session, SessionState } from "../src/index.ts";
import { useRefreshing } from "./refreshing.ts";
import { findLast } from "./rows.ts";

/** The answer, and what to call when it has changed. */
export function useArchived(
  client: Client,
  session_id: string,
  { session, messages }: SessionState,
  connected: boolean,
): [boolean, () => void] {
  const [asked, setAsked] = useState<Session>();
  const ask = useCallback((): void => {
    if (client.getSnapshot().connection.status !== "connected") return;
    // What is wrong with the Session is told by its subscription.
    client.getSession(session_id).then(setAsked, () => undefined);
  }, [client, session_id]);
  useRefreshing(ask, connected);
  const known = asked && asked.updated_at >= (session?.updated_at ?? 0) ? asked : session;
  // A prompt that was accepted since then has brought it back.
  const prompt = findLast(messages, (message) => message.role === "user");
  const said = (prompt?.sequence ?? 0) > (known?.message_count ?? 0);
  return [known?.archived_at !== undefined && !said, ask];
}
