/** The conversation: Messages in order, what is unsent below them, older ones loaded while scrolling up. */

import { memo } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";
import type { SessionHandle, SessionState } from "../src/index.ts";
import { Icon } from "./icons.tsx";
import { MessageItem } from "./message.tsx";
import { sentence } from "./notices.tsx";
import { type Row, RowReader, sameRows } from "./rows.ts";
import { useScroll } from "./scroll.ts";
import { UnsentItem, unseen } from "./unsent.tsx";

interface ConversationProps {
  readonly session: SessionHandle;
  readonly state: SessionState;
  /** How far it had been read when it was opened. */
  readonly seen: number;
}

/** How many Messages are asked for at once while scrolling up. */
const OLDER = 50;

export function Conversation({ session, state, seen }: ConversationProps) {
  const { messages, has_more, loading_older } = state;
  const [olderFailed, setOlderFailed] = useState<string>();
  const loadOlder = (): void => {
    setOlderFailed(undefined);
    session.loadOlder(OLDER).catch((error: unknown) => setOlderFailed(sentence(error)));
  };
  const canLoad = has_more && !loading_older && olderFailed === undefined && state.status === "live";
  const { scroller, content, atEnd, toEnd } = useScroll(canLoad ? loadOlder : undefined);
  const reader = useRef<RowReader>(undefined);
  reader.current ??= new RowReader();
  const streaming = messages.some((message) => message.state === "streaming");
  const last = state.unsent.at(-1)?.client_request_id;
  // Who says something wants to see it, and what it leads to.
  useEffect(() => {
    if (last !== undefined) toEnd();
  }, [last, toEnd]);
  const below = useBelow(state, atEnd);

  return (
    <div class="conversation">
      <section ref={scroller} class="scroller" aria-label="Conversation" tabIndex={0}>
        <div
          ref={content}
          class="messages"
          data-status={state.status}
          data-epoch={state.epoch}
          data-seq={state.seq}
        >
          {has_more && (
            <div class="older">
              {olderFailed !== undefined && <p class="notice error">{olderFailed}</p>}
              <button type="button" class="button" disabled={loading_older} onClick={loadOlder}>
                {loading_older ? "Loading older messages…" : "Show older messages"}
              </button>
            </div>
          )}
          {state.status === "loading" && <p class="hint">Loading…</p>}
          {state.status === "live" && messages.length === 0 && state.unsent.length === 0 && (
            <p class="hint">Nothing has been said yet.</p>
          )}
          {reader.current.read(state, seen).map(({ key, rows }) => (
            <MessageGroup key={key} rows={rows} />
          ))}
          {state.turn && !streaming && <p class="thinking">Thinking…</p>}
          {unseen(state.unsent, messages).map((prompt) => (
            <UnsentItem key={prompt.client_request_id} prompt={prompt} session={session} />
          ))}
        </div>
      </section>
      {!atEnd && (
        <button type="button" class="button to-end" onClick={toEnd}>
          <Icon name="down" /> {below === 0 ? "Latest" : `${below} new`}
        </button>
      )}
    </div>
  );
}

const MessageGroup = memo(
  ({ rows }: { rows: readonly Row[] }) => (
    <div class="group">
      {rows.map((row) => (
        <MessageItem key={row.message.message_id} row={row} />
      ))}
    </div>
  ),
  (before, after) => sameRows(before.rows, after.rows),
);

/** How many Messages have come since the end was last in sight. */
function useBelow({ messages }: SessionState, atEnd: boolean): number {
  const end = useRef(0);
  const newest = messages.at(-1)?.sequence ?? 0;
  if (atEnd) end.current = newest;
  return Math.max(0, newest - end.current);
}
