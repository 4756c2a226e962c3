// Bundles and compresses the core library and fails when it outgrows its bound.
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const BOUND_BYTES = 8_000;

const output = await build({
  configFile: false,
  logLevel: "error",
  build: {
    write: false,
    minify: true,
    target: "es2022",
    modulePreload: false,
    // Not `lib`: there vite leaves the whitespace in.
    rollupOptions: {
      input: fileURLToPath(new URL("../src/index.ts", import.meta.url)),
      preserveEntrySignatures: "strict",
    },
  },
});
const code = output.output.map((chunk) => chunk.code ?? "").join("");
const compressed = gzipSync(code, { level: 9 }).length;
console.log(`core: ${code.length} bytes minified, ${compressed} bytes with gzip (bound ${BOUND_BYTES})`);
if (compressed > BOUND_BYTES) process.exitCode = 1;
