/** FakeServer: Turnwire's server side of the wire in memory, as far as the client needs it. No I/O, no time of its own. */

import type { ErrorFrame, PartInput } from "../../src/index.ts";
import { type Answer, respond } from "./fake_interactions.ts";
import { FakeSession } from "./fake_session.ts";

export interface Peer {
  send(text: string): void;
  close(code: number, reason: string): void;
}

type Request = { op: string; id: number } & Record<string, never>;

export class RequestRefused extends Error {
  readonly code: string;
  readonly retryable: boolean;
  readonly details: object;
  constructor(code: string, retryable = false, details = {}) {
    super(`refused: ${code}`);
    this.details = details;
    this.code = code;
    this.retryable = retryable;
  }
}

export class FakeServer {
  readonly sessions = new Map<string, FakeSession>();
  /** By the `client_request_id` that made them. */
  readonly forks = new Map<string, FakeSession>();
  readonly connections = new Set<FakeConnection>();
  /** Every request as it came, of all connections. */
  readonly requests: ({ op: string } & Record<string, unknown>)[] = [];
  /** Called before a request is carried out; may throw RequestRefused, or return `drop` to leave it unanswered. */
  intercept: (request: { op: string } & Record<string, unknown>) => "drop" | void = () => {};
  onPrompt: (session: FakeSession, text: string) => void = () => {};
  onRespond: (session: FakeSession, interaction_id: string) => void = () => {};
  /** Who answers are from. */
  principal = "tester";
  token: string | undefined;
  tick_ms = 15_000;
  max_request = 1_000_000;
  readonly now: () => number;
  #created = 0;

  constructor(now: () => number) {
    this.now = now;
  }

  connect(peer: Peer): FakeConnection {
    const connection = new FakeConnection(this, peer);
    this.connections.add(connection);
    return connection;
  }

  session(session_id: string): FakeSession {
    const session = this.sessions.get(session_id);
    if (!session) throw new RequestRefused("not_found");
    return session;
  }

  create(session_id = `s${++this.#created}`): FakeSession {
    const session = this.sessions.get(session_id) ?? new FakeSession(session_id, this.now);
    this.sessions.set(session_id, session);
    return session;
  }

  /** The requests with this `op` so far. */
  asked(op: string): Record<string, unknown>[] {
    return this.requests.filter((request) => request.op === op);
  }
}

export class FakeConnection {
  readonly #server: FakeServer;
  readonly #peer: Peer;
  readonly #subscriptions = new Map<string, (frame: object) => void>();
  #welcomed = false;

  constructor(server: FakeServer, peer: Peer) {
    this.#server = server;
    this.#peer = peer;
  }

  send(frame: object): void {
    this.#peer.send(JSON.stringify(frame));
  }

  close(code: number, reason = ""): void {
    this.closed();
    this.#peer.close(code, reason);
  }

  /** The client has gone. */
  closed(): void {
    this.#server.connections.delete(this);
    for (const [session_id, send] of this.#subscriptions) {
      this.#server.sessions.get(session_id)?.subscribers.delete(send);
    }
    this.#subscriptions.clear();
  }

  receive(text: string): void {
    const request = JSON.parse(text) as Request;
    this.#server.requests.push(request);
    try {
      if (this.#server.intercept(request) === "drop") return;
      if (!this.#welcomed || request.op === "hello") this.#hello(request);
      else this.#answer(request);
    } catch (error) {
      if (!(error instanceof RequestRefused)) throw error;
      this.#refuse(request.id, error);
    }
  }

  #refuse(id: number, { code, message, retryable, details }: RequestRefused): void {
    const frame: ErrorFrame = { op: "error", id, code, message, retryable, ...details };
    this.send(frame);
    if (code === "unauthenticated") this.close(4401, message);
  }

  #hello(request: Request): void {
    const { token, tick_ms, max_request } = this.#server;
    if (request.op !== "hello" || (token !== undefined && request["token"] !== token)) {
      throw new RequestRefused("unauthenticated");
    }
    this.#welcomed = true;
    const limits = { max_frame: 1_000_000, max_request, page: 50, max_page: 200, max_subscriptions: 100 };
    const principal = { id: "tester" };
    this.send({ op: "welcome", id: request.id, protocol: 1, server: "fake", limits, tick_ms, principal });
  }

