/** The built library against the real server, in both formats of the wire. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import type { Client, ClientOptions, Codec, SessionHandle, SessionState } from "../../src/index.ts";
import { TestChat } from "../support/chat.ts";
import { missingServer, RealServer } from "../support/real_server.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const library = mkdtempSync(join(root, "node_modules", ".library-"));

let turnwire: typeof import("../../src/index.ts");
let msgpack: typeof import("../../src/msgpack.ts");
let aiSdk: typeof import("../../src/ai-sdk/index.ts");
const server = new RealServer();
const clients: Client[] = [];

beforeAll(async () => {
  execFileSync(process.execPath, ["scripts/build.mjs", library], { cwd: root });
  turnwire = (await import(join(library, "esm", "index.js"))) as typeof turnwire;
  msgpack = (await import(join(library, "esm", "msgpack.js"))) as typeof msgpack;
  aiSdk = (await import(join(library, "esm", "ai-sdk", "index.js"))) as typeof aiSdk;
  if (!missingServer) await server.start();
}, 60_000);
afterEach(() => {
  for (const client of clients.splice(0)) client.disconnect();
});
afterAll(async () => {
  rmSync(library, { recursive: true, force: true });
  await server.remove();
});

function connect(codec?: Codec): Client {
  const options: ClientOptions = { url: server.url, WebSocket: WebSocket as never, ...(codec && { codec }) };
  const client = turnwire.createClient(options);
  clients.push(client);
  client.connect();
  return client;
}

/** Follows a Session until `isTrue`, or fails with the state that it had to the last. */
function until(
  session: SessionHandle,
  isTrue: (state: SessionState) => boolean,
  wanted = "what was waited for",
): Promise<SessionState> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      const state = session.getSnapshot();
      if (!isTrue(state)) return;
      clearTimeout(late);
      leave();
      resolve(state);
    };
    const late = setTimeout(() => {
      leave();
      reject(new Error(`${wanted} did not come: ${JSON.stringify(session.getSnapshot()).slice(-2_000)}`));
    }, 20_000);
    const leave = session.subscribe(look);
    look();
  });
}

