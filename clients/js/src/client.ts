/** `createClient`: the connection, the Sessions on it and the prompts that wait for it, put together. */

import { type Codec, jsonCodec } from "./codec.ts";
import { closedError, Connection, type ConnectionState, type GetToken } from "./connection.ts";
import {
  animationFrame,
  browserWake,
  type Clock,
  randomId,
  type Schedule,
  type SocketConstructor,
  systemClock,
  type WakeSource,
} from "./environment.ts";
import { TurnwireError } from "./errors.ts";
import type {
  ErrorFrame,
  Fields,
  RequestOp,
  Result,
  ServerFrame,
  SessionFrame,
  UnknownFrame,
  Welcome,
} from "./frames.ts";
import { PromptQueue, type UnsentPrompt } from "./prompts.ts";
import { SessionHandle, type SessionHost } from "./session.ts";
import { callEach, Store } from "./store.ts";
import type { Session, SessionPage } from "./types.ts";

export interface ClientOptions {
  /** Where the server's WebSocket is, for example `wss://chat.example/ws`. */
  readonly url: string;
  /** Gives the token for `hello`; asked again with `refresh` when the server refused the last one (R6). */
  readonly getToken?: GetToken;
  /** Name and version of the program, for the server's log. */
  readonly clientName?: string;
  /** How many prompts may wait to be sent. */
  readonly maxUnsent?: number;
  /** Hears of errors that belong to no request. By default they go to the console. */
  readonly onError?: (error: TurnwireError) => void;
  readonly WebSocket?: SocketConstructor;
  readonly codec?: Codec;
  readonly clock?: Clock;
  readonly random?: () => number;
  readonly schedule?: Schedule;
  readonly wake?: WakeSource;
  readonly newId?: () => string;
}

export interface ClientState {
  readonly connection: ConnectionState;
  /** What the server said of itself, once connected. */
  readonly welcome?: Welcome;
  /** Prompts of all Sessions that the server has not answered yet. */
  readonly unsent: readonly UnsentPrompt[];
}

const MAX_UNSENT = 100;

export function createClient(options: ClientOptions): Client {
  return new Client(options);
}

export class Client {
  readonly #connection: Connection;
  readonly #store: Store;
  readonly #prompts: PromptQueue;
  readonly #sessions = new Map<string, SessionHandle>();
  readonly #host: SessionHost;
  readonly #newId: () => string;
  readonly #onError: (error: TurnwireError) => void;
  #waiting: { resolve: () => void; reject: (error: TurnwireError) => void }[] = [];
  #state: ClientState | undefined;

  constructor(options: ClientOptions) {
    const clock = options.clock ?? systemClock;
    const random = options.random ?? Math.random;
    const schedule = options.schedule ?? animationFrame;
    this.#newId = options.newId ?? randomId;
    this.#onError = options.onError ?? ((error) => console.warn(`turnwire: ${error.code}: ${error.message}`));
    this.#store = new Store(schedule);
    this.#connection = new Connection(
      {
        url: new URL(options.url).href,
        codec: options.codec ?? jsonCodec,
        WebSocket: options.WebSocket ?? WebSocket,
        clock,
        random,
        wake: options.wake ?? browserWake,
        clientName: options.clientName ?? "turnwire-js",
        getToken: options.getToken,
      },
      { onState: (state) => this.#onState(state), onFrame: (frame) => this.#onFrame(frame) },
    );
    const isConnected = (): boolean => this.#connection.state.status === "connected";
    this.#prompts = new PromptQueue({
      clock,
      random,
      isConnected,
      newId: this.#newId,
      capacity: options.maxUnsent ?? MAX_UNSENT,
      send: (fields) => this.#connection.request("prompt", fields),
      onChange: () => this.#onUnsent(),
    });
    this.#host = {
      clock,
      random,
      schedule,
      isConnected,
      prompts: this.#prompts,
      request: (op, fields) => this.request(op, fields),
      call: (op, fields) => this.#call(op, fields),
    };
  }

  connect(): void {
    this.#connection.connect();
  }

  /** Closes the connection. Sessions go on at the server, and `connect()` takes them up again. */
  disconnect(): void {
    this.#connection.disconnect();
  }

  /** Calls `listener` after changes of the connection or of what is unsent, at most once a frame. */
  subscribe(listener: () => void): () => void {
    return this.#store.add(listener);
  }

  getSnapshot(): ClientState {
    const welcome = this.#connection.welcome;
    this.#state ??= {
      connection: this.#connection.state,
      ...(welcome && { welcome }),
      unsent: this.#prompts.unsent,
    };
    return this.#state;
  }

  /** The handle of a Session, always the same one. Nothing is sent before somebody subscribes to it. */
  session(session_id: string): SessionHandle {
    let handle = this.#sessions.get(session_id);
    if (!handle) {
      handle = new SessionHandle(session_id, this.#host);
      this.#sessions.set(session_id, handle);
    }
    return handle;
  }

  listSessions(fields: Fields<"session.list"> = {}): Promise<SessionPage> {
    return this.#call("session.list", fields);
  }

  /** Creates a Session; a request that is repeated after a lost connection makes no second one. */
  async createSession(fields: Fields<"session.create"> = {}): Promise<Session> {
    const request = { client_request_id: this.#newId(), ...fields };
    return (await this.#call("session.create", request)).session;
  }

  async getSession(session_id: string): Promise<Session> {
    return (await this.#call("session.get", { session_id })).session;
  }

  /**
   * One request, sent once. Rejects with TurnwireError: the server's `error`, or `lost` or `timeout` when no answer
   * came and it may or may not have been carried out.
   */
  request<Op extends RequestOp>(op: Op, fields: Fields<Op>): Promise<Result<Op>> {
    return this.#connection.request(op, fields);
  }

  /** Sends a request that may be repeated, on this connection or on one of the next. */
  async #call<Op extends RequestOp>(op: Op, fields: Fields<Op>): Promise<Result<Op>> {
    for (;;) {
      await this.#whenConnected();
      try {
        return await this.#connection.request(op, fields);
      } catch (error) {
        if (!(error instanceof TurnwireError) || error.code !== "lost") throw error;
      }
    }
  }

  #whenConnected(): Promise<void> {
    const { state } = this.#connection;
    if (state.status === "connected") return Promise.resolve();
    if (state.status === "closed") return Promise.reject(closedError(state));
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  #onState(state: ConnectionState): void {
    this.#changed();
    if (state.status === "connected") {
      for (const handle of this.#sessions.values()) handle.connected();
      this.#prompts.connected();
      for (const { resolve } of this.#waiting.splice(0)) resolve();
      return;
    }
    for (const handle of this.#sessions.values()) if (handle.isActive) handle.disconnected();
    if (state.status !== "closed") return;
    for (const { reject } of this.#waiting.splice(0)) reject(closedError(state));
  }

  #onFrame(frame: ServerFrame | UnknownFrame): void {
    if (frame.op === "error") {
      callEach([this.#onError], TurnwireError.of(frame as ErrorFrame));
    } else if ("session_id" in frame && typeof frame.session_id === "string") {
      this.#sessions.get(frame.session_id)?.receive(frame as SessionFrame);
    }
  }

  #onUnsent(): void {
    this.#changed();
    for (const handle of this.#sessions.values()) handle.changed();
  }

  #changed(): void {
    this.#state = undefined;
    this.#store.changed();
  }
}
