/** The built page in Chromium, with FakeServer behind it. What is waited for is always a sign on the page. */

import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { NO_FRAME_MS } from "../../src/environment.ts";
import type { Client } from "../../src/index.ts";
import { RequestRefused } from "../support/fake_server.ts";
import type { FakeSession } from "../support/fake_session.ts";
import { AGENT, answer, open as openIn, SCROLLER, useWorld } from "./page_fixture.ts";

const world = useWorld();

const open = (prepare?: (session: FakeSession) => void): Promise<FakeSession> => openIn(world, prepare);

const exactText = (selector: string): Promise<string | undefined> =>
  world.page.$eval(
    `${selector} [data-part-id]`,
    (element) => (element as { turnwireText?: string }).turnwireText,
  );

describe("prompting", () => {
  test("T1 the first prompt makes a Session, and its answer streams in", async () => {
    world.server.fake.onPrompt = (session) => answer(session).append("Hello *there*");
    await world.page.goto(world.server.url);
    await world.page.fill("textarea", "one");
    await world.page.press("textarea", "Shift+Enter");
    await world.page.keyboard.type("two");
    await world.page.press("textarea", "Enter");
    await world.page.waitForSelector(`${AGENT}[data-state="streaming"] em`);
    const [created] = world.server.fake.asked("session.create");
    expect(world.page.url()).toBe(`${world.server.url}#/s/${created?.["session_id"]}`);
    expect(await exactText('[data-role="user"]')).toBe("one\ntwo");
    expect(await exactText(AGENT)).toBe("Hello *there*");
    expect(await world.page.inputValue("textarea")).toBe("");
    expect(world.faults).toEqual([]);
  });

  test("T3 Escape stops the running Turn, and the reason stands as a notice", async () => {
    const session = await open();
    answer(session).append("endless");
    await world.page.waitForSelector(".button.stop");
    await world.page.press("textarea", "Escape");
    await world.page.waitForSelector('.notice[data-code="stopped"]');
    await world.page.waitForSelector(".button.stop", { state: "detached" });
  });

  test("Q3 what is written offline is shown as unsent, and goes out once when the server is back", async () => {
    const session = await open();
    world.server.fake.intercept = () => "drop";
    for (const connection of world.server.fake.connections) connection.close(1012);
    await world.page.waitForSelector('[data-connection="reconnecting"]');
    await world.page.fill("textarea", "are you there?");
    await world.page.press("textarea", "Enter");
    await world.page.waitForSelector('[data-unsent="waiting"]');
    await world.page.waitForSelector("text=1 unsent");
    world.server.fake.intercept = () => {};
    for (const connection of world.server.fake.connections) connection.close(1012);
    await world.page.waitForSelector('[data-role="user"][data-message-id]');
    await world.page.waitForSelector("[data-unsent]", { state: "detached" });
    expect(session.messages).toHaveLength(1);
  });

  test("R9 what a socket that was given up still says changes nothing", async () => {
    await world.page.addInitScript(`
      window.sockets = [];
      window.WebSocket = class extends WebSocket {
        constructor(...given) {
          super(...given);
          sockets.push(this);
        }
      };
    `);
    const session = await open();
    await world.page.evaluate(
      "window.old = sockets[0]; window.late = { onclose: old.onclose, onmessage: old.onmessage }",
    );
    for (const connection of world.server.fake.connections) connection.close(1012);
    await world.page.waitForFunction(
      () => (window as unknown as { sockets: WebSocket[] }).sockets.length === 2,
    );
    await world.page.waitForSelector('[data-connection="connected"]');
    await world.page.evaluate(`
      late.onclose.call(old, new CloseEvent("close", { code: 4403, reason: "late" }));
      late.onmessage.call(old, new MessageEvent("message", { data: "not even JSON" }));
    `);
    session.prompt("elsewhere", [{ type: "text", text: "still there" }]);
    await world.page.waitForSelector('[data-role="user"]');
    expect(await world.page.isVisible('[data-connection="connected"]')).toBe(true);
    expect(await world.page.evaluate("sockets.length")).toBe(2);
    expect(world.faults).toEqual([]);
  });

  test("W8 a server that is about to restart is told, and so is what waits until then", async () => {
    await open();
    await world.page.waitForSelector('[data-connection="connected"]');
    for (const connection of world.server.fake.connections)
      connection.send({ op: "draining", retry_after_ms: 500 });
    await world.page.waitForSelector('[data-connection="draining"]');
    world.server.fake.intercept = ({ op }) => {
      if (op === "prompt") throw new RequestRefused("draining", true);
    };
    await world.page.fill("textarea", "after the restart");
    await world.page.press("textarea", "Enter");
    await world.page.waitForSelector("text=Waits until the server has restarted");
    await world.page.waitForSelector('[data-connection="draining"] >> text=1 unsent');
    world.server.fake.intercept = () => {};
    for (const connection of world.server.fake.connections) connection.close(1012);
    await world.page.waitForSelector('[data-connection="connected"]');
    await world.page.waitForSelector('[data-role="user"][data-message-id]');
  });

  test("Q4 a refused prompt keeps its text until the user has decided", async () => {
    await open();
    world.server.fake.max_request = 100;
    world.server.fake.intercept = () => "drop"; // so that the page is seen without a connection, however quick it is
    for (const connection of world.server.fake.connections) connection.close(1012);
    await world.page.waitForSelector('[data-connection="reconnecting"]');
    world.server.fake.intercept = () => {};
    for (const connection of world.server.fake.connections) connection.close(1012);
    await world.page.waitForSelector('[data-connection="connected"]');
    const text = "x".repeat(200);
    await world.page.fill("textarea", text);
    await world.page.press("textarea", "Enter");
    await world.page.click("text=Edit again");
    expect(await world.page.inputValue("textarea")).toBe(text);
  });

  test("R6 a server that asks for a token gets one from the form, and the address has none", async () => {
    world.server.fake.token = "secret";
    await world.page.goto(world.server.url);
    await world.page.fill("#token", "secret");
    await world.page.click(".token button");
    await world.page.waitForSelector('[data-connection="connected"]');
    expect(world.page.url()).not.toContain("secret");
  });
});

