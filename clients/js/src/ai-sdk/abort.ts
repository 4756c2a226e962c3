/** What the abort signal of a chat does to a command, and to a Turn: the wish to stop outlives a lost connection. */

import type { Client } from "../client.ts";
import { TurnwireError } from "../errors.ts";
import type { SessionHandle } from "../session.ts";

/** What `send` gives, or the reason of `signal` as soon as it is aborted; then `undo` learns what to give up. */
export function unlessAborted<T>(
  client: Client,
  send: () => Promise<T>,
  signal: AbortSignal | undefined,
  undo: (result: Promise<T>, giveUp: () => boolean) => void = (_, giveUp) => void giveUp(),
): Promise<T> {
  if (!signal) return send();
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const others = new Set(client.getSnapshot().unsent.map((command) => command.client_request_id));
    const result = send();
    const id = client
      .getSnapshot()
      .unsent.find((command) => !others.has(command.client_request_id))?.client_request_id;
    const abort = (): void => {
      reject(signal.reason as Error);
      undo(result, () => discardUntried(client, id));
    };
    signal.addEventListener("abort", abort);
    result.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** Whether the command was given up: one that was sent once may have been carried out. */
function discardUntried(client: Client, client_request_id: string | undefined): boolean {
  const command = client.getSnapshot().unsent.find((item) => item.client_request_id === client_request_id);
  if (command?.attempts !== 0 || command.session_id === undefined) return false;
  return client.session(command.session_id).discard(command.client_request_id);
}

/** Asks until there is an answer, on this connection or the next: it names its Turn, so it can hit no other. */
export async function stopTurn(client: Client, session: SessionHandle, turn_id: string): Promise<void> {
  while (await isConnected(client)) {
    try {
      await session.stop({ turn_id });
      return;
    } catch (error) {
      if (!(error instanceof TurnwireError)) throw error;
      // Refused: the Turn is over, or not this user's to stop, and the stream shows which.
      if (error.code !== "lost" && error.code !== "timeout") return;
    }
  }
}

/** True once there is a connection, false once it is closed for good. */
function isConnected(client: Client): Promise<boolean> {
  return new Promise((resolve) => {
    const look = (): void => {
      const { status } = client.getSnapshot().connection;
      if (status !== "connected" && status !== "closed") return;
      leave();
      resolve(status === "connected");
    };
    const leave = client.subscribe(look);
    look();
  });
}
