/** How the connection is, in words, and what waits for it. */

import type { Client, CommandOp, ConnectionState, PromptBody, UnsentCommand } from "../src/index.ts";
import { TokenForm } from "./token.tsx";
import { textOf } from "./unsent.tsx";

const WORDS = {
  idle: "Not connected",
  connecting: "Connecting…",
  connected: "Connected",
  reconnecting: "Reconnecting…",
  closed: "Disconnected",
} as const;

interface ConnectionPillProps {
  readonly state: ConnectionState;
  readonly unsent: readonly UnsentCommand[];
}

/** While there is no connection it opens to show what is unsent, in whatever Session. */
export function ConnectionPill({ state, unsent }: ConnectionPillProps) {
  const waiting = state.status !== "connected" && unsent.length > 0;
  const words = (
    <span class="pill" role="status" data-connection={state.status} title={state.reason ?? ""}>
      <span class="dot" aria-hidden="true" />
      <span class="pill-words">{WORDS[state.status]}</span>
      {waiting && <span>{unsent.length} unsent</span>}
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

const COMMANDS: Readonly<Record<CommandOp, string>> = {
  prompt: "A message",
  "interaction.respond": "An answer to what the agent asks",
  "session.create": "A new session",
  "session.update": "A change of the session",
  "session.fork": "A fork",
  "session.archive": "To the archive",
  "session.delete": "A deletion",
};

function wordsFor({ op, body }: UnsentCommand): string {
  const text = op === "prompt" ? textOf(body as PromptBody) : "";
  return text || COMMANDS[op];
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
