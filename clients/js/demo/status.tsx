/** How the connection is, in words. */

import type { Client, ConnectionState } from "../src/index.ts";
import { TokenForm } from "./token.tsx";

const WORDS = {
  idle: "Not connected",
  connecting: "Connecting…",
  connected: "Connected",
  reconnecting: "Reconnecting…",
  closed: "Disconnected",
} as const;

export function ConnectionPill({ state, unsent }: { state: ConnectionState; unsent: number }) {
  return (
    <p class="pill" role="status" data-connection={state.status} title={state.reason ?? ""}>
      <span class="dot" aria-hidden="true" />
      <span class="pill-words">{WORDS[state.status]}</span>
      {unsent > 0 && state.status !== "connected" && <span> · {unsent} unsent</span>}
    </p>
  );
}

/** Token missing, wrong or expired, and a new one did not help. */
const TOKEN_REFUSED = 4401;

/** A connection that does not come back by itself needs the user. */
export function ConnectionNotice({ client, state }: { client: Client; state: ConnectionState }) {
  if (state.status !== "closed") return null;
  if (state.code === TOKEN_REFUSED) return <TokenForm onToken={() => client.connect()} />;
  return (
    <div class="notice error" role="alert">
      <p>
        The connection has ended: {state.reason || "no reason was given"} ({state.code})
      </p>
      <div class="notice-actions">
        <button type="button" class="button" onClick={() => client.connect()}>
          Connect again
        </button>
      </div>
    </div>
  );
}
