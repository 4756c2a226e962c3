/** Puts FakeServer behind real WebSockets of an HTTP server. */

import type { Server } from "node:http";
import { WebSocketServer } from "ws";
import type { FakeServer } from "./fake_server.ts";

export function attachSockets(http: Server, fake: FakeServer): WebSocketServer {
  const sockets = new WebSocketServer({ server: http, path: "/ws" });
  sockets.on("connection", (socket) => {
    const connection = fake.connect({
      send: (text) => socket.send(text),
      close: (code, reason) => socket.close(code, reason),
    });
    socket.on("message", (data) => connection.receive(String(data)));
    socket.on("close", () => connection.closed());
  });
  return sockets;
}
