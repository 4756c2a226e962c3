/** What people do with the page that no test of a happy path does: double clicks, input methods, spreadsheets, old data. */

import { describe, expect, test } from "vitest";
import { ask } from "../support/fake_interactions.ts";
import type { FakeSession } from "../support/fake_session.ts";
import { AGENT, answer, open, useWorld } from "./page_fixture.ts";

const world = useWorld();

const MENU = ".bar .menu > button";

const failing = (session: FakeSession): void => {
  answer(session).append("half an answer");
  session.close([
    { type: "error", scope: "turn", code: "overloaded", message: "Too busy.", recoverable: true },
  ]);
  session.finish("failed");
};
const asking = (session: FakeSession): void => {
  session.prompt("p", [{ type: "text", text: "write" }]);
  ask(session, session.open().message_id, "c1", { path: "a.txt" });
};
/** Opens the menu of the Session; the dialog that is meant, too. */
const menu = async (entry?: string): Promise<void> => {
  await world.page.click(MENU);
  if (entry !== undefined) await world.page.click(`.menu-items >> text=${entry}`);
};

describe("whatever sends a command", () => {
  test.each([
    ["Try again", "prompt", failing, undefined, ".notice-actions button"],
    ["Send", "prompt", failing, () => world.page.fill("textarea", "words"), ".composer [type=submit]"],
    ["Fork", "session.fork", failing, undefined, `${AGENT} [aria-label^="Fork"]`],
    ["Stop", "stop", asking, undefined, ".button.stop"],
    ["Approve", "interaction.respond", asking, undefined, ".approval .primary"],
    ["Deny", "interaction.respond", asking, undefined, ".approval [type=submit]"],
    ["Rename", "session.update", failing, () => menu("Rename"), "dialog [type=submit]"],
    ["Delete", "session.delete", failing, () => menu("Delete"), "dialog [type=submit]"],
    ["Archive", "session.archive", failing, menu, ".menu-items button:nth-of-type(3)"],
    ["Run tools without asking", "session.update", failing, menu, ".menu-items button:nth-of-type(2)"],
  ])("%s sends one %s, however often it is pressed", async (_, op, prepare, reach, selector) => {
    await open(world, (session) => {
      session.setTitle("a title");
      prepare(session);
    });
    await reach?.();
    const before = world.server.fake.asked(op).length;
    await world.page.$eval<void, HTMLElement>(selector, (button) => {
      for (let left = 3; left > 0; left -= 1) button.click();
    });
    // The first answer sends the next command of its lane, so that comes before the second question.
    for (const _ of [1, 2]) await world.page.evaluate(() => window.turnwire.request("ping", {}));
    expect(world.server.fake.asked(op)).toHaveLength(before + 1);
    expect(world.faults).toEqual([]);
  });
});

describe("input methods", () => {
  // WebKit ends the composition before the key that picked the word, and says so by its code only.
  test.each([
    { isComposing: true, keyCode: 13 },
    { isComposing: false, keyCode: 229 },
  ])("a key that belongs to one neither sends nor stops: %o", async (how) => {
    await open(world, asking);
    await world.page.fill("textarea", "にほん");
    const prevented = await world.page.$eval(
      "textarea",
      (field, fields) =>
        ["Enter", "Escape"].map(
          (key) =>
            !field.dispatchEvent(
              new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...fields }),
            ),
        ),
      how,
    );
    expect(prevented).toEqual([false, false]);
    for (const _ of [1, 2]) await world.page.evaluate(() => window.turnwire.request("ping", {}));
    expect(world.server.fake.asked("prompt")).toEqual([]);
    expect(world.server.fake.asked("stop")).toEqual([]);
    expect(await world.page.inputValue("textarea")).toBe("にほん");
  });
});

describe("pasting", () => {
  test.each([
    ["an image alone is attached", "", "image.png", true],
    ["cells of a spreadsheet, with their picture, are pasted as text", "a\tb\n1\t2", "image.png", false],
    ["a file of a file manager, with its name, is attached", "notes.txt", "notes.txt", true],
    [
      "a file of a file manager, with its path, is attached",
      "file:///home/me/notes.txt\n",
      "notes.txt",
      true,
    ],
  ])("%s", async (_, text, name, attached) => {
    await open(world);
    const prevented = await world.page.$eval(
      "textarea",
      (field, [words, filename]) => {
        const clipboardData = new DataTransfer();
        clipboardData.items.add(new File(["x"], filename!, { type: "image/png" }));
        if (words) clipboardData.setData("text/plain", words);
        const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
        return !field.dispatchEvent(event);
      },
      [text, name] as const,
    );
    // What is not prevented the browser does: it pastes the text.
    expect(prevented).toBe(attached);
    if (attached) await world.page.waitForSelector(".attachments li");
    else expect(await world.page.locator(".attachments li").count()).toBe(0);
  });
});

describe("what is kept in the browser", () => {
  const KEYS = ["turnwire.seen", "turnwire.drafts.1", "turnwire.unsent.1", "turnwire.delivery"];
  test.each(["{", "null", "{}", "[1]", "[null]", '[["s1"]]', '[["s1",null]]', '[{"op":"prompt"}]'])(
    "when it is broken the page starts without it: %s",
    async (text) => {
      await world.page.addInitScript(
        ({ keys, value }) => {
          for (const key of keys)
            for (const store of [localStorage, sessionStorage]) store.setItem(key, value);
        },
        { keys: KEYS, value: text },
      );
      await world.page.goto(world.server.url);
      await world.page.waitForSelector('[data-connection="connected"]');
      await world.page.waitForSelector("textarea");
      expect(world.faults).toEqual([]);
      const kept = await world.page.evaluate(() => [
        localStorage.getItem("turnwire.seen"),
        sessionStorage.getItem("turnwire.drafts.1"),
        sessionStorage.getItem("turnwire.unsent.1"),
      ]);
      // A page that lists Sessions reads all three.
      expect(kept).toEqual([null, null, null]);
    },
  );
});
