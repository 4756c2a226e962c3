/** The AI SDK's own chat on Turnwire's transport, against FakeServer, on virtual time. */

import { lastAssistantMessageIsCompleteWithApprovalResponses, type UIMessage } from "ai";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createChatTransport, toUIMessages } from "../src/ai-sdk/index.ts";
import type { Client } from "../src/index.ts";
import { TestChat } from "./support/chat.ts";
import { ask } from "./support/fake_interactions.ts";
import type { FakeSession } from "./support/fake_session.ts";
import { Wire } from "./support/wire.ts";

interface Setup {
  readonly wire: Wire;
  readonly client: Client;
  readonly fake: FakeSession;
  readonly chat: TestChat;
}

async function setup(init: Partial<ConstructorParameters<typeof TestChat>[0]> = {}): Promise<Setup> {
  const wire = new Wire();
  const client = wire.client();
  const fake = wire.server.create("s1");
  client.connect();
  await wire.clock.advance(100);
  const chat = new TestChat({ id: "s1", transport: createChatTransport({ client }), ...init });
  return { wire, client, fake, chat };
}

const shown = (message: UIMessage | undefined) => JSON.parse(JSON.stringify(message?.parts)) as unknown[];
const textOf = (chat: TestChat): string =>
  chat.lastMessage!.parts.map((part) => (part.type === "text" ? part.text : "")).join("");

test("a prompt is answered: text and reasoning stream, and the end equals the history", async () => {
  const { wire, fake, chat } = await setup();
  void chat.sendMessage({ text: "hello" });
  await wire.clock.advance(100);
  expect(chat.status).toBe("submitted");
  expect(fake.messages[0]?.parts[0]).toMatchObject({ type: "text", text: "hello" });
  const { message_id, parts } = fake.open();
  const thought = fake.addPart(message_id, {
    type: "reasoning",
    text: "",
    state: "streaming",
    step_id: "st1",
  });
  fake.append(message_id, thought.part_id, "hm, ", "reasoning");
  fake.append(message_id, parts[0]!.part_id, "well ");
  await wire.clock.advance(100);
  expect(chat.status).toBe("streaming");
  expect(textOf(chat)).toBe("well ");
  fake.append(message_id, parts[0]!.part_id, "hello");
  fake.append(message_id, thought.part_id, "yes", "reasoning");
  fake.close();
  fake.finish();
  await wire.clock.advance(100);
  expect(chat.status).toBe("ready");
  expect(chat.lastMessage?.id).toBe(message_id);
  expect(shown(chat.lastMessage)).toMatchObject([
    { type: "text", text: "well hello", state: "done" },
    { type: "step-start" },
    { type: "reasoning", text: "hm, yes", state: "done" },
  ]);
  expect(shown(chat.lastMessage)).toMatchObject(toUIMessages(fake.messages)[1]!.parts);
});

test("a chat without a Session gets one with its first message", async () => {
  const { wire, chat, client } = await setup({ id: "brand-new" });
  void chat.sendMessage({ text: "first" });
  await wire.clock.advance(200);
  expect(wire.server.session("brand-new").messages).toHaveLength(1);
  wire.server.session("brand-new").finish();
  await wire.clock.advance(100);
  expect(chat.status).toBe("ready");
  const strict = new TestChat({
    id: "other",
    transport: createChatTransport({ client, createSessions: false }),
  });
  void strict.sendMessage({ text: "first" });
  await wire.clock.advance(200);
  expect(strict.error).toMatchObject({ code: "not_found" });
});

