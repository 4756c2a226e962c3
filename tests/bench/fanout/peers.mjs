// The JavaScript peers of the fan-out benchmark: `node peers.mjs ws|socketio PACKAGE_JSON FRAMES PER_TURN INTERVAL_MS`,
// and the same with `bun peers.mjs bun`.
// Prints its port; on SIGUSR2 it publishes FRAMES frames to everyone, PER_TURN at a time, every INTERVAL_MS by the clock
// (0: each turn).
// (Not SIGUSR1: Node takes that one for its debugger.)
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [peer, packageJson, ...numbers] = process.argv.slice(2);
const [frames, perTurn, intervalMs] = numbers.map(Number);
const require = createRequire(packageJson);
const now = peer === "bun" ? await monotonicClock() : process.hrtime.bigint;
const publish = { ws, socketio, bun }[peer]();

process.on("SIGUSR2", () => turn(0, performance.now()));

function turn(sent, due) {
  for (let n = 0; n < perTurn && sent < frames; n += 1, sent += 1) publish(delta(sent + 1));
  if (sent >= frames) return;
  const next = due + intervalMs;
  if (intervalMs > 0) setTimeout(turn, Math.max(0, next - performance.now()), sent, next);
  else setImmediate(turn, sent, next);
}

// What Turnwire sends.
function delta(number) {
  return JSON.stringify({
    op: "mutation",
    epoch: "epoch_0123456789abcdef01234567",
    seq: number,
    variant: "delta",
    mutation_id: "mut_0123456789abcdef01234567",
    session_id: "ses_0123456789abcdef01234567",
    created_at: 1_700_000_000_000,
    type: "text",
    message_id: "msg_0123456789abcdef",
    revision: number,
    part_id: "part_0123456789abcdef",
    delta: `@@${now()}@@ and more`,
  });
}

function listening() {
  const http = createServer();
  http.listen(0, "127.0.0.1", () => console.log(http.address().port));
  return http;
}

function ws() {
  const { WebSocketServer } = require("ws");
  const server = new WebSocketServer({ server: listening(), perMessageDeflate: false });
  return (text) => {
    const payload = Buffer.from(text); // once for all: a string would be encoded for each client
    for (const client of server.clients) client.send(payload, { binary: false });
  };
}

function socketio() {
  const { Server } = require("socket.io");
  const server = new Server(listening(), { transports: ["websocket"], perMessageDeflate: false });
  return (text) => server.emit("d", text);
}

// Bun's WebSocket server is uWebSockets, in C++, and so is its fan-out.
function bun() {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request, server) => (server.upgrade(request) ? undefined : new Response(null, { status: 400 })),
    websocket: {
      perMessageDeflate: false,
      sendPings: false,
      open: (client) => client.subscribe("all"),
      message: () => {},
    },
  });
  console.log(server.port);
  return (text) => server.publish("all", text);
}

// Bun's own clocks begin with its process; the load generator's is the system's.
async function monotonicClock() {
  const { dlopen } = await import("bun:ffi");
  const { symbols } = dlopen("libc.so.6", { clock_gettime: { args: ["i32", "ptr"], returns: "i32" } });
  const time = new BigInt64Array(2);
  return () => {
    symbols.clock_gettime(1, time); // CLOCK_MONOTONIC
    return time[0] * 1_000_000_000n + time[1];
  };
}
