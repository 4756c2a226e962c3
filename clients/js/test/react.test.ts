// @vitest-environment happy-dom
/** The hooks in a real React, with renders counted. */

import { act, createElement, memo, type ReactNode, StrictMode } from "react";
import { createRoot, type Root } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { afterEach, expect, test } from "vitest";
import type { Client, SessionHandle } from "../src/index.ts";
import { useConnection, useMessage, useMessageIds, useSession } from "../src/react.ts";
import type { FakeSession } from "./support/fake_session.ts";
import { Wire } from "./support/wire.ts";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

interface Setup {
  readonly wire: Wire;
  readonly client: Client;
  readonly fake: FakeSession;
  readonly session: SessionHandle;
  readonly renders: Map<string, number>;
  readonly advance: (ms: number) => Promise<void>;
  readonly show: (node: ReactNode) => Promise<HTMLElement>;
}

let root: Root | undefined;
afterEach(() => act(() => root?.unmount()));

function setup(): Setup {
  const wire = new Wire();
  const client = wire.client();
  const fake = wire.server.create("s1");
  const advance = (ms: number): Promise<void> => act(() => wire.clock.advance(ms));
  const show = async (node: ReactNode): Promise<HTMLElement> => {
    const element = document.createElement("div");
    root = createRoot(element);
    await act(() => root?.render(node));
    await advance(100);
    return element;
  };
  return { wire, client, fake, session: client.session("s1"), renders: new Map(), advance, show };
}

function components({ client, session, renders }: Setup) {
  const count = (name: string): void => void renders.set(name, (renders.get(name) ?? 0) + 1);
  const One = memo(function One({ message_id }: { message_id: string }) {
    count(message_id);
    const message = useMessage(session, message_id);
    return createElement(
      "p",
      {},
      message?.parts.map((part) => (part.type === "text" ? part.text : "")).join(""),
    );
  });
  function List() {
    count("list");
    return useMessageIds(session).map((id) => createElement(One, { key: id, message_id: id }));
  }
  function Head() {
    count("head");
    return createElement(
      "h1",
      {},
      useSession(session, (state) => state.session?.title ?? "untitled"),
    );
  }
  function Status() {
    count("status");
    return createElement("i", {}, useConnection(client).status);
  }
  return createElement("main", {}, createElement(Status), createElement(Head), createElement(List));
}

test("Z6 a token renders its own Message again, and nothing else", async () => {
  const all = setup();
  const { client, fake, renders, advance, show } = all;
  for (let turn = 0; turn < 20; turn += 1) {
    fake.prompt(`p${turn}`, [{ type: "text", text: `question ${turn}` }]);
    fake.open();
    fake.close();
    fake.finish();
  }
  client.connect();
  const element = await show(components(all));
  fake.prompt("p", [{ type: "text", text: "go" }]);
  const { message_id, parts } = fake.open();
  await advance(100);
  expect(element.querySelectorAll("p")).toHaveLength(42);
  renders.clear();
  const TOKENS = 200;
  for (let token = 0; token < TOKENS; token += 1) {
    fake.append(message_id, parts[0]!.part_id, `${token} `);
    await advance(5);
  }
  await advance(100);
  const counted = Object.fromEntries(renders);
  console.log(`${TOKENS} tokens in ${TOKENS * 5} ms, 42 messages: ${JSON.stringify(counted)} renders`);
  expect(Object.keys(counted)).toEqual([message_id]);
  expect(counted[message_id]).toBeLessThanOrEqual(TOKENS / 3);
  expect(element.querySelector("p:last-child")?.textContent).toMatch(/^0 1 2 .* 199 $/);
});

test("a change of the title renders what shows it, and the connection what shows that", async () => {
  const all = setup();
  const { wire, client, fake, renders, advance, show } = all;
  client.connect();
  const element = await show(components(all));
  expect(element.textContent).toBe("connecteduntitled");
  renders.clear();
  fake.setTitle("named");
  await advance(100);
  expect(Object.fromEntries(renders)).toEqual({ head: 1 });
  renders.clear();
  wire.socket.drop(1006);
  await advance(100);
  expect(Object.fromEntries(renders)).toEqual({ status: 1 });
  expect(element.textContent).toBe("reconnectingnamed");
});

test("W4 a Session is live while a component shows it, also when React mounts everything twice", async () => {
  const all = setup();
  const { wire, client, fake, advance, show } = all;
  client.connect();
  await show(createElement(StrictMode, {}, components(all)));
  expect(fake.subscribers.size).toBe(1);
  expect(wire.server.asked("subscribe")).toHaveLength(1);
  expect(wire.server.asked("unsubscribe")).toHaveLength(0);
  await act(() => root?.unmount());
  await advance(100);
  expect(fake.subscribers.size).toBe(0);
});

test("a selection that is equal is not rendered again", async () => {
  const { client, fake, session, advance, show } = setup();
  let renders = 0;
  function Total() {
    renders += 1;
    const { total } = useSession(
      session,
      (state) => ({ total: state.total }),
      (a, b) => a.total === b.total,
    );
    return createElement("b", {}, total);
  }
  client.connect();
  const element = await show(createElement(Total));
  const before = renders;
  fake.setTitle("a");
  await advance(100);
  fake.setTitle("b");
  await advance(100);
  expect(renders).toBe(before);
  fake.prompt("p", [{ type: "text", text: "go" }]);
  await advance(100);
  expect(element.textContent).toBe("1");
});

test("a page can be rendered where there is no connection", () => {
  const all = setup();
  expect(renderToString(components(all))).toContain("untitled");
});
