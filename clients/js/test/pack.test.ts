/** The package as users get it: packed, installed from the tarball, imported, required, and compiled against. */

import { execFile, execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ask } from "./support/fake_interactions.ts";
import { FakeServer } from "./support/fake_server.ts";
import { examplesOf, programOf } from "./support/readme.ts";
import { attachSockets } from "./support/sockets.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const modules = join(root, "node_modules");
/** Below our own `node_modules`, so that the optional peers are found there and nothing is fetched. */
const folder = mkdtempSync(join(modules, ".pack-"));

const run = (command: string, args: readonly string[], cwd = folder): string =>
  execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

function write(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

beforeAll(() => {
  run(process.execPath, ["scripts/build.mjs"], root);
  const packed = run("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", folder], root);
  mkdirSync(join(folder, "node_modules"));
  write("package.json", '{"name":"user","private":true}');
  run("npm", ["install", "--offline", "--silent", "--legacy-peer-deps", `./${packed.trim()}`]);
}, 60_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NAMES = {
  turnwire: ["createClient", "jsonCodec", "SessionView", "TurnwireError"],
  "turnwire/msgpack": ["msgpackCodec"],
  "turnwire/react": ["useSession", "useMessage", "useConnection"],
  "turnwire/ai-sdk": ["createChatTransport", "toUIMessages"],
};

test("it holds the built library, its README and nothing else", () => {
  const files = run("find", ["node_modules/turnwire", "-type", "f"]).trim().split("\n");
  const foreign = files.filter(
    (file) => !/turnwire\/(dist\/(esm|cjs)\/|package\.json|README\.md)/.test(file),
  );
  expect(foreign).toEqual([]);
});

test.each(Object.entries(NAMES))("%s is imported as an ES module", (name, exported) => {
  const code = `import * as all from "${name}"; console.log(JSON.stringify(Object.keys(all)))`;
  const keys: unknown = JSON.parse(run(process.execPath, ["--input-type=module", "-e", code]));
  expect(keys).toEqual(expect.arrayContaining(exported));
});

test.each(Object.entries(NAMES))("%s is required from CommonJS", (name, exported) => {
  const code = `console.log(JSON.stringify(Object.keys(require("${name}"))))`;
  const keys: unknown = JSON.parse(run(process.execPath, ["--input-type=commonjs", "-e", code]));
  expect(keys).toEqual(expect.arrayContaining(exported));
});

test("both formats share what they must: an error of a sub-path is one of the core", () => {
  const code = `
    const { CodecError } = require("turnwire");
    try { require("turnwire/msgpack").msgpackCodec.decode("text"); } catch (error) {
      console.log(error instanceof CodecError);
    }`;
  expect(run(process.execPath, ["--input-type=commonjs", "-e", code]).trim()).toBe("true");
});

const USE = `
import { createClient, type Message, TurnwireError } from "turnwire";
import { msgpackCodec } from "turnwire/msgpack";
import { useMessage, useSession } from "turnwire/react";
import { createChatTransport, toUIMessages } from "turnwire/ai-sdk";
import type { ChatTransport, UIMessage } from "ai";

const client = createClient({ url: "ws://127.0.0.1:1/ws", codec: msgpackCodec });
const session = client.session("s1");
export const transport: ChatTransport<UIMessage> = createChatTransport({ client });
export const shown: UIMessage[] = toUIMessages(session.getSnapshot().messages);
export const one = (): Message | undefined => useMessage(session, "m1");
export const title = (): string | undefined => useSession(session, (state) => state.session?.title);
export const failed = (error: unknown): string => (error instanceof TurnwireError ? error.code : "");
// @ts-expect-error: were the types not found, everything would be allowed
export const wrong: number = session.getSnapshot().status;
// @ts-expect-error: likewise for the sub-paths
export const wrongToo: number = msgpackCodec.subprotocol;
`;

/** Throws with what the compiler says. */
function compile(options: object, files: readonly string[]): void {
  const strict = { strict: true, skipLibCheck: true, noEmit: true };
  const compilerOptions = { target: "es2022", lib: ["es2022", "dom"], types: [], ...strict, ...options };
  write("tsconfig.json", JSON.stringify({ compilerOptions, files }));
  run(process.execPath, [join(modules, "typescript", "bin", "tsc"), "-p", "."]);
}

test.each([
  ["bundler", "esnext", "use.ts"],
  ["node16", "node16", "use.mts"],
  ["node16", "node16", "use.cts"],
])(
  "the types are found with moduleResolution %s, module %s, in %s",
  (moduleResolution, module, file) => {
    write(file, USE);
    expect(() => compile({ module, moduleResolution }, [file])).not.toThrow();
  },
  60_000,
);

/** A server that answers, and has a Session where a Tool waits for approval. */
async function serve(): Promise<{ url: string; close: () => void }> {
  const http = createServer();
  const fake = new FakeServer(() => 0);
  fake.onPrompt = (session, text) => {
    const { message_id, parts } = session.open();
    session.append(message_id, parts[0]!.part_id, `you said ${text}`);
    session.close();
    session.finish();
  };
  const waiting = fake.create("notes");
  waiting.prompt("p", [{ type: "text", text: "write" }]);
  ask(waiting, waiting.open().message_id, "c1", { path: "a.txt" });
  attachSockets(http, fake);
  await new Promise<void>((resolve) => void http.listen(0, "127.0.0.1", resolve));
  return { url: `ws://127.0.0.1:${(http.address() as AddressInfo).port}/ws`, close: () => void http.close() };
}

const THREAD = `
import { parentPort, workerData } from "node:worker_threads";
import { createClient } from "turnwire";
import { WebSocket } from "ws";

const client = createClient({ url: workerData, WebSocket });
client.connect();
const { session_id } = await client.createSession();
const session = client.session(session_id);
session.subscribe(() => {
  const { messages } = session.getSnapshot();
  if (messages.at(-1)?.state !== "done" || messages.length < 2) return;
  parentPort.postMessage(messages.at(-1).parts[0].text);
  client.disconnect();
});
await session.prompt("/stream 3");
`;

test("it runs in a worker thread of Node, which ends by itself once the client is disconnected", async () => {
  const { url, close } = await serve();
  write("thread.mjs", THREAD);
  const thread = new Worker(join(folder, "thread.mjs"), { workerData: url });
  const ended = once(thread, "exit");
  expect(await once(thread, "message")).toEqual(["you said /stream 3"]);
  expect(await ended).toEqual([0]);
  close();
});

describe("the README's examples", () => {
  const SAID: Record<string, RegExp> = {
    Start: /^done: you said \/stream 5$/m,
    Connection: /^connected {2}0 to send$/m,
    "Commands, online or not": /^\[ \[ 'waiting', '\/echo written offline' \] \]\nstarted$/m,
    "Approvals and questions": /^may it\? [^]*\napproved$/m,
    MessagePack: /^$/,
  };

  test.each(examplesOf("js"))("$heading: run, and say what they should", async (example) => {
    const { url, close } = await serve();
    write("example.mjs", programOf(example, url));
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ["example.mjs"], { cwd: folder });
    close();
    expect(stderr).toBe("");
    expect(stdout).toMatch(SAID[example.heading] ?? /^no such example$/);
  });

  test("in TypeScript compile", () => {
    const examples = ["ts", "tsx"]
      .flatMap(examplesOf)
      .map(({ code }, index) => [`example${index}.tsx`, code] as const);
    expect(examples.length).toBeGreaterThan(2);
    for (const [file, code] of examples) write(file, code);
    const files = examples.map(([file]) => file);
    expect(() =>
      compile({ module: "esnext", moduleResolution: "bundler", jsx: "react-jsx" }, files),
    ).not.toThrow();
  }, 60_000);
});
