/** What `stop()` of the AI SDK's chat leads to when the connection is lost, or what is stopped has not begun. */

import { describe, expect, test } from "vitest";
import { createChatTransport } from "../src/ai-sdk/index.ts";
import type { Client } from "../src/index.ts";
import { MAX_DELAY_MS } from "../src/reconnect.ts";
import { TestChat } from "./support/chat.ts";
import { RequestRefused } from "./support/fake_server.ts";
import type { FakeSession } from "./support/fake_session.ts";
import { Wire } from "./support/wire.ts";

class Setup {
  readonly wire = new Wire();
  readonly client: Client = this.wire.client();
  readonly fake: FakeSession = this.wire.server.create("s1");
  readonly transport = createChatTransport({ client: this.client });
  readonly chat = new TestChat({ id: "s1", transport: this.transport });

  async connect(): Promise<void> {
    this.client.connect();
    await this.wire.clock.advance(100);
  }

  async cut(): Promise<void> {
    this.wire.reachable = false;
    this.wire.socket.drop(1006);
    await this.wire.clock.advance(1_000);
  }

  async mend(): Promise<void> {
    this.wire.reachable = true;
    await this.wire.clock.advance(2 * MAX_DELAY_MS);
  }
}

async function setup(): Promise<Setup> {
  const all = new Setup();
  await all.connect();
  return all;
}

describe("T3 a Turn that runs", () => {
  async function streaming(): Promise<Setup> {
    const all = await setup();
    void all.chat.sendMessage({ text: "go" });
    await all.wire.clock.advance(50);
    const { message_id, parts } = all.fake.open();
    all.fake.append(message_id, parts[0]!.part_id, "so far");
    await all.wire.clock.advance(50);
    expect(all.chat.status).toBe("streaming");
    return all;
  }

  test("is stopped once there is a connection", async () => {
    const all = await streaming();
    await all.cut();
    void all.chat.stop();
    await all.wire.clock.advance(1_000);
    expect(all.chat.status).toBe("ready");
    expect(all.wire.server.asked("stop")).toEqual([]);
    await all.mend();
    expect(all.wire.server.asked("stop")).toMatchObject([{ session_id: "s1", turn_id: "s1.t1" }]);
    expect(all.fake.turn).toBeUndefined();
  });

  test("is stopped also where the connection takes the first request with it", async () => {
    const all = await streaming();
    all.wire.server.intercept = ({ op }) => (op === "stop" ? "drop" : undefined);
    void all.chat.stop();
    await all.wire.clock.advance(100);
    expect(all.wire.server.asked("stop")).toHaveLength(1);
    await all.cut();
    all.wire.server.intercept = () => {};
    await all.mend();
    expect(all.wire.server.asked("stop")).toHaveLength(2);
    expect(all.fake.turn).toBeUndefined();
  });

  test("is asked about once where the server refuses", async () => {
    const all = await streaming();
    all.wire.server.intercept = ({ op }) => {
      if (op === "stop") throw new RequestRefused("forbidden");
    };
    void all.chat.stop();
    await all.wire.clock.advance(60_000);
    expect(all.wire.server.asked("stop")).toHaveLength(1);
  });

  test("is let be where the connection is closed for good", async () => {
    const all = await streaming();
    await all.cut();
    void all.chat.stop();
    all.client.disconnect();
    await all.wire.clock.advance(1_000);
    await all.mend();
    expect(all.wire.server.asked("stop")).toEqual([]);
  });
});

describe("S9 a prompt that has no answer yet", () => {
  test("is given up where it never went out", async () => {
    const all = await setup();
    await all.cut();
    void all.chat.sendMessage({ text: "cancelled" });
    await all.wire.clock.advance(100);
    expect(all.client.getSnapshot().unsent).toHaveLength(1);
    void all.chat.stop();
    await all.wire.clock.advance(100);
    expect(all.chat.status).toBe("ready");
    expect(all.client.getSnapshot().unsent).toEqual([]);
    await all.mend();
    expect(all.wire.server.asked("prompt")).toEqual([]);
    expect(all.fake.messages).toEqual([]);
  });

  test("is stopped as soon as its Turn is known, where the server may have it", async () => {
    const all = await setup();
    all.wire.server.intercept = ({ op }) => (op === "prompt" ? "drop" : undefined);
    void all.chat.sendMessage({ text: "too late" });
    await all.wire.clock.advance(100);
    await all.cut();
    all.wire.server.intercept = () => {};
    void all.chat.stop();
    await all.wire.clock.advance(100);
    expect(all.chat.status).toBe("ready");
    await all.mend();
    expect(all.wire.server.asked("prompt")).toHaveLength(2);
    expect(all.wire.server.asked("stop")).toMatchObject([{ turn_id: "s1.t1" }]);
    expect(all.fake.turn).toBeUndefined();
  });

  test("is not begun where it was stopped before", async () => {
    const all = await setup();
    const signal = AbortSignal.abort();
    const message = { id: "m", role: "user" as const, parts: [{ type: "text" as const, text: "no" }] };
    const sent = all.transport.sendMessages({
      trigger: "submit-message",
      chatId: "s1",
      messageId: undefined,
      messages: [message],
      abortSignal: signal,
    });
    await expect(sent).rejects.toMatchObject({ name: "AbortError" });
    await all.wire.clock.advance(100);
    expect(all.wire.server.asked("prompt")).toEqual([]);
  });

  test("is sent all the same where only another stream takes the place of its own", async () => {
    const all = await setup();
    await all.cut();
    void all.chat.sendMessage({ text: "kept" });
    await all.wire.clock.advance(100);
    void all.chat.resumeStream();
    await all.mend();
    expect(all.wire.server.asked("prompt")).toHaveLength(1);
    expect(all.wire.server.asked("stop")).toEqual([]);
  });
});
