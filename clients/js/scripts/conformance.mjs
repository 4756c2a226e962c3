// The driver of the TypeScript client for `turnwire conformance --client`: JSON lines in, JSON lines out, as described
// under "Conformance" in SPEC.md. It uses the built library, as an application would: `npm run build:lib` comes first.

import { createInterface } from "node:readline";
import { WebSocket } from "ws";
import { createClient, TurnwireError } from "../dist/esm/index.js";
import { msgpackCodec } from "../dist/esm/msgpack.js";

const CAN = ["msgpack", "older", "prompt", "reconnect", "respond", "silence", "stop", "token"];

const say = (line) => void process.stdout.write(`${JSON.stringify(line)}\n`);

/** One client by the name that the pack gives it. */
class Driven {
  #name;
  #client;
  #tokens = [];
  #connection = "";
  #leaving = new Map();

  constructor(name) {
    this.#name = name;
  }

  connect({ url, format, tokens = [] }) {
    this.#tokens = [...tokens];
    this.#client = createClient({
      url,
      WebSocket,
      clientName: "turnwire-js/conformance",
      schedule: setImmediate,
      ...(format === "msgpack" && { codec: msgpackCodec }),
      ...(tokens.length > 1 && { getToken: (request) => this.#token(request) }),
      ...(tokens.length === 1 && { getToken: () => tokens[0] }),
      onError: () => {},
    });
    this.#client.subscribe(() => this.#showConnection());
    this.#client.connect();
    return {};
  }

  disconnect() {
    this.#client?.disconnect();
    return {};
  }

  subscribe({ session_id }) {
    const session = this.#client.session(session_id);
    const show = () => say({ client: this.#name, session_id, state: session.getSnapshot() });
    this.#leaving.set(session_id, session.subscribe(show));
    show();
    return {};
  }

  unsubscribe({ session_id }) {
    this.#leaving.get(session_id)?.();
    this.#leaving.delete(session_id);
    return {};
  }

  prompt({ session_id, ...body }) {
    return this.#client.session(session_id).prompt(body);
  }

  stop({ session_id, ...options }) {
    return this.#client.session(session_id).stop(options);
  }

  respond(fields) {
    return this.#client.request("interaction.respond", fields);
  }

  async older({ session_id, limit }) {
    await this.#client.session(session_id).loadOlder(limit);
    return {};
  }

  #token({ refresh }) {
    if (refresh) this.#tokens.shift();
    return this.#tokens[0];
  }

  #showConnection() {
    const { status, code } = this.#client.getSnapshot().connection;
    const connection = { status, ...(code !== undefined && { code }) };
    const line = JSON.stringify(connection);
    if (line === this.#connection) return;
    this.#connection = line;
    say({ client: this.#name, connection });
  }
}

const clients = new Map();

async function obey({ id, client: name, do: command, ...fields }) {
  let client = clients.get(name);
  if (!client) clients.set(name, (client = new Driven(name)));
  try {
    say({ client: name, id, result: (await client[command](fields)) ?? {} });
  } catch (error) {
    if (!(error instanceof TurnwireError)) throw error;
    say({ client: name, id, error: { code: error.code, message: error.message } });
  }
}

say({ driver: "turnwire-js/1", can: CAN });
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void obey(JSON.parse(line)));
lines.on("close", () => process.exit(0));