describe("Tools", () => {
  const tool = { type: "tool", tool_call_id: "c1", tool_name: "add", step_id: "st1" };

  test("P4 move through their states, with the input as it streams", async () => {
    const { wire, fake, chat } = await setup();
    void chat.sendMessage({ text: "1+2" });
    await wire.clock.advance(50);
    const { message_id } = fake.open();
    const part = fake.addPart(message_id, { ...tool, state: "input-streaming", input_text: "" });
    if (part.type !== "tool") throw new Error("not a Tool");
    fake.setPart(message_id, { ...part, input_text: '{"a":1' });
    await wire.clock.advance(50);
    expect(chat.lastMessage?.parts.at(-1)).toMatchObject({ state: "input-streaming", input: { a: 1 } });
    fake.setPart(message_id, { ...part, state: "running", input: { a: 1, b: 2 } });
    await wire.clock.advance(50);
    expect(chat.lastMessage?.parts.at(-1)).toMatchObject({ state: "input-available", input: { a: 1, b: 2 } });
    fake.setPart(message_id, { ...part, state: "completed", input: { a: 1, b: 2 }, output: 3 });
    fake.close();
    fake.finish();
    await wire.clock.advance(50);
    expect(chat.lastMessage?.parts.at(-1)).toMatchObject({
      type: "dynamic-tool",
      toolName: "add",
      toolCallId: "c1",
      state: "output-available",
      output: 3,
      providerExecuted: true,
    });
  });

  test("P5 with an input that is no JSON fail, and say why", async () => {
    const { wire, fake, chat } = await setup();
    void chat.sendMessage({ text: "go" });
    await wire.clock.advance(50);
    const { message_id } = fake.open();
    fake.addPart(message_id, { ...tool, state: "failed", input_text: "{oops", error: "not JSON" });
    fake.finish();
    await wire.clock.advance(50);
    expect(chat.lastMessage?.parts.at(-1)).toMatchObject({
      state: "output-error",
      input: "{oops",
      errorText: "not JSON",
    });
  });

  const waiting = async (init = {}): Promise<Setup & { message_id: string }> => {
    const all = await setup(init);
    void all.chat.sendMessage({ text: "write" });
    await all.wire.clock.advance(50);
    const { message_id, parts } = all.fake.open();
    all.fake.append(message_id, parts[0]!.part_id, "let me ");
    all.fake.setPart(message_id, { ...parts[0]!, text: "let me ", state: "done" } as never);
    ask(all.fake, message_id, "c1", { path: "a.txt" });
    await all.wire.clock.advance(50);
    expect(all.chat.status).toBe("ready");
    expect(all.chat.lastMessage?.parts.at(-1)).toMatchObject({
      state: "approval-requested",
      approval: { id: "c1.i" },
    });
    return { ...all, message_id };
  };

  const complete = ({ fake }: Setup, message_id: string): void => {
    const part = fake.message(message_id).parts.find((item) => item.type === "tool");
    if (part?.type === "tool") fake.setPart(message_id, { ...part, state: "completed", output: "written" });
    const text = fake.addPart(message_id, { type: "text", text: "", state: "streaming", step_id: "st2" });
    fake.append(message_id, text.part_id, "done");
    fake.close();
    fake.finish();
  };

  test.each([
    ["automatically", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses }],
    ["by hand", {}],
  ])("P7 wait for approval; the answer goes out %s and the message goes on", async (how, init) => {
    const all = await waiting(init);
    const { wire, chat, message_id } = all;
    wire.server.onRespond = () => complete(all, message_id);
    await chat.addToolApprovalResponse({ id: "c1.i", approved: true });
    if (how === "by hand") void chat.sendMessage();
    await wire.clock.advance(200);
    expect(wire.server.asked("interaction.respond")).toMatchObject([
      { interaction_id: "c1.i", response: { decision: "approved" } },
    ]);
    expect(chat.status).toBe("ready");
    expect(chat.messages).toHaveLength(2);
    expect(shown(chat.lastMessage)).toMatchObject([
      { type: "text", text: "let me " },
      { type: "step-start" },
      { type: "dynamic-tool", state: "output-available", output: "written" },
      { type: "step-start" },
      { type: "text", text: "done" },
    ]);
    expect(wire.server.asked("prompt")).toHaveLength(1);
  });

  test("P7 go on also when the answer overtakes the Mutations that it caused", async () => {
    const all = await waiting();
    const { wire, chat, fake, message_id } = all;
    const publish = fake.publish.bind(fake);
    fake.publish = (mutation) => void wire.clock.setTimeout(() => publish(mutation), 100);
    wire.server.onRespond = () => complete(all, message_id);
    await chat.addToolApprovalResponse({ id: "c1.i", approved: true });
    void chat.sendMessage();
    await wire.clock.advance(500);
    expect(chat.status).toBe("ready");
    expect(textOf(chat)).toBe("let me done");
  });

  test("P7 are denied with a reason", async () => {
    const all = await waiting();
    const { wire, chat, fake } = all;
    wire.server.onRespond = () => fake.finish();
    await chat.addToolApprovalResponse({ id: "c1.i", approved: false, reason: "not there" });
    void chat.sendMessage();
    await wire.clock.advance(200);
    expect(wire.server.asked("interaction.respond")[0]).toMatchObject({
      response: { decision: "denied", reason: "not there" },
    });
    expect(chat.lastMessage?.parts.at(-1)).toMatchObject({ state: "output-denied" });
  });

  test("A1 approved in another tab go on when the stream is resumed", async () => {
    const all = await waiting();
    const { wire, chat, client, message_id } = all;
    wire.server.onRespond = () => complete(all, message_id);
    const session = client.session("s1");
    const leave = session.subscribe(() => {});
    await wire.clock.advance(50);
    const [card] = session.getSnapshot().interactions;
    wire.server.onRespond = () => {};
    void session.respond("c1.i", { revision: card!.revision, response: { decision: "approved" } });
    await wire.clock.advance(50);
    void chat.resumeStream();
    await wire.clock.advance(50);
    complete(all, message_id);
    await wire.clock.advance(200);
    leave();
    expect(chat.status).toBe("ready");
    expect(chat.messages.map((message) => message.role)).toEqual(["user", "assistant"]);
    expect(textOf(chat)).toBe("let me done");
  });
});