describe("the keyboard", () => {
  test("the menu of a narrow screen takes the focus, keeps it, and gives it back", async () => {
    await world.page.setViewportSize({ width: 390, height: 700 });
    await open();
    const focused = (selector: string): Promise<unknown> =>
      world.page.waitForFunction((name) => document.activeElement?.matches(name), selector);
    await world.page.locator(".menu-button").focus();
    await world.page.keyboard.press("Enter");
    await focused(".sidebar button");
    await world.page.keyboard.press("Tab");
    await focused(".sidebar input");
    await world.page.keyboard.press("Tab");
    await focused(".sidebar a[aria-current]");
    await world.page.keyboard.press("Escape");
    await focused(".menu-button");
    expect(await world.page.locator(".sidebar").isVisible()).toBe(false);
  });
});

describe("hostile text", () => {
  test("X5 nothing in an answer runs, loads from elsewhere, or breaks the policy", async () => {
    const session = await open();
    const { append, finish } = answer(session);
    append(
      '<script>alert(1)</script> <img src=x onerror="alert(2)">\n\n![pixel](https://tracker.test/p.png)\n\n',
    );
    append(
      "[a](javascript:alert(3)) [b](data:text/html,x) [c](https://example.com) <svg onload=alert(4)>\n\n",
    );
    append(
      '<b style="position:fixed" onclick="alert(5)">x</b> <iframe src="https://tracker.test"></iframe>\n\n',
    );
    append("![ok](data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=)\n\n```<script>\ncode\n```");
    finish();
    await world.page.waitForSelector(`${AGENT}[data-state="done"] pre`);
    const links = await world.page.$$eval<unknown[], HTMLAnchorElement>(`${AGENT} a`, (all) =>
      all.map((link) => [link.textContent, link.getAttribute("href"), link.rel, link.target]),
    );
    expect(links).toEqual([
      ["Image: pixel", "https://tracker.test/p.png", "noopener noreferrer", "_blank"],
      ["a", null, "", ""],
      ["b", null, "", ""],
      ["c", "https://example.com", "noopener noreferrer", "_blank"],
    ]);
    expect(
      await world.page
        .locator(`${AGENT} img`)
        .evaluateAll((all) => all.map((image) => image.getAttribute("alt"))),
    ).toEqual(["ok"]);
    expect(
      await world.page.locator(`${AGENT} .markdown :is(script, iframe, svg, [style], [onclick])`).count(),
    ).toBe(0);
    expect(
      world.asked.filter((url) => !url.startsWith(world.server.url) && !url.startsWith("data:")),
    ).toEqual([]);
    expect(world.faults).toEqual([]);
  });
});

