// The Node peers of the fan-out benchmark: `node peers.mjs ws|socketio FRAMES PER_TURN INTERVAL_MS`.
// Prints its port; on SIGUSR2 it publishes FRAMES frames to everyone, PER_TURN at a time, every INTERVAL_MS (0: each turn).
// (Not SIGUSR1: Node takes that one for its debugger.)
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [peer, packageJson, ...numbers] = process.argv.slice(2);
const [frames, perTurn, intervalMs] = numbers.map(Number);
const require = createRequire(packageJson);
const http = createServer();
const publish = peer === "ws" ? ws() : socketio();

http.listen(0, "127.0.0.1", () => console.log(http.address().port));
process.on("SIGUSR2", () => turn(0));

function turn(sent) {
  for (let n = 0; n < perTurn && sent < frames; n += 1, sent += 1) publish(delta(sent));
  if (sent >= frames) return;
  if (intervalMs > 0) setTimeout(turn, intervalMs, sent);
  else setImmediate(turn, sent);
}

// About 200 bytes, as a Turnwire delta has.
function delta(number) {
  return JSON.stringify({
    op: "mutation",
    epoch: "epoch_0123456789abcdef01234567",
    seq: number,
    variant: "delta",
    session_id: "ses_0123456789abcdef01234567",
    message_id: "msg_0123456789abcdef",
    delta: `@@${process.hrtime.bigint()}@@ and more`,
  });
}

function ws() {
  const { WebSocketServer } = require("ws");
  const server = new WebSocketServer({ server: http, perMessageDeflate: false });
  return (text) => {
    for (const client of server.clients) client.send(text);
  };
}

function socketio() {
  const { Server } = require("socket.io");
  const server = new Server(http, { transports: ["websocket"], perMessageDeflate: false });
  return (text) => server.emit("d", text);
}
