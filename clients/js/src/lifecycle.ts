/**
 * The life of a connection, as one table (R10). An empty cell: the event changes nothing in that state.
 *
 * | status         | meaning                                        |
 * |----------------|------------------------------------------------|
 * | `idle`         | never asked to connect                         |
 * | `connecting`   | the first attempt since `connect()`            |
 * | `connected`    | `welcome` came                                 |
 * | `reconnecting` | waiting for, or in, another attempt            |
 * | `closed`       | `disconnect()`, or a close code that says stop |
 */

export type ConnectionStatus = "idle" | "connecting" | "connected" | "reconnecting" | "closed";

/** `connect` and `disconnect` are commands; `lost` is a loss after which to come back, `stopped` one to stay away. */
export type ConnectionEvent = "connect" | "disconnect" | "welcome" | "lost" | "stopped";

const SHUT = { connect: "connecting" } as const;
const OPEN = { disconnect: "closed", stopped: "closed", welcome: "connected", lost: "reconnecting" } as const;

const TABLE: Readonly<Record<ConnectionStatus, Partial<Record<ConnectionEvent, ConnectionStatus>>>> = {
  idle: SHUT,
  connecting: OPEN,
  connected: OPEN,
  reconnecting: OPEN,
  closed: SHUT,
};

/** Where `event` leads from `status`; undefined when it changes nothing. */
export function after(status: ConnectionStatus, event: ConnectionEvent): ConnectionStatus | undefined {
  return TABLE[status][event];
}