test("X5 a WebSocket leads to the page's own host only", async () => {
  await open();
  const blocked = await world.page.evaluate(
    () =>
      new Promise((resolve) => {
        addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
        new WebSocket("ws://tracker.test/").onopen = resolve;
      }),
  );
  expect(blocked).toBe("connect-src");
});

test("columns of a table stand as the text says", async () => {
  const session = await open();
  const { append, finish } = answer(session);
  append("| a | b | c |\n|---|--:|:-:|\n| 1 | 2 | 3 |\n");
  finish();
  await world.page.waitForSelector(`${AGENT}[data-state="done"] td`);
  const aligned = await world.page.$$eval(`${AGENT} :is(th, td)`, (cells) =>
    cells.map((cell) => getComputedStyle(cell).textAlign.replace("-webkit-", "")),
  );
  expect(aligned).toEqual(["left", "right", "center", "left", "right", "center"]);
});

describe("scrolling", () => {
  const history = (session: FakeSession): void => {
    for (let index = 1; index <= 130; index += 1) {
      session.prompt(`p${index}`, [
        { type: "text", text: `message ${index}\n${"line\n".repeat(index % 4)}` },
      ]);
    }
  };
  const topOf = (message_id: string): Promise<number> =>
    world.page.$eval(`[data-message-id="${message_id}"]`, (element) => element.getBoundingClientRect().top);
  const fromEnd = (): Promise<number> =>
    world.page.$eval(SCROLLER, (box) => box.scrollHeight - box.clientHeight - box.scrollTop);

  test("M3 older Messages come while scrolling up, and what is read stays where it is", async () => {
    await open(history);
    expect(await fromEnd()).toBeLessThan(2);
    expect(await world.page.locator('[data-message-id="s1.m80"]').count()).toBe(0);
    const moved = world.page.waitForSelector('[data-message-id="s1.m40"]', { state: "attached" });
    const before = await world.page.$eval(SCROLLER, (box) => {
      box.scrollTop = 300;
      const seen = box.querySelector('[data-message-id="s1.m88"]');
      return seen?.getBoundingClientRect().top;
    });
    await moved;
    await world.page.evaluate(
      () => new Promise((resolve) => void requestAnimationFrame(() => resolve(null))),
    );
    expect(Math.abs((await topOf("s1.m88")) - (before ?? 0))).toBeLessThan(2);
  });

  test("M3 the whole history can be reached", async () => {
    await open(history);
    for (const message_id of ["s1.m31", "s1.m1"]) {
      await world.page.$eval(SCROLLER, (box) => void (box.scrollTop = 0));
      await world.page.waitForSelector(`[data-message-id="${message_id}"]`, { state: "attached" });
    }
    expect(await world.page.locator("[data-message-id]").count()).toBe(130);
  });

  /** What is seen when everything that was begun has been drawn. */
  const drawn = (): Promise<unknown> =>
    world.page.evaluate(
      () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))),
    );

  test("W4 what shrinks at the end, and grows before the page hears of it, does not lose the end", async () => {
    await open(history);
    expect(await fromEnd()).toBeLessThan(2);
    await world.page.evaluate(async () => {
      const last = document.querySelector(".group:last-of-type .message:last-child") as HTMLElement;
      const frame = (): Promise<unknown> => new Promise((resolve) => void requestAnimationFrame(resolve));
      const painted = (): Promise<unknown> =>
        new Promise((resolve) => {
          const { port1, port2 } = new MessageChannel();
          port1.onmessage = resolve;
          port2.postMessage(undefined);
        });
      last.style.height = "900px";
      await frame();
      await frame();
      last.style.height = "500px";
      await painted();
      last.style.height = "2000px";
    });
    await drawn();
    expect(await fromEnd()).toBeLessThan(2);
    expect(await world.page.locator(".to-end").count()).toBe(0);
  });

  test("W4 writing a long prompt does not lose the end", async () => {
    await open(history);
    await world.page.fill("textarea", "line\n".repeat(9));
    await drawn();
    await world.page.press("textarea", "x");
    await drawn();
    expect(await fromEnd()).toBeLessThan(2);
    expect(await world.page.locator(".to-end").count()).toBe(0);
  });

  test.each(["Home", "PageUp", "ArrowUp", "wheel", "focus"])(
    "W4 %s leads away from the end, also while an answer streams",
    async (how) => {
      const session = await open(history);
      const { append } = answer(session);
      append("line\n\n".repeat(20));
      await world.page.waitForSelector(`${AGENT} .block:nth-child(20)`);
      await drawn();
      const streaming = setInterval(() => append("more\n\n"), 1);
      try {
        await world.page.locator(SCROLLER).focus();
        await world.page.hover(SCROLLER);
        // Once more where a movement was too small.
        while ((await world.page.locator(".to-end").count()) === 0) {
          if (how === "wheel") await world.page.mouse.wheel(0, -300);
          else if (how === "focus")
            await world.page.locator('[data-message-id="s1.m85"] button').first().focus();
          else await world.page.keyboard.press(how);
          await drawn();
        }
      } finally {
        clearInterval(streaming);
      }
      append(`${"more\n\n".repeat(50)}the last\n\n`);
      await world.page.waitForSelector(`${AGENT} >> text=the last`, { state: "attached" });
      await drawn();
      expect(await fromEnd()).toBeGreaterThan(500);
    },
  );

  test("W4 the end is followed unless the user has scrolled away, and one press leads back", async () => {
    const session = await open(history);
    const { append } = answer(session);
    append("first line\n\n");
    await world.page.waitForSelector(`${AGENT} .block`);
    await world.page.waitForFunction(() => {
      const box = document.querySelector(".scroller");
      return box && box.scrollHeight - box.clientHeight - box.scrollTop < 2;
    });
    await world.page.$eval(SCROLLER, (box) => void (box.scrollTop -= 1_500));
    await world.page.waitForSelector(".to-end");
    const before = await world.page.$eval(SCROLLER, (box) => box.scrollTop);
    append("more\n\n".repeat(50));
    await world.page.waitForFunction(
      () => document.querySelectorAll('[data-role="agent"] .block').length > 50,
    );
    expect(await world.page.$eval(SCROLLER, (box) => box.scrollTop)).toBe(before);
    await world.page.click(".to-end");
    await world.page.waitForSelector(".to-end", { state: "detached" });
    expect(await fromEnd()).toBeLessThan(2);
  });
});

