// Drives headless Chromium for the Python tests: one JSON command a line on stdin, one JSON answer a line on stdout.
// Commands name a tab; what a command does is said at its entry in `commands`. Nothing here waits by the clock.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [packageJson, executablePath, patienceMs] = process.argv.slice(2);
const require = createRequire(packageJson);
const { chromium } = require("playwright-core");

// What comes soon is seen soon, and what is waited for for seconds does not cost their CPU.
const FIRST_POLL_MS = 10;
const LONGEST_POLL_MS = 60;
const POLL_GROWTH = 1.3;

const browser = await chromium.launch({
  executablePath,
  headless: true,
  // Pages come back from the back/forward cache as they do for people.
  ignoreDefaultArgs: ["--disable-back-forward-cache"],
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // Tabs that are not in front go on as if they were.
    "--disable-backgrounding-occluded-windows",
  ],
});
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const running = new Set();
const tabs = new Map();
const sessions = new Map();
const faults = [];
let shared;

const commands = {
  // Opens a tab at `url`; `options` as for a new context of its own (colorScheme, viewport), else all tabs share one.
  async open({ tab, url, options }) {
    shared ??= newContext();
    const page = await (await (options ? newContext(options) : shared)).newPage();
    page.on("pageerror", (error) => faults.push(`${tab}: ${error.message}`));
    page.on("console", (message) => {
      if (message.type() === "error") faults.push(`${tab}: ${message.text()}`);
    });
    // Whoever reloads a page with something unsent is asked, and says yes.
    page.on("dialog", (dialog) => dialog.accept());
    tabs.set(tab, page);
    await page.goto(url);
  },
  // The value of a JavaScript expression in the page.
  evaluate: ({ tab, expression }) => tabs.get(tab).evaluate(expression),
  // Resolves when the expression is true in the page. Playwright's own waitForFunction evaluates inside the page, which
  // the page's CSP forbids; this asks from outside.
  async wait({ tab, expression }) {
    const deadline = Date.now() + Number(patienceMs);
    let pause = FIRST_POLL_MS;
    while (!(await tabs.get(tab).evaluate(expression).catch(unlessReloaded))) {
      if (Date.now() > deadline) throw new Error(`never became true: ${expression}`);
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * POLL_GROWTH, LONGEST_POLL_MS);
    }
  },
  fill: ({ tab, selector, text }) => tabs.get(tab).fill(selector, text),
  async click({ tab, selector }) {
    // As a person who clicks: a tab behind another one draws once a second, and what stands still is known by drawing.
    await tabs.get(tab).bringToFront();
    await tabs.get(tab).click(selector);
  },
  press: ({ tab, selector, key }) => tabs.get(tab).press(selector, key),
  async reload({ tab }) {
    await tabs.get(tab).reload();
  },
  async screenshot({ tab, path }) {
    await tabs.get(tab).screenshot({ path });
  },
  // Takes the tab's whole profile off the network, or puts it back.
  offline: ({ tab, offline }) => tabs.get(tab).context().setOffline(offline),
  // One request of the Chrome DevTools Protocol to the tab; what it sets stays for as long as the tab does.
  async cdp({ tab, method, params }) {
    const page = tabs.get(tab);
    if (!sessions.has(page)) sessions.set(page, await page.context().newCDPSession(page));
    return sessions.get(page).send(method, params);
  },
  async goto({ tab, url }) {
    await tabs.get(tab).goto(url);
  },
  async back({ tab }) {
    // A page from the cache is not loaded again: there is no load to wait for.
    await tabs.get(tab).goBack({ waitUntil: "commit" });
  },
  // What axe-core finds: the id of each rule that is broken, how bad that is, and where.
  async axe({ tab }) {
    const page = tabs.get(tab);
    await page.evaluate(axeSource);
    return page.evaluate(`axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
      violations.map(({ id, impact, nodes }) => ({ id, impact, where: nodes.map(({ html }) => html) })))`);
  },
  async close({ tab }) {
    await tabs.get(tab).close();
    tabs.delete(tab);
  },
  // Errors that pages threw or logged so far.
  faults: async () => [...faults],
};

console.log(JSON.stringify({ ready: true }));
for await (const line of createInterface({ input: process.stdin })) {
  const { id, command, ...fields } = JSON.parse(line);
  const work = answer(id, command === "reset" ? reset() : commands[command](fields));
  running.add(work);
  work.then(() => running.delete(work));
}
await browser.close();

// Closes every tab and forgets what was in it; answered when all other commands have their answers.
async function reset() {
  const others = [...running];
  shared = undefined;
  await Promise.all(browser.contexts().map((context) => context.close()));
  await Promise.all(others);
  tabs.clear();
  sessions.clear();
  faults.length = 0;
}

// No command in it waits longer than the tests do.
async function newContext(options) {
  const made = await browser.newContext(options);
  made.setDefaultTimeout(Number(patienceMs));
  return made;
}

// A page that loads anew in the middle of a question has not answered it.
function unlessReloaded(error) {
  if (!String(error).includes("Execution context was destroyed")) throw error;
}

// Answers come when they are ready, not in the order of the commands: tabs work side by side.
async function answer(id, work) {
  try {
    console.log(JSON.stringify({ id, value: (await work) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ id, error: String(error) }));
  }
}
