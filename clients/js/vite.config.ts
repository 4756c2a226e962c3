import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** The chat page: built into the server's package, which serves it; `npx vite` serves it for development. */
export default defineConfig({
  root: here("./demo"),
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: here("../../server/turnwire/page"),
    emptyOutDir: true,
    target: "es2022",
    // The page runs under a policy that forbids everything inline.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/ws": { target: "ws://127.0.0.1:8787", ws: true } } },
});