test("Z2 2,000 deltas into one Message are told at frame pace, and the text is exact", async () => {
  const session = await open();
  const { append, finish } = answer(session);
  await world.page.evaluate(() => {
    const gaps: number[] = [];
    let last = performance.now();
    const tick = (): void => {
      gaps.push(performance.now() - last);
      last = performance.now();
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
    const { turnwire } = window as unknown as { turnwire: Client };
    const told = { since: last, times: 0 };
    turnwire.session("s1").subscribe(() => void (told.times += 1));
    Object.assign(window, { gaps, told });
  });
  let text = "";
  for (let index = 0; index < 2_000; index += 1) {
    const piece = index % 40 === 39 ? `word${index}.\n\n` : `word${index} and *more* `;
    text += piece;
    append(piece);
    // Lets the socket send, as a model's pace would.
    if (index % 10 === 0) await new Promise((resolve) => void setImmediate(resolve));
  }
  finish();
  await world.page.waitForSelector(`${AGENT}[data-state="done"]`);
  const seen = await world.page.evaluate("[gaps, told.times, performance.now() - told.since]");
  const [gaps, told, elapsed_ms] = seen as [number[], number, number];
  expect(await exactText(AGENT)).toBe(text);
  const worst = Math.max(...gaps.slice(1));
  console.log(
    `2,000 deltas, ${text.length} characters: ${gaps.length} frames, told ${told} times, worst gap ${worst.toFixed(0)} ms`,
  );
  // How smooth that was is reported. Each time that listeners were told has a frame of its own, or a timer that waited
  // for a late one.
  expect(told).toBeGreaterThan(1);
  expect(told).toBeLessThanOrEqual(gaps.length + elapsed_ms / NO_FRAME_MS + 1);
});

test("J5 a second tab that joins in mid-answer shows the same", async () => {
  const session = await open();
  const { append, finish } = answer(session);
  append("# One\n\nhalf ");
  const second = await world.browser.newPage();
  await second.goto(`${world.server.url}#/s/s1`);
  await second.waitForSelector(`${AGENT} h1`);
  append("of it");
  finish();
  for (const tab of [world.page, second]) await tab.waitForSelector(`${AGENT}[data-state="done"]`);
  const html = (tab: Page): Promise<string> =>
    tab.$eval(`${AGENT} .markdown`, (element) => element.innerHTML);
  expect(await html(second)).toBe(await html(world.page));
  await second.close();
});
