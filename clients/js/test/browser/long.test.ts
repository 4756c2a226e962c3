/** Long conversations and fast answers: what the page does is proved, how smoothly is printed (Z2, Z5, Z6). */

import { expect, test } from "vitest";
import type { FakeSession } from "../support/fake_session.ts";
import {
  AGENT,
  answer,
  open,
  report,
  SCROLLER,
  startCounting,
  takeCounts,
  useWorld,
} from "./page_fixture.ts";

const world = useWorld();

const MESSAGES = 5_000;
const DELTAS_A_SECOND = 200;
const SECONDS = 5;
const PATIENCE_MS = 240_000;

function history(session: FakeSession): void {
  for (let index = 1; index <= MESSAGES / 2; index += 1) {
    session.prompt(`p${index}`, [{ type: "text", text: `question ${index}` }]);
    const { append, finish } = answer(session);
    append(
      `Answer *${index}*\n\n${"A line of some length, as answers have it. ".repeat(index % 9)}\n\n- one\n- two`,
    );
    finish();
  }
}

test(
  `M3 ${MESSAGES} Messages are loaded and scrolled through, and a stream into the last changes no other`,
  async () => {
    const session = await open(world, history);
    const { page } = world;
    await startCounting(page);
    await page.evaluate(async (selector) => {
      const box = document.querySelector(selector);
      const frame = (): Promise<unknown> => new Promise((resolve) => void requestAnimationFrame(resolve));
      while (box && document.querySelector(".older")) {
        box.scrollTop = 0;
        await frame();
      }
    }, SCROLLER);
    expect(await page.locator("[data-message-id]").count()).toBe(MESSAGES);
    report(`loading ${MESSAGES} Messages`, await takeCounts(page));

    await page.evaluate(async (selector) => {
      const box = document.querySelector(selector);
      const frame = (): Promise<unknown> => new Promise((resolve) => void requestAnimationFrame(resolve));
      for (let step = 0; box && step < 240; step += 1) {
        box.scrollTop += step % 60 === 59 ? box.scrollHeight / 5 : 120;
        await frame();
      }
    }, SCROLLER);
    const scrolled = await takeCounts(page);
    report("scrolling through them", scrolled);

    await page.click(".to-end");
    const { append, finish } = answer(session);
    let text = "";
    // What is drawn again besides the Message that grows: nothing, or each delta would cost as much as there are.
    await page.waitForSelector(`${AGENT}[data-state="streaming"]`, { state: "attached" });
    await page.evaluate(() => {
      const others = [...document.querySelectorAll("[data-message-id]")].slice(0, -1);
      const drawn: string[] = [];
      const watcher = new MutationObserver((records) => {
        for (const { target, type } of records) {
          const other = others.find((element) => element.contains(target));
          if (other) drawn.push(`${type} in ${other.getAttribute("data-message-id")}`);
        }
      });
      const options = { subtree: true, childList: true, characterData: true, attributes: true };
      for (const element of others) watcher.observe(element, options);
      Object.assign(window, { drawn });
    });
    await takeCounts(page);
    // The pace is what is tested, so here the clock decides.
    await new Promise<void>((resolve) => {
      let sent = 0;
      const timer = setInterval(() => {
        const piece = sent % 40 === 39 ? `word${sent}.\n\n` : `word${sent} and *more* `;
        append(piece);
        text += piece;
        sent += 1;
        if (sent < DELTAS_A_SECOND * SECONDS) return;
        clearInterval(timer);
        resolve();
      }, 1_000 / DELTAS_A_SECOND);
    });
    const streamed = await takeCounts(page);
    finish();
    await page.waitForSelector(".button.stop", { state: "detached" });
    report(`${DELTAS_A_SECOND} deltas/s into ${MESSAGES} Messages`, streamed);
    const last = page.locator(`${AGENT} [data-part-id]`).last();
    expect(await last.evaluate((element) => (element as { turnwireText?: string }).turnwireText)).toBe(text);
    expect(await page.evaluate("drawn")).toEqual([]);
    expect(world.faults).toEqual([]);
  },
  PATIENCE_MS,
);
