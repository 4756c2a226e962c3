/** What browser tests of the page share: one Chromium, a fresh page with FakeServer behind it, and an agent that answers. */

import { type Browser, type CDPSession, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import type { FakeSession } from "../support/fake_session.ts";
import { type PageServer, servePage } from "./page_server.ts";

export const CHROMIUM_FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export const AGENT = '[data-role="agent"]';
export const SCROLLER = ".scroller";
export interface World {
  browser: Browser;
  server: PageServer;
  page: Page;
  /** What the page has thrown or logged as an error. */
  faults: string[];
  /** Every address that was asked for. */
  asked: string[];
}

/** Registers the hooks of a file; the fields are those of the running test. */
export function useWorld(): World {
  const world = {} as World;
  beforeAll(async () => {
    const executablePath = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
    world.browser = await chromium.launch({ executablePath, args: CHROMIUM_FLAGS });
  });
  afterAll(() => world.browser.close());
  beforeEach(async () => {
    world.server = await servePage();
    world.faults = [];
    world.asked = [];
    world.page = await world.browser.newPage({ viewport: { width: 1000, height: 700 } });
    world.page.on("pageerror", (error) => world.faults.push(error.message));
    world.page.on("console", (message) => message.type() === "error" && world.faults.push(message.text()));
    world.page.on("dialog", (dialog) => world.faults.push(dialog.message()));
    world.page.on("request", (request) => world.asked.push(request.url()));
  });
  afterEach(async () => {
    await world.page.close();
    await world.server.close();
  });
  return world;
}

/** Opens the page on a Session that answers as `prepare` says. */
export async function open(
  { server, page }: World,
  prepare: (session: FakeSession) => void = () => {},
): Promise<FakeSession> {
  const session = server.fake.create("s1");
  prepare(session);
  await page.goto(`${server.url}#/s/s1`);
  await page.waitForSelector('.messages[data-status="live"]');
  return session;
}

/** An answer of an agent that streams. */
export function answer(session: FakeSession): { append: (text: string) => void; finish: () => void } {
  if (!session.turn) session.prompt(`c${session.seq}`, [{ type: "text", text: "go" }]);
  const { message_id, parts } = session.open();
  return {
    append: (text) => session.append(message_id, parts[0]!.part_id, text),
    finish: () => {
      session.close();
      session.finish();
    },
  };
}

const metering = new WeakMap<Page, { cdp: CDPSession; cpu: number }>();

/** Seconds of processor time that the page's main thread has had, which a busy machine does not change much. */
async function cpuOf(cdp: CDPSession): Promise<number> {
  const { metrics } = await cdp.send("Performance.getMetrics");
  return metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0;
}

/** Counts, in the page, long tasks and frames from now on. */
export async function startCounting(page: Page): Promise<void> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  metering.set(page, { cdp, cpu: await cpuOf(cdp) });
  await page.evaluate(() => {
    const counted = { tasks: [] as number[], gaps: [] as number[] };
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) counted.tasks.push(entry.duration);
    }).observe({ type: "longtask" });
    let last = performance.now();
    const tick = (now: number): void => {
      counted.gaps.push(now - last);
      last = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
    Object.assign(window, { counted });
  });
}

export interface Counted {
  readonly tasks: readonly number[];
  readonly gaps: readonly number[];
  /** Seconds of the main thread. */
  readonly cpu: number;
}

/** What was counted since the start, or since the last call. */
export async function takeCounts(page: Page): Promise<Counted> {
  const taken = (await page.evaluate(
    "(() => { const { tasks, gaps } = counted; counted.tasks = []; counted.gaps = []; return { tasks, gaps }; })()",
  )) as Omit<Counted, "cpu">;
  const meter = metering.get(page);
  if (!meter) throw new Error("startCounting comes first");
  const before = meter.cpu;
  meter.cpu = await cpuOf(meter.cdp);
  return { ...taken, cpu: meter.cpu - before };
}

export function report(what: string, { tasks, gaps, cpu }: Counted): void {
  const total = gaps.reduce((sum, gap) => sum + gap, 0);
  const worst = Math.max(0, ...tasks);
  const slow = gaps.filter((gap) => gap > 50).length;
  console.log(
    `${what}: ${tasks.length} long tasks, the longest ${worst.toFixed(0)} ms; ${gaps.length} frames in ` +
      `${(total / 1000).toFixed(1)} s, ${slow} of them later than 50 ms; ${cpu.toFixed(1)} s of processor time`,
  );
}
