/** The library in a real Worker of a browser: no document and no frames, but sockets, timers and `online`. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { type Browser, chromium } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { build, type Rollup } from "vite";
import { FakeServer } from "../support/fake_server.ts";
import { attachSockets } from "../support/sockets.ts";
import { CHROMIUM_FLAGS } from "./page_fixture.ts";

const input = fileURLToPath(new URL("worker_program.ts", import.meta.url));
const fake = new FakeServer(() => Date.now());
let program: string;
const http = createServer((request, response) => {
  const isProgram = request.url === "/worker.js";
  response.writeHead(200, { "content-type": isProgram ? "text/javascript" : "text/html" });
  response.end(isProgram ? program : "<!doctype html>");
});
const sockets = attachSockets(http, fake);
let browser: Browser;
let url: string;

beforeAll(async () => {
  const options = { write: false, modulePreload: false, rollupOptions: { input } } as const;
  const built = (await build({
    configFile: false,
    logLevel: "error",
    build: options,
  })) as Rollup.RollupOutput;
  program = built.output.map((chunk) => ("code" in chunk ? chunk.code : "")).join("");
  await new Promise<void>((resolve) => void http.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/`;
  const executablePath = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
  browser = await chromium.launch({ executablePath, args: CHROMIUM_FLAGS });
});
afterAll(async () => {
  await browser.close();
  for (const socket of sockets.clients) socket.terminate();
  http.closeAllConnections();
  await new Promise((resolve) => void http.close(resolve));
});

test("R7 a Worker follows a Session, through a lost connection and what came meanwhile", async () => {
  const session = fake.create("s1");
  fake.onPrompt = (of, text) => {
    const { message_id, parts } = of.open();
    of.append(message_id, parts[0]!.part_id, `you said ${text}`);
    of.close();
    of.finish();
  };
  const page = await browser.newPage();
  await page.goto(url);
  await page.evaluate(`
    window.seen = [];
    window.worker = new Worker("/worker.js", { type: "module" });
    worker.onmessage = ({ data }) => seen.push(data);
    worker.onerror = ({ message }) => seen.push({ fault: message });
  `);
  const until = (isTrue: string): Promise<unknown> => page.waitForFunction(`seen.some((one) => ${isTrue})`);
  await until(`one.outcome === "started"`);
  await until(`one.texts?.at(-1) === "you said hello"`);
  for (const connection of fake.connections) connection.close(1012);
  session.prompt("elsewhere", [{ type: "text", text: "meanwhile" }]);
  await until(`one.connection === "reconnecting"`);
  await until(`one.status === "live" && one.texts.at(-1) === "meanwhile"`);
  const seen = (await page.evaluate("seen")) as { fault?: string; texts?: string[] }[];
  expect(seen.filter(({ fault }) => fault !== undefined)).toEqual([]);
  expect(seen.filter(({ texts }) => texts).at(-1)?.texts).toEqual(["hello", "you said hello", "meanwhile"]);
});
