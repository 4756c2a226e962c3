/** Every event in every state of a connection, as a table: what it leads to, and that nothing is left behind (R6-R10). */

import { describe, expect, test } from "vitest";
import type { Client, ConnectionStatus } from "../src/index.ts";
import { OPEN_TIMEOUT_MS } from "../src/link.ts";
import { MIN_DELAY_MS } from "../src/reconnect.ts";
import { Wire } from "./support/wire.ts";

type Step = (wire: Wire, client: Client) => void | Promise<void>;

/** How each state is reached. `waiting` and `retrying` are the two halves of `reconnecting`. */
const STATES: Record<string, { status: ConnectionStatus; reach: Step }> = {
  idle: { status: "idle", reach: () => {} },
  connecting: {
    status: "connecting",
    reach: async (wire, client) => {
      client.connect();
      await wire.clock.advance(0); // the token is there, the socket is not open yet
    },
  },
  connected: {
    status: "connected",
    reach: async (wire, client) => {
      client.connect();
      await wire.clock.advance(100);
    },
  },
  waiting: {
    status: "reconnecting",
    reach: async (wire, client) => {
      client.connect();
      await wire.clock.advance(100);
      wire.socket.drop(1006);
    },
  },
  retrying: {
    status: "reconnecting",
    reach: async (wire, client) => {
      client.connect();
      await wire.clock.advance(100);
      wire.socket.drop(1006);
      wire.wake();
      await wire.clock.advance(0);
    },
  },
  closed: {
    status: "closed",
    reach: async (wire, client) => {
      client.connect();
      await wire.clock.advance(100);
      client.disconnect();
    },
  },
};

const drop =
  (code: number): Step =>
  (wire) => {
    wire.sockets.at(-1)?.drop(code);
  };

const EVENTS: Record<string, Step> = {
  "connect()": (_, client) => client.connect(),
  "disconnect()": (_, client) => client.disconnect(),
  "disconnect() connect()": (_, client) => {
    client.disconnect();
    client.connect();
  },
  "a welcome": (wire) => wire.clock.advance(2 * MIN_DELAY_MS),
  silence: async (wire) => {
    wire.server.intercept = () => "drop";
    await wire.clock.advance(OPEN_TIMEOUT_MS + 50);
  },
  "close 1000": drop(1000),
  "close 1006": drop(1006),
  "close 1012": drop(1012),
  "close 4400": drop(4400),
  "close 4401": drop(4401),
  "close 4403": drop(4403),
  "close 4429": drop(4429),
  "a wake-up": (wire) => wire.wake(),
  "going to sleep": (wire) => wire.suspend(),
  "an old socket": (wire) => {
    const [first] = wire.sockets;
    if (wire.sockets.length < 2 || !first) return;
    first.fire(first.onclose, { code: 4403, reason: "late" });
    first.fire(first.onmessage, { data: '{"op":"welcome"}' });
  },
};

const SAME = "";
/** Where each event leads; an empty cell is the state it came in. */
const TABLE: Record<string, readonly string[]> = {
  //                        idle          connecting      connected       waiting         retrying        closed
  "connect()": /*       */ ["connecting", SAME, SAME, SAME, SAME, "connecting"],
  "disconnect()": /*    */ [SAME, "closed", "closed", "closed", "closed", SAME],
  "disconnect() connect()": [
    "connecting",
    "connecting",
    "connecting",
    "connecting",
    "connecting",
    "connecting",
  ],
  "a welcome": /*       */ [SAME, "connected", SAME, "connected", "connected", SAME],
  silence: /*           */ [SAME, "reconnecting", SAME, SAME, SAME, SAME],
  "close 1000": /*      */ [SAME, "reconnecting", "reconnecting", SAME, SAME, SAME],
  "close 1006": /*      */ [SAME, "reconnecting", "reconnecting", SAME, SAME, SAME],
  "close 1012": /*      */ [SAME, "reconnecting", "reconnecting", SAME, SAME, SAME],
  "close 4400": /*      */ [SAME, "closed", "closed", SAME, "closed", SAME],
  // There is no getToken here: nothing to try.
  "close 4401": /*      */ [SAME, "closed", "closed", SAME, "closed", SAME],
  "close 4403": /*      */ [SAME, "closed", "closed", SAME, "closed", SAME],
  "close 4429": /*      */ [SAME, "reconnecting", "reconnecting", SAME, SAME, SAME],
  "a wake-up": /*       */ [SAME, SAME, SAME, SAME, SAME, SAME],
  "going to sleep": /*  */ [SAME, "reconnecting", "reconnecting", SAME, SAME, SAME],
  "an old socket": /*   */ [SAME, SAME, SAME, SAME, SAME, SAME],
};

const cases = Object.entries(TABLE).flatMap(([event, row]) =>
  Object.keys(STATES).map((state, column) => [state, event, row[column] || STATES[state]!.status] as const),
);

describe("R10", () => {
  test("every event stands in the table", () => expect(Object.keys(TABLE)).toEqual(Object.keys(EVENTS)));

  test.each(cases)("%s, %s: %s", async (state, event, expected) => {
    const wire = new Wire();
    const client = wire.client();
    await STATES[state]!.reach(wire, client);
    expect(client.getSnapshot().connection.status).toBe(STATES[state]!.status);
    await EVENTS[event]!(wire, client);
    const { connection } = client.getSnapshot();
    expect(connection.status).toBe(expected);
    expect(connection.code !== undefined).toBe(["reconnecting", "closed"].includes(expected));

    wire.server.intercept = () => {};
    client.disconnect();
    await wire.clock.advance(60_000);
    expect(wire.server.connections.size).toBe(0);
    expect([wire.clock.timers, wire.wakers]).toEqual([0, 0]);

    client.connect();
    await wire.clock.advance(100);
    expect(client.getSnapshot().connection).toEqual({ status: "connected" });
  });
});
