/** `createClient`: the connection, the Sessions on it and the prompts that wait for it, put together. */

import { type Codec, jsonCodec } from "./codec.ts";
import { type CommandBody, CommandQueue, type CommandStorage, type UnsentCommand } from "./commands.ts";
import { Connection, type ConnectionState } from "./connection.ts";
import { defined } from "./defined.ts";
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
import { refusal, TurnwireError } from "./errors.ts";
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
import { SessionHandle, type SessionHost } from "./session.ts";
import { callEach, Store } from "./store.ts";
import type { GetToken } from "./token.ts";
import type { Session, SessionPage } from "./types.ts";

export interface ClientOptions {
  /** Where the server's WebSocket is, for example `wss://chat.example/ws`. */
  readonly url: string;
  /** Gives the token for `hello`; asked at every connect, before it expires, and when it was refused (R6). */
  readonly getToken?: GetToken;
  /** Name and version of the program, for the server's log. */
  readonly clientName?: string;
  /** How many commands may wait to be sent. */
  readonly maxUnsent?: number;
  /** Keeps unsent commands, so that they are sent after a reload as well, under their old ids. */
  readonly storage?: CommandStorage;
  /** Of how many Sessions that nobody looks at any more the state is kept, to be shown at once. */
  readonly maxKept?: number;
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
  /** Commands of all Sessions that the server has not answered yet, or that were given up. */
  readonly unsent: readonly UnsentCommand[];
}

const MAX_UNSENT = 100;
const MAX_KEPT = 20;

export function createClient(options: ClientOptions): Client {
  return new Client(options);
}

export class Client {
  readonly #connection: Connection;
  readonly #store: Store;
  readonly #commands: CommandQueue;
  /**
   * Every handle that was asked for: who holds one must find `session()` to give the same, and frames to reach it. An
   * empty one takes about a kilobyte; what it shows is let go of by `#keep`.
   */
  readonly #sessions = new Map<string, SessionHandle>();
  /** Sessions that were left and whose state is kept, the one longest left first. */
  readonly #kept = new Set<SessionHandle>();
  readonly #host: SessionHost;
  readonly #onError: (error: TurnwireError) => void;
  /** What waits for another state of the connection. */
  readonly #waiting: (() => void)[] = [];
  #state: ClientState | undefined;

  constructor(options: ClientOptions) {
    const {
      url,
      getToken,
      storage,
      clientName = "turnwire-js",
      WebSocket = globalThis.WebSocket,
      codec = jsonCodec,
      clock = systemClock,
      random = Math.random,
      schedule = animationFrame,
      wake = browserWake,
      newId = randomId,
      maxUnsent: capacity = MAX_UNSENT,
      maxKept = MAX_KEPT,
      onError = console.warn,
    } = options;
    if (!WebSocket) throw new TypeError("WebSocket: give one");
    this.#onError = (error) => callEach([onError], error);
    this.#store = new Store(schedule);
    this.#connection = new Connection(
      { url: new URL(url).href, codec, WebSocket, clock, random, wake, clientName, getToken },
      { onState: () => this.#onState(), onFrame: (frame) => this.#onFrame(frame) },
    );
    const shared = { connection: this.#connection, clock, random };
    this.#commands = new CommandQueue({
      ...shared,
      newId,
      capacity,
      storage,
      onError: this.#onError,
      onChange: (id) => this.#onUnsent(id),
    });
    this.#host = {
      ...shared,
      schedule,
      commands: this.#commands,
      onLeave: (handle) => this.#keep(handle, maxKept),
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
    const { state: connection, welcome } = this.#connection;
    this.#state ??= defined({ connection, welcome, unsent: this.#commands.unsent });
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

  /**
   * Creates a Session; a request that is repeated after a lost connection makes no second one. Without a connection it
   * waits in `unsent`; with a `session_id` prompts can be given to that Session meanwhile, and follow it.
   */
  async createSession(
    fields: CommandBody<"session.create"> & { readonly session_id?: string } = {},
  ): Promise<Session> {
    const { session_id, ...body } = fields;
    return (await this.#commands.add("session.create", session_id, body)).session;
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
      const { state } = this.#connection;
      if (state.status === "closed") throw new TurnwireError("closed", `closed: ${state.reason}`);
      if (state.status !== "connected")
        await new Promise<void>((resolve) => void this.#waiting.push(resolve));
      try {
        return await this.#connection.request(op, fields);
      } catch (error) {
        if (refusal(error).code !== "lost") throw error;
      }
    }
  }

  #onState(): void {
    this.#changed();
    // Commands first: a Session may only just be made by one.
    this.#commands.connectionChanged();
    for (const handle of this.#sessions.values()) handle.connectionChanged();
    for (const resume of this.#waiting.splice(0)) resume();
  }

  #onFrame(frame: ServerFrame | UnknownFrame): void {
    if (frame.op === "draining") this.#changed();
    else if (frame.op === "error") this.#onError(TurnwireError.of(frame as ErrorFrame));
    else this.#sessions.get((frame as SessionFrame).session_id)?.receive(frame as SessionFrame);
  }

  /** Bounds what is kept of Sessions that nobody looks at. */
  #keep(handle: SessionHandle, most: number): void {
    this.#kept.delete(handle);
    this.#kept.add(handle);
    const [oldest] = this.#kept;
    if (this.#kept.size <= most || !oldest) return;
    this.#kept.delete(oldest);
    oldest.forget();
  }

  #onUnsent(session_id = ""): void {
    this.#changed();
    this.#sessions.get(session_id)?.changed();
  }

  #changed(): void {
    this.#state = undefined;
    this.#store.changed();
  }
}
