/** Words that are longer than the page is wide: they are broken or shortened, never cut off at the edge. */

import { expect, test } from "vitest";
import { ask } from "../support/fake_interactions.ts";
import type { FakeSession } from "../support/fake_session.ts";
import { open, useWorld } from "./page_fixture.ts";

const world = useWorld();

const WORD = "W".repeat(200);

/** Every kind of Part with such a word wherever it shows one. */
function everything(session: FakeSession): void {
  session.setTitle(WORD);
  session.prompt("p", [
    { type: "text", text: WORD },
    { type: "file", url: "data:text/plain,x", media_type: "text/plain", filename: WORD },
  ]);
  const { message_id } = session.open();
  const add = (fields: object): unknown => session.addPart(message_id, fields);
  const call = { type: "tool", step_id: "st1", tool_name: WORD, input: { [WORD]: WORD } };
  const about = { type: "interaction", revision: 1 };
  const questions = [
    { question_id: "q1", question: WORD, options: [{ value: "a", label: WORD }] },
    { question_id: "q2", question: WORD },
  ];
  for (const state of ["running", "completed", "failed"]) {
    add({ type: "action", state, title: `Renamed to ${WORD}`, description: WORD });
  }
  add({ type: "source", url: "https://example.com", title: WORD });
  add({ type: "context", tag: WORD, context: WORD });
  add({ type: "data", data_type: WORD, data: { [WORD]: WORD } });
  add({ ...call, tool_call_id: "c0", state: "failed", error: WORD });
  ask(session, message_id, "c1", { [WORD]: WORD });
  add({
    ...about,
    interaction_type: "question",
    interaction_id: "i2",
    tool_call_id: "c2",
    status: "pending",
    request: { questions },
  });
  add({
    ...about,
    interaction_type: "approval",
    interaction_id: "i3",
    tool_call_id: "c3",
    status: "denied",
    resolved_by: WORD,
    request: { tool_name: WORD, input: {} },
    response: { decision: "denied", reason: WORD },
  });
  session.close([{ type: "error", scope: "turn", code: "internal", message: WORD, recoverable: true }]);
}

test.each([390, 1_000])("on a page %s px wide no word is cut off", async (width) => {
  await world.page.setViewportSize({ width, height: 700 });
  await open(world, everything);
  await world.page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
  const cutOff = await world.page.evaluate(() => {
    const found: string[] = [];
    const main = document.querySelector(".main") as HTMLElement;
    const edge = (document.querySelector(".messages") as HTMLElement).getBoundingClientRect().right;
    const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const range = document.createRange();
      range.selectNodeContents(texts.currentNode);
      const parent = texts.currentNode.parentElement as HTMLElement;
      let box: HTMLElement | null = parent;
      // What scrolls, or is shortened with an ellipsis, may be wider than what is seen of it.
      const holds = (each: HTMLElement): boolean =>
        each.matches(".group, .scroller, .main") === false && getComputedStyle(each).overflowX !== "visible";
      while (box && box !== main && !holds(box)) box = box.parentElement;
      const right = (box && box !== main ? box : range).getBoundingClientRect().right;
      if (right > edge + 1 && main.querySelector(".messages")?.contains(parent)) {
        found.push(
          `${parent.closest("[data-part-id]")?.className ?? ""} ${parent.tagName}.${parent.className}`,
        );
      }
    }
    return found;
  });
  expect(cutOff).toEqual([]);
  expect(world.faults).toEqual([]);
});
