/** Tokens at the real server: renewed on the connection that stands, and refused for good (R6, X3). */

import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { type Client, type ConnectionState, createClient, type GetToken } from "../../src/index.ts";
import { missingServer, RealServer } from "../support/real_server.ts";

const SECRET = "0123456789abcdef0123456789abcdef0123456789abcdef";
const folder = mkdtempSync(join(tmpdir(), "turnwire-key-"));
const keyFile = join(folder, "key");
const server = new RealServer(["--key-file", keyFile]);

beforeAll(async () => {
  writeFileSync(keyFile, SECRET, { mode: 0o600 });
  if (!missingServer) await server.start();
}, 60_000);
afterAll(async () => {
  await server.remove();
  rmSync(folder, { recursive: true, force: true });
});

function token(seconds: number, secret = SECRET): string {
  const now = Math.floor(Date.now() / 1000);
  const parts = [
    { alg: "HS256", typ: "JWT" },
    { sub: "ada", iat: now, exp: now + seconds },
  ];
  const text = parts.map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}

/** Connects, and gives all states that the connection was in. */
function connect(getToken: GetToken): [Client, ConnectionState[]] {
  const client = createClient({ url: server.url, WebSocket: WebSocket as never, getToken });
  const seen: ConnectionState[] = [];
  client.subscribe(() => {
    const { connection } = client.getSnapshot();
    if (seen.at(-1) !== connection) seen.push(connection);
  });
  client.connect();
  return [client, seen];
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(missingServer)("with the real server", () => {
  test("X3 a connection outlives its first token, and the Session streams on", async () => {
    let given = 0;
    const [client, seen] = connect(() => {
      given += 1;
      return token(8);
    });
    const { session_id } = await client.createSession();
    const session = client.session(session_id);
    const leave = session.subscribe(() => {});
    await session.prompt("/stream 100 100");
    await pause(13_500); // the first token is over, the answer too
    expect(given).toBeGreaterThan(1);
    expect(seen.filter(({ status }) => status !== "connecting")).toEqual([{ status: "connected" }]);
    expect(session.getSnapshot().messages.at(-1)).toMatchObject({ role: "agent", state: "done" });
    leave();
    client.disconnect();
  });

  test("R6 a token that is never right is tried twice, and that is all", async () => {
    let given = 0;
    const [client, seen] = connect(() => {
      given += 1;
      return token(60, "another secret, which is not that of the server");
    });
    await pause(1_500);
    expect(given).toBe(2);
    expect(seen.at(-1)).toMatchObject({ status: "closed", code: 4401 });
    client.disconnect();
  });
});

test.runIf(missingServer)(`left out: ${missingServer}`, () => {});