describe("resuming", () => {
  test("J2 a chat that joins in mid-answer has the text so far, and the rest", async () => {
    const { wire, fake, client } = await setup();
    fake.prompt("p", [{ type: "text", text: "count" }]);
    const { message_id, parts } = fake.open();
    fake.append(message_id, parts[0]!.part_id, "1 2 ");
    const chat = new TestChat({
      id: "s1",
      transport: createChatTransport({ client }),
      messages: toUIMessages(fake.messages),
    });
    void chat.resumeStream();
    await wire.clock.advance(100);
    expect(textOf(chat)).toBe("1 2 ");
    fake.append(message_id, parts[0]!.part_id, "3");
    fake.close();
    fake.finish();
    await wire.clock.advance(100);
    expect(textOf(chat)).toBe("1 2 3");
    expect(chat.messages).toHaveLength(2);
    expect(chat.status).toBe("ready");
  });

  test("without a running Turn there is nothing to resume", async () => {
    const { wire, chat } = await setup();
    void chat.resumeStream();
    await wire.clock.advance(100);
    expect([chat.status, chat.messages.length]).toEqual(["ready", 0]);
  });

  test("J1 whenever the connection is cut, the text is told once", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(3), { maxLength: 30 }), async (steps) => {
        const { wire, fake, chat } = await setup();
        void chat.sendMessage({ text: "go" });
        await wire.clock.advance(50);
        const { message_id, parts } = fake.open();
        let text = "";
        for (const [index, step] of steps.entries()) {
          if (step === 0) wire.socket.drop(1006);
          else if (step === 1) await wire.clock.advance(700);
          else {
            fake.append(message_id, parts[0]!.part_id, `${index} `);
            text += `${index} `;
          }
        }
        fake.close();
        fake.finish();
        await wire.clock.advance(30_000);
        expect(chat.status).toBe("ready");
        expect(textOf(chat)).toBe(text);
        expect(chat.messages).toHaveLength(2);
      }),
      { numRuns: 30 },
    );
  });
});

describe("ends", () => {
  test("K6 a failed Turn is an error of the chat, with its words", async () => {
    const { wire, fake, chat } = await setup();
    void chat.sendMessage({ text: "go" });
    await wire.clock.advance(50);
    fake.open();
    fake.close([
      { type: "error", scope: "turn", code: "provider", message: "no credit", recoverable: false },
    ]);
    fake.finish("failed");
    await wire.clock.advance(50);
    expect(chat.status).toBe("error");
    expect(chat.error?.message).toBe("no credit");
    expect(chat.lastMessage?.parts.at(-1)).toMatchObject({ type: "data-error", data: { code: "provider" } });
  });

  test("M7 an answer at the model's limit is no failed Turn, also where its finish was missed", async () => {
    const { wire, fake, chat } = await setup();
    void chat.sendMessage({ text: "go" });
    await wire.clock.advance(50);
    const { message_id, parts } = fake.open();
    fake.append(message_id, parts[0]!.part_id, "so far");
    await wire.clock.advance(50);
    wire.socket.drop(1006);
    fake.close([{ type: "error", scope: "turn", code: "length", message: "the limit", recoverable: true }]);
    fake.finish();
    await wire.clock.advance(30_000);
    expect(chat.status).toBe("ready");
    expect(textOf(chat)).toBe("so far");
  });

  test("T3 stop of the chat stops the Turn, and keeps what was said", async () => {
    const { wire, fake, chat } = await setup();
    void chat.sendMessage({ text: "go" });
    await wire.clock.advance(50);
    const { message_id, parts } = fake.open();
    fake.append(message_id, parts[0]!.part_id, "so far");
    await wire.clock.advance(50);
    void chat.stop();
    await wire.clock.advance(50);
    expect(wire.server.asked("stop")).toMatchObject([{ session_id: "s1", turn_id: "s1.t1" }]);
    expect(chat.status).toBe("ready");
    expect(textOf(chat)).toBe("so far");
  });

  test("T4 a stream that another replaces does not stop the Turn", async () => {
    const { wire, fake, chat } = await setup();
    fake.prompt("p", [{ type: "text", text: "go" }]);
    fake.open();
    void chat.resumeStream();
    await wire.clock.advance(50);
    void chat.resumeStream();
    await wire.clock.advance(50);
    expect(wire.server.asked("stop")).toEqual([]);
    expect(fake.turn).toBeDefined();
    fake.finish();
    await wire.clock.advance(50);
    expect(chat.status).toBe("ready");
    expect(fake.subscribers.size).toBe(0);
  });

  test("R6 a connection that is closed for good is an error", async () => {
    const { wire, chat, fake } = await setup();
    void chat.sendMessage({ text: "go" });
    await wire.clock.advance(50);
    fake.open();
    wire.socket.drop(4403, "not yours");
    await wire.clock.advance(50);
    expect(chat.error?.message).toBe("not yours");
  });

  test("M5 history is not changed: editing and regenerating are refused", async () => {
    const { wire, chat, fake } = await setup();
    void chat.sendMessage({ text: "go" });
    await wire.clock.advance(50);
    fake.open();
    fake.finish();
    await wire.clock.advance(50);
    await chat.regenerate();
    expect(chat.error?.message).toContain("fork the session");
  });
});