  #answer(request: Request): void {
    const { op, id } = request;
    const result = (value: object): void => this.send({ op: "result", id, result: value });
    if (op === "ping" || op === "interactions") return result(op === "ping" ? {} : { items: [] });
    if (op === "session.create")
      return result({ session: this.#server.create(request["session_id"]).session });
    if (op === "session.list") return result({ items: this.#list(), has_more: false });
    const session = this.#server.session(request["session_id"] ?? "");
    if (op === "session.get") return result({ session: session.session });
    if (op === "subscribe" || op === "reload") return this.#subscribe(session, result);
    if (op === "unsubscribe") return this.#unsubscribe(session, result);
    if (op === "messages") return result(session.page(request["before_sequence"], request["limit"]));
    if (op === "prompt") return this.#prompt(session, request, result);
    if (op === "stop") return this.#stop(session, result);
    if (op === "interaction.respond") return this.#respond(session, request, result);
    if (op === "session.update") return result({ session: session.update(request as object) });
    if (op === "session.fork") {
      const { client_request_id, new_session_id = `f-${client_request_id}` } = request;
      const known = this.#server.forks.get(client_request_id ?? "");
      if (known) return result({ session: known.session });
      if (this.#server.sessions.has(new_session_id)) throw new RequestRefused("conflict");
      const fork = this.#server.create(new_session_id);
      fork.messages = session.messages.map((message) => ({ ...message, session_id: fork.session_id }));
      if (client_request_id !== undefined) this.#server.forks.set(client_request_id, fork);
      return result({ session: fork.session });
    }
    if (op === "session.archive" || op === "session.delete") {
      if (op === "session.delete") this.#server.sessions.delete(session.session_id);
      return result({});
    }
    throw new RequestRefused("unknown_op");
  }

  #respond(session: FakeSession, request: Request, result: (value: object) => void): void {
    const id: string = request["client_request_id"] ?? "";
    const known = session.answers.get(id);
    if (known) return result(known);
    const outcome = respond(
      session,
      request as unknown as Answer,
      this.#server.principal,
      this.#server.now(),
    );
    if (outcome === "changed") throw new RequestRefused("conflict");
    if (!("accepted" in outcome)) throw new RequestRefused("already_resolved", false, outcome);
    session.answers.set(id, outcome.accepted as object);
    result(outcome.accepted as object);
    this.#server.onRespond(session, request["interaction_id"] ?? "");
  }

  #list(): object[] {
    const sessions = [...this.#server.sessions.values()].map((session) => session.session);
    return sessions.sort((a, b) => b.updated_at - a.updated_at);
  }

  #subscribe(session: FakeSession, result: (value: object) => void): void {
    this.#drop(session);
    const send = (frame: object): void => this.send(frame);
    session.subscribers.add(send);
    this.#subscriptions.set(session.session_id, send);
    result({ epoch: session.epoch, seq: session.seq });
    this.send(session.snapshot());
  }

  #unsubscribe(session: FakeSession, result: (value: object) => void): void {
    this.#drop(session);
    result({});
  }

  #drop(session: FakeSession): void {
    const send = this.#subscriptions.get(session.session_id);
    if (send) session.subscribers.delete(send);
    this.#subscriptions.delete(session.session_id);
  }

  #prompt(session: FakeSession, request: Request, result: (value: object) => void): void {
    const parts: PartInput[] = request["parts"] ?? [{ type: "text", text: request["text"] ?? "" }];
    const receipt = session.prompt(request["client_request_id"] ?? "", parts);
    result(receipt);
    if (receipt.outcome !== "duplicate") this.#server.onPrompt(session, request["text"] ?? "");
  }

  #stop(session: FakeSession, result: (value: object) => void): void {
    const { turn, queue } = session;
    if (!turn) return result({ stopped: false, cancelled_prompts: 0, reason: "idle" });
    session.queue = [];
    session.close([
      { type: "error", scope: "turn", code: "stopped", message: "Stopped by the user.", recoverable: true },
    ]);
    session.finish("stopped");
    return result({
      stopped: true,
      turn_id: turn.turn_id,
      cancelled_prompts: queue.length,
      reason: "stopped",
    });
  }
}
