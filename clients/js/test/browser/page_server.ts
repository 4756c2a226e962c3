/** Serves the built page with FakeServer behind it, under the policy that the real server sends. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { FakeServer } from "../support/fake_server.ts";
import { attachSockets } from "../support/sockets.ts";

const PAGE = fileURLToPath(new URL("../../../../server/turnwire/page", import.meta.url));

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

export interface PageServer {
  readonly fake: FakeServer;
  readonly url: string;
  close(): Promise<void>;
}

export async function servePage(): Promise<PageServer> {
  if (!existsSync(join(PAGE, "index.html"))) throw new Error("build the page first: npm run build:page");
  const files = new Map(
    readdirSync(PAGE, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [`/${relative(PAGE, path)}`, path]),
  );
  const http = createServer((request, response) => {
    const url = (request.url ?? "/").replace(/\?.*$/, "");
    const path = files.get(url === "/" ? "/index.html" : url);
    if (path === undefined) return void response.writeHead(404).end();
    const headers = { "content-type": TYPES[extname(path)] ?? "", "content-security-policy": POLICY };
    return void response.writeHead(200, headers).end(readFileSync(path));
  });
  const fake = new FakeServer(() => Date.now());
  const sockets = attachSockets(http, fake);
  await new Promise<void>((resolve) => void http.listen(0, "127.0.0.1", resolve));
  return {
    fake,
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/`,
    async close() {
      for (const socket of sockets.clients) socket.terminate();
      http.closeAllConnections();
      await new Promise((resolve) => void http.close(resolve));
    },
  };
}
