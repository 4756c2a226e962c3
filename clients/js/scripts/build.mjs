// Builds the library twice, as ES modules and as CommonJS, each with its types: dist/esm and dist/cjs, or below the
// folder that is given.
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL("..", import.meta.url));
const compiler = fileURLToPath(
  import.meta.resolve("typescript/package.json").replace("package.json", "bin/tsc"),
);

/** The compiler rewrites the extensions of imports in code, but not in types. */
function rewriteTypes(folder) {
  for (const name of readdirSync(folder, { recursive: true })) {
    if (!name.endsWith(".d.ts")) continue;
    const text = readFileSync(`${folder}/${name}`, "utf8");
    writeFileSync(`${folder}/${name}`, text.replace(/((?:from|import) ?\(?"\.[^"]*)\.ts"/g, '$1.js"'));
  }
}

const FORMATS = { esm: { type: "module", module: "esnext" }, cjs: { type: "commonjs", module: "commonjs" } };

const target = resolve(process.argv[2] ?? `${here}/dist`);
rmSync(target, { recursive: true, force: true });
for (const [name, { type, module }] of Object.entries(FORMATS)) {
  const folder = `${target}/${name}`;
  mkdirSync(folder, { recursive: true });
  // Says to Node and to TypeScript which format the files beside it have.
  writeFileSync(`${folder}/package.json`, `${JSON.stringify({ type, sideEffects: false })}\n`);
  const options = ["-p", "tsconfig.build.json", "--module", module, "--outDir", folder];
  execFileSync(process.execPath, [compiler, ...options], { cwd: here, stdio: "inherit" });
  rewriteTypes(folder);
}
