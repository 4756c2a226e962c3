/** How the connection is, in words, and what waits for it. */

import { useEffect, useState } from "preact/hooks";
import type { Client, ConnectionState, UnsentCommand } from "../src/index.ts";
import { useStore } from "./hooks.ts";
import type { TokenKeeper } from "./token.ts";
import { TokenForm } from "./token_form.tsx";
import { wordsFor } from "./unsent.tsx";

const WORDS = {
  idle: "Not connected",
  connecting: "Connecting…",
  connected: "Connected",
  doubted: "Checking…",
  draining: "Restarting soon",
  reconnecting: "Reconnecting…",
  closed: "Disconnected",
} as const;

const TITLES: Partial<Record<keyof typeof WORDS, string>> = {
  doubted: "This device says that it is offline",
  draining: "The server is about to restart: what you send now goes out right after",
};

interface ConnectionPillProps {
  readonly client: Client;
  readonly state: ConnectionState;
  readonly unsent: readonly UnsentCommand[];
}

/** While there is no connection it opens to show what is unsent, in whatever Session. */
export function ConnectionPill({ client, state, unsent }: ConnectionPillProps) {
  const doubted = useDoubt(client);
  const shown = shownOf(state, doubted);
  const waiting = unsent.length > 0 && (state.status !== "connected" || shown === "draining");
  const words = (
    <span class="pill" role="status" data-connection={shown} title={TITLES[shown] ?? state.reason ?? ""}>
      <span class="dot" aria-hidden="true" />
      <span class="pill-words">{WORDS[shown]}</span>
      {waiting && <span class="pill-unsent">{unsent.length} unsent</span>}
    </span>
  );
  if (!waiting) return words;
  return (
    <details class="menu">
      <summary>{words}</summary>
      <div class="menu-items unsent-list">
        <p class="faint">These go out once there is a connection:</p>
        <ul>
          {unsent.map((command) => (
            <li key={command.client_request_id}>
              <a href={command.session_id === undefined ? "#/" : `#/s/${command.session_id}`}>
                {wordsFor(command)}
              </a>
            </li>
          ))}
        </ul>
      </div>
    </details>
  );
}

function shownOf({ status, reason }: ConnectionState, doubted: boolean): keyof typeof WORDS {
  if (status !== "connected") return status;
  if (doubted) return "doubted";
  return reason === "draining" ? reason : status;
}

/**
 * Whether the browser has just said that it is offline and the server has not answered since. That word alone is not
 * trusted: the server may be on this machine.
 */
function useDoubt(client: Client): boolean {
  const [doubted, setDoubted] = useState(false);
  useEffect(() => {
    const end = (): void => setDoubted(false);
    const onOffline = (): void => {
      setDoubted(true);
      // Without an answer the connection is given up, and then the state says so.
      client.request("ping", {}).then(end, end);
    };
    addEventListener("offline", onOffline);
    return () => removeEventListener("offline", onOffline);
  }, [client]);
  return doubted;
}

/** Token missing, wrong or expired, and a new one did not help. */
const TOKEN_REFUSED = 4401;

interface ConnectionNoticeProps {
  readonly client: Client;
  readonly tokens: TokenKeeper;
  readonly state: ConnectionState;
}

/** A connection that does not come back by itself needs the user; so does one whose token expires soon. */
export function ConnectionNotice({ client, tokens, state }: ConnectionNoticeProps) {
  const renewing = useStore(tokens);
  const refused = state.status === "closed" && state.code === TOKEN_REFUSED;
  if (renewing || refused) {
    const given = tokens.token !== undefined;
    return (
      <TokenForm
        tokens={tokens}
        title={refused ? "This server asks for an access token" : "Your access token expires soon"}
        fault={refused && given ? `The last one is not accepted: ${state.reason}.` : undefined}
      />
    );
  }
  if (state.status !== "closed") return null;
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
