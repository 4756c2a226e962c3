/** The client over real sockets in Node, with the WebSocket of the package `ws`. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { createClient, type SessionHandle, type SocketConstructor } from "../src/index.ts";
import { FakeServer } from "./support/fake_server.ts";
import { attachSockets } from "./support/sockets.ts";

const http = createServer();
const fake = new FakeServer(() => 0);
let url: string;

beforeAll(async () => {
  attachSockets(http, fake);
  await new Promise<void>((resolve) => void http.listen(0, "127.0.0.1", resolve));
  url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}/ws`;
});
afterAll(() => new Promise((resolve) => void http.close(resolve)));

/** Resolves once `isTrue` holds of the Session's snapshot. */
function until(session: SessionHandle, isTrue: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const leave = session.subscribe(() => {
      if (!isTrue()) return;
      leave();
      resolve();
    });
  });
}

test("W2 a prompt and its answer travel over a real WebSocket", async () => {
  fake.onPrompt = (session, text) => {
    const { message_id, parts } = session.open();
    session.append(message_id, parts[0]!.part_id, `you said ${text}`);
    session.close();
    session.finish();
  };
  const client = createClient({ url, WebSocket: WebSocket as SocketConstructor });
  client.connect();
  const { session_id } = await client.createSession();
  const session = client.session(session_id);
  const answered = until(session, () => session.getSnapshot().messages.at(-1)?.state === "done");
  expect(await session.prompt("hello")).toMatchObject({ outcome: "started" });
  await answered;
  expect(session.getSnapshot().messages.at(-1)?.parts).toMatchObject([{ text: "you said hello" }]);
  client.disconnect();
});

test("R1 a port where nobody listens is tried again, and disconnect ends that", async () => {
  const client = createClient({ url: "ws://127.0.0.1:9/ws", WebSocket: WebSocket as SocketConstructor });
  const reconnecting = new Promise<void>((resolve) => {
    client.subscribe(() => {
      if (client.getSnapshot().connection.status === "reconnecting") resolve();
    });
  });
  client.connect();
  await reconnecting;
  client.disconnect();
  client.connect();
  client.disconnect(); // while the socket still opens
  expect(client.getSnapshot().connection.status).toBe("closed");
});