const textOf = ({ messages }: SessionState): string =>
  (messages.at(-1)?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
const isDone = ({ turn, messages, status }: SessionState): boolean =>
  status === "live" && !turn && messages.at(-1)?.state === "done";

/** What a client that comes only now is given. */
async function fresh(session_id: string): Promise<SessionState> {
  return until(connect().session(session_id), ({ status }) => status === "live");
}

const approval = (path: string): string =>
  `/tool write_file ${JSON.stringify({ path, text: "written by the test\n" })}`;

describe.skipIf(missingServer)("with the real server", () => {
  describe.each(["JSON", "MessagePack"])("in %s", (format) => {
    const codec = (): Codec => (format === "JSON" ? turnwire.jsonCodec : msgpack.msgpackCodec);

    test("W2 W4 text streams to two clients, one of which joins in the middle", async () => {
      const one = connect(codec());
      const { session_id } = await one.createSession({ title: format });
      const session = one.session(session_id);
      const leave = session.subscribe(() => {});
      expect(await session.prompt("/stream 60 10")).toMatchObject({ outcome: "started" });
      await until(session, (state) => textOf(state).includes("w20"), "w20");
      const joined = await until(connect(codec()).session(session_id), isDone, "the end");
      const first = await until(session, isDone, "the end");
      expect(textOf(first)).toBe(Array.from({ length: 60 }, (_, index) => `w${index + 1} `).join(""));
      expect(joined.messages).toEqual(first.messages);
      expect((await fresh(session_id)).messages).toEqual(first.messages);
      leave();
    });

    test("P3 W2 every kind of value goes both ways", async () => {
      const client = connect(codec());
      const metadata = {
        big: Number.MAX_SAFE_INTEGER,
        small: -1,
        half: 0.5,
        list: [null, true, "ü 👩‍🚀"],
        map: {},
      };
      const { session_id } = await client.createSession({ metadata });
      expect((await client.getSession(session_id)).metadata).toEqual(metadata);
      const session = client.session(session_id);
      const parts = [
        { type: "text", text: "/echo 👋 ok" },
        { type: "context", tag: "page", context: "</page> stays" },
        { type: "data", data_type: "point", data: { x: 1, y: [2.5] } },
      ] as const;
      const { sequence } = await session.prompt({ parts });
      const { messages } = await until(session, isDone, "the answer");
      expect(messages.find((message) => message.sequence === sequence)?.parts).toMatchObject(parts);
      expect(textOf({ messages } as SessionState)).toBe("👋 ok");
    });

    test("P7 A1 an approval is answered by one of two clients, and the other is told", async () => {
      const one = connect(codec());
      const { session_id } = await one.createSession();
      const sessions = [one.session(session_id), connect(codec()).session(session_id)] as const;
      const leaving = sessions.map((session) => session.subscribe(() => {}));
      const path = `${format}.txt`;
      await sessions[0].prompt(approval(path));
      const isAsked = ({ interactions }: SessionState): boolean => interactions.length === 1;
      const asked = await Promise.all(sessions.map((session) => until(session, isAsked, "the approval")));
      const answers = await Promise.all(
        sessions.map((session, index) => {
          const { interaction_id, revision } = asked[index]!.interactions[0]!;
          return session.respond(interaction_id, { revision, response: { decision: "approved" } });
        }),
      );
      expect(answers.map(({ accepted }) => accepted).sort()).toEqual([false, true]);
      const loser = answers.find(({ accepted }) => !accepted);
      expect(loser).toMatchObject({
        status: "resolved",
        response: { decision: "approved" },
        by: expect.any(String),
      });
      const ends = await Promise.all(sessions.map((session) => until(session, isDone, "the end")));
      const [first, second] = ends as [SessionState, SessionState];
      expect(first.messages).toEqual(second.messages);
      expect(first.interactions).toEqual([]);
      expect(readFileSync(join(server.workspace, path), "utf8")).toBe("written by the test\n");
      const kept = first.messages.at(-1)?.parts.find((part) => part.type === "data");
      expect(kept).toMatchObject({ data_type: "file_diff", data: { files: [{ path, status: "added" }] } });
      for (const leave of leaving) leave();
    });
  });

  test("M3 older pages are loaded, down to the first Message", async () => {
    const client = connect();
    const { session_id } = await client.createSession();
    const session = client.session(session_id);
    const leave = session.subscribe(() => {});
    for (let turn = 0; turn < 30; turn += 1) {
      await session.prompt(`/echo ${turn}`);
      await until(session, isDone, "the answer");
    }
    const late = connect().session(session_id);
    const stay = late.subscribe(() => {});
    await until(late, ({ status }) => status === "live");
    expect(late.getSnapshot()).toMatchObject({ total: 60, has_more: true });
    while (late.getSnapshot().has_more) await late.loadOlder(7);
    expect(late.getSnapshot().messages).toEqual(session.getSnapshot().messages);
    leave();
    stay();
  }, 60_000);

  test("T1 Q4 a prompt steers the Turn it names, and is refused otherwise", async () => {
    const client = connect();
    const session = client.session((await client.createSession()).session_id);
    const leave = session.subscribe(() => {});
    const { turn_id } = await session.prompt("/stream 400 20");
    await until(session, (state) => textOf(state).includes("w3"), "w3");
    await expect(session.prompt({ text: "not now", if_idle: true })).rejects.toMatchObject({
      code: "conflict",
    });
    const steered = await session.prompt({ text: "/echo steered", expected_turn_id: turn_id });
    expect(steered).toMatchObject({ outcome: "steered", turn_id });
    expect(await session.stop({ turn_id })).toMatchObject({ stopped: true, turn_id });
    const { messages } = await until(session, ({ turn }) => !turn, "the stop");
    const reasons = messages.flatMap(({ parts }) => parts.filter((part) => part.type === "error"));
    expect(reasons).toMatchObject([{ code: "stopped" }]);
    leave();
  });

  test("title, fork, archive and delete are seen by all", async () => {
    const client = connect();
    const { session_id } = await client.createSession({ title: "before" });
    const session = client.session(session_id);
    const other = connect().session(session_id);
    const leave = other.subscribe(() => {});
    await until(other, ({ status }) => status === "live");
    expect(await session.update({ title: "after" })).toMatchObject({ title: "after" });
    await until(other, (state) => state.session?.title === "after", "the title");
    const fork = await session.fork();
    expect((await client.getSession(fork.session_id)).origin).toMatchObject({ session_id });
    await session.archive();
    expect((await client.listSessions({ archived: true })).items.map((item) => item.session_id)).toContain(
      session_id,
    );
    await session.delete();
    await until(other, ({ status, reason }) => status === "error" && reason === "deleted", "the end");
    leave();
  });

  test("E1 K3 Q3 after kill -9 and a restart all is there, and what was made meanwhile runs once", async () => {
    const client = connect();
    const session = client.session((await client.createSession()).session_id);
    const leave = session.subscribe(() => {});
    await session.prompt("/echo before");
    await until(session, isDone, "the answer");
    await session.prompt("/stream 500 20");
    const { epoch } = await until(session, (state) => textOf(state).includes("w5"), "w5");
    await server.end("SIGKILL");
    const offline = [session.prompt("/echo one"), session.prompt("/echo two")];
    await until(session, ({ status }) => status === "stale", "the loss");
    expect(session.getSnapshot().unsent).toMatchObject([{ state: "waiting" }, { state: "waiting" }]);
    await server.start();
    const receipts = await Promise.all(offline);
    const end = await until(
      session,
      (state) => isDone(state) && state.queue.length === 0 && textOf(state) === "two",
    );
    expect(end.epoch).not.toBe(epoch);
    expect(end.unsent).toEqual([]);
    const texts = end.messages.filter(({ role }) => role === "user").map(({ parts }) => parts[0]);
    expect(texts).toMatchObject([
      { text: "/echo before" },
      { text: "/stream 500 20" },
      { text: "/echo one" },
      { text: "/echo two" },
    ]);
    const sequenceOf = ({ sequence }: { sequence: number }): number => sequence;
    expect(receipts.map(sequenceOf)).toEqual(
      end.messages
        .filter(({ role }) => role === "user")
        .slice(2)
        .map(sequenceOf),
    );
    const broken = end.messages.find(({ parts }) => parts.some((part) => part.type === "error"));
    expect(broken).toMatchObject({
      state: "done",
      parts: expect.arrayContaining([expect.objectContaining({ code: "runtime_interrupted" })]),
    });
    expect((await fresh(session.session_id)).messages).toEqual(end.messages);
    leave();
  }, 60_000);

  test("W8 after a restart in good order the client comes back by itself", async () => {
    const client = connect();
    const session = client.session((await client.createSession()).session_id);
    await until(session, ({ status }) => status === "live");
    const seen: unknown[] = [];
    const leave = client.subscribe(() => seen.push(client.getSnapshot().connection));
    await server.end("SIGTERM");
    await server.start();
    await until(session, ({ status }) => status === "live", "the return");
    expect(seen).toContainEqual(expect.objectContaining({ status: "reconnecting", code: 1012 }));
    leave();
  }, 60_000);

  test("the chat of the AI SDK runs on it: reasoning, Tools, an approval, and joining again", async () => {
    const client = connect();
    const transport = aiSdk.createChatTransport({ client });
    const chat = new TestChat({ id: "ai-sdk-chat", transport });
    await chat.sendMessage({ text: `/reason 5 5\n/echo let me write\n${approval("chat.txt")}` });
    expect(chat.error).toBeUndefined();
    const waiting = chat.lastMessage!.parts.at(-1);
    expect(waiting).toMatchObject({
      type: "dynamic-tool",
      toolName: "write_file",
      state: "approval-requested",
    });
    const { id } = (waiting as { approval: { id: string } }).approval;
    await chat.addToolApprovalResponse({ id, approved: true });
    await chat.sendMessage();
    expect(chat.error).toBeUndefined();
    expect(chat.lastMessage!.parts).toMatchObject(
      aiSdk
        .toUIMessages((await fresh("ai-sdk-chat")).messages)
        .at(-1)!
        .parts.map((part) => ("approval" in part ? { ...part, approval: { id } } : part)),
    );
    expect(readFileSync(join(server.workspace, "chat.txt"), "utf8")).toBe("written by the test\n");

    const running = chat.sendMessage({ text: "/stream 60 20" });
    const other = new TestChat({
      id: "ai-sdk-chat",
      transport: aiSdk.createChatTransport({ client: connect() }),
    });
    await until(client.session("ai-sdk-chat"), (state) => textOf(state).includes("w10"), "w10");
    await Promise.all([running, other.resumeStream()]);
    expect(JSON.stringify(other.lastMessage!.parts)).toBe(JSON.stringify(chat.lastMessage!.parts));
    expect(chat.status).toBe("ready");
  });
});

test.runIf(missingServer)(`left out: ${missingServer}`, () => {});
