/** The package as users get it: packed, installed from the tarball, imported, required, and compiled against. */

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

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

test.each([
  ["bundler", "esnext", "use.ts"],
  ["node16", "node16", "use.mts"],
  ["node16", "node16", "use.cts"],
])(
  "the types are found with moduleResolution %s, module %s, in %s",
  (moduleResolution, module, file) => {
    write(file, USE);
    const compilerOptions = {
      target: "es2022",
      lib: ["es2022", "dom"],
      types: [],
      strict: true,
      skipLibCheck: true,
      noEmit: true,
      module,
      moduleResolution,
    };
    write("tsconfig.json", JSON.stringify({ compilerOptions, files: [file] }));
    const compiler = join(modules, "typescript", "bin", "tsc");
    expect(() => run(process.execPath, [compiler, "-p", "."])).not.toThrow();
  },
  60_000,
);
