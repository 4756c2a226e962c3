/** RealServer: `turnwire serve` as a child process, with a workspace and a store of its own, that can be killed. */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const PYTHON = fileURLToPath(new URL("../../../../.venv/bin/python", import.meta.url));

/** Why there is no server to test with; undefined when there is one. */
export const missingServer = existsSync(PYTHON)
  ? undefined
  : `there is no ${PYTHON}: run \`make install\` for the tests with the real server`;

const START_TIMEOUT_MS = 30_000;

export class RealServer {
  readonly folder = mkdtempSync(join(tmpdir(), "turnwire-js-"));
  readonly workspace = join(this.folder, "workspace");
  #port = 0;
  #child: ChildProcess | undefined;

  readonly #options: readonly string[];

  constructor(options: readonly string[] = []) {
    this.#options = options;
    mkdirSync(this.workspace);
  }

  get url(): string {
    return `ws://127.0.0.1:${this.#port}/ws`;
  }

  /** Starts it, the second time on the same port. */
  async start(): Promise<void> {
    const data = join(this.folder, "turnwire.db");
    const options = [
      "--port",
      `${this.#port}`,
      "--data",
      data,
      "--workspace",
      this.workspace,
      ...this.#options,
    ];
    const child = spawn(PYTHON, ["-m", "turnwire", "serve", ...options, "--grace-seconds", "1"]);
    this.#child = child;
    let said = "";
    await new Promise<void>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`no server in time: ${said}`)), START_TIMEOUT_MS);
      const hear = (chunk: Buffer): void => {
        said += String(chunk);
        const port = /listening on http:\/\/[^:]+:(\d+)/.exec(said)?.[1];
        if (port === undefined) return;
        this.#port = Number(port);
        clearTimeout(late);
        resolve();
      };
      child.stdout.on("data", hear);
      child.stderr.on("data", hear);
      child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    });
  }

  /** Ends it with `signal`, and waits until it is gone. */
  async end(signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill(signal);
    await gone;
  }

  async remove(): Promise<void> {
    await this.end();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
