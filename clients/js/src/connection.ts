/**
 * Connection: one living WebSocket to the server, made anew whenever it is lost (W3, W7, W8).
 *
 * It knows `hello`, requests and liveness; Sessions it does not know, their frames go to `onFrame`. When to come
 * back is `reconnect`; this file carries that out.
 */

import type { Codec } from "./codec.ts";
import type { Clock, SocketConstructor, SocketLike, TimerId, WakeSource } from "./environment.ts";
import { closed, notConnected, TurnwireError } from "./errors.ts";
import type { ErrorFrame, Fields, RequestOp, Result, ServerFrame, UnknownFrame, Welcome } from "./frames.ts";
import { PendingRequests } from "./pending.ts";
import { ReconnectPolicy } from "./reconnect.ts";

/**
 * | status         | meaning                                        | leaves it by                                     |
 * |----------------|------------------------------------------------|--------------------------------------------------|
 * | `idle`         | never asked to connect                         | `connect()`                                      |
 * | `connecting`   | the first attempt since `connect()`            | `welcome`, a loss, `disconnect()`                |
 * | `connected`    | `welcome` came                                 | a loss, `disconnect()`                           |
 * | `reconnecting` | waiting for, or in, another attempt            | `welcome`, a loss that says stop, `disconnect()` |
 * | `closed`       | `disconnect()`, or a close code that says stop | `connect()`                                      |
 */
export type ConnectionStatus = "idle" | "connecting" | "connected" | "reconnecting" | "closed";

export interface ConnectionState {
  readonly status: ConnectionStatus;
  /** Why the last connection ended, in `reconnecting` and `closed`. */
  readonly code?: number;
  readonly reason?: string;
}

export interface TokenRequest {
  /** The last token was refused: get a new one. */
  readonly refresh: boolean;
}

/** Gives the token for `hello`; undefined for a server that asks for none. */
export type GetToken = (request: TokenRequest) => string | undefined | Promise<string | undefined>;

export interface ConnectionOptions {
  readonly url: string;
  readonly codec: Codec;
  readonly WebSocket: SocketConstructor;
  readonly clock: Clock;
  readonly random: () => number;
  readonly wake: WakeSource;
  readonly clientName: string;
  readonly getToken?: GetToken | undefined;
}

export interface ConnectionObserver {
  onState(state: ConnectionState): void;
  onFrame(frame: ServerFrame | UnknownFrame): void;
}

/** The version of the protocol that is spoken here. */
const PROTOCOL = 1;
/** From `new WebSocket` to `welcome`; the server itself waits 10 s for `hello`. */
export const OPEN_TIMEOUT_MS = 10_000;
/** How long a connection that is doubted may keep silent after a `ping`. */
export const PROBE_TIMEOUT_MS = 5_000;
export const MISSED_TICKS = 3;

const NORMAL = 1000;
const LOST = 1006;
/** What a WebSocket may be closed with from a page when its peer broke the protocol. */
const BAD_FRAME = 4400;
const HELLO_CLOSE_CODES: Readonly<Record<string, number>> = { unauthenticated: 4401, forbidden: 4403 };

/** One WebSocket from its making to its end. Handlers that find another attempt in its place do nothing (R9). */
interface Attempt {
  socket?: SocketLike;
  welcome?: Welcome;
  lastFrameAt: number;
  /** Open timeout, then the watch for missed ticks. */
  timer?: TimerId;
  probe?: TimerId | undefined;
  readonly pending: PendingRequests;
}

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #observer: ConnectionObserver;
  readonly #policy: ReconnectPolicy;
  #state: ConnectionState = { status: "idle" };
  #attempt: Attempt | undefined;
  #retryTimer: TimerId | undefined;
  #refreshToken = false;
  #lastId = 0;
  #stopWaking: (() => void) | undefined;

  constructor(options: ConnectionOptions, observer: ConnectionObserver) {
    this.#options = options;
    this.#observer = observer;
    this.#policy = new ReconnectPolicy(options.random);
  }

  get state(): ConnectionState {
    return this.#state;
  }

  get welcome(): Welcome | undefined {
    return this.#attempt?.welcome;
  }

  /** Starts to connect, and keeps at it. Does nothing where that is already so. */
  connect(): void {
    if (this.#state.status !== "idle" && this.#state.status !== "closed") return;
    this.#policy.reset();
    this.#refreshToken = false;
    this.#stopWaking = this.#options.wake(() => this.probe());
    this.#setState({ status: "connecting" });
    this.#open();
  }

  /** Ends the connection; Turns go on at the server (T4). `connect()` starts anew (R10). */
  disconnect(): void {
    if (this.#state.status === "idle" || this.#state.status === "closed") return;
    this.#abandon(NORMAL, "disconnect");
    this.#stop(NORMAL, "disconnect");
  }

  /** Finds out at once whether the connection is alive; while waiting to reconnect, tries at once (R7). */
  probe(): void {
    const attempt = this.#attempt;
    if (!attempt) {
      if (this.#retryTimer !== undefined) this.#retryNow();
      return;
    }
    if (!attempt.welcome || attempt.probe !== undefined) return;
    const { clock } = this.#options;
    attempt.probe = clock.setTimeout(
      () => this.#lose(attempt, LOST, "no answer to a probe"),
      PROBE_TIMEOUT_MS,
    );
    this.#transmit(attempt, { op: "ping", id: ++this.#lastId });
  }

  /**
   * Sends a request and gives its result. Rejects with TurnwireError: the server's `error`, or `lost`/`timeout` when
   * no answer came and nobody knows whether it was carried out, or `too_large` without sending.
   */
  request<Op extends RequestOp>(op: Op, fields: Fields<Op>): Promise<Result<Op>> {
    const attempt = this.#attempt;
    if (!attempt?.welcome) return Promise.reject(notConnected());
    return this.#ask(attempt, op, fields) as Promise<Result<Op>>;
  }

  // ------------------------------------------------------------------------------------------ opening a socket

  #open(): void {
    const { clock } = this.#options;
    const attempt: Attempt = { lastFrameAt: clock.now(), pending: new PendingRequests(clock) };
    this.#attempt = attempt;
    attempt.timer = clock.setTimeout(
      () => this.#lose(attempt, LOST, "no connection in time"),
      OPEN_TIMEOUT_MS,
    );
    const refresh = this.#refreshToken;
    void this.#token(refresh).then(
      (token) => this.#attach(attempt, token),
      (error: unknown) => this.#lose(attempt, LOST, `getToken failed: ${String(error)}`),
    );
  }

  async #token(refresh: boolean): Promise<string | undefined> {
    return this.#options.getToken?.({ refresh });
  }

  #attach(attempt: Attempt, token: string | undefined): void {
    if (attempt !== this.#attempt) return;
    const { url, codec, WebSocket, clientName } = this.#options;
    const socket = new WebSocket(url, codec.subprotocol);
    attempt.socket = socket;
    socket.binaryType = "arraybuffer";
    const hello = { protocol: PROTOCOL, client: clientName, ...(token !== undefined && { token }) };
    socket.onopen = () => void this.#hello(attempt, hello);
    socket.onmessage = (event: { data: unknown }) => this.#receive(attempt, event.data);
    socket.onclose = (event: { code: number; reason: string }) =>
      this.#lose(attempt, event.code, event.reason);
    // A close event follows every error event and says more; but Node's `ws` throws where nobody listens.
    socket.onerror = () => {};
  }

  async #hello(attempt: Attempt, hello: object): Promise<void> {
    try {
      await this.#ask(attempt, "hello", hello);
    } catch (error) {
      // A refused hello is a verdict on the connection, whether or not the server closes it itself.
      if (!(error instanceof TurnwireError)) throw error;
      const code = HELLO_CLOSE_CODES[error.code] ?? (error.retryable ? LOST : BAD_FRAME);
      this.#lose(attempt, code, error.message);
    }
  }

  // ------------------------------------------------------------------------------------------------- receiving

  #receive(attempt: Attempt, data: unknown): void {
    if (attempt !== this.#attempt) return;
    const { clock, codec } = this.#options;
    attempt.lastFrameAt = clock.now();
    clock.clearTimeout(attempt.probe);
    attempt.probe = undefined;
    try {
      this.#dispatch(attempt, codec.decode(data) as ServerFrame);
    } catch (error) {
      // After a frame that nobody understands the state here is not to be trusted; a new connection brings a new one.
      this.#lose(attempt, LOST, `bad frame from the server: ${String(error)}`);
    }
  }

  #dispatch(attempt: Attempt, frame: ServerFrame): void {
    switch (frame.op) {
      case "welcome":
        this.#welcomed(attempt, frame);
        break;
      case "result":
        attempt.pending.resolve(frame.id, frame.result);
        break;
      case "error":
        this.#refused(attempt, frame);
        break;
      case "draining":
        this.#policy.hint(frame.retry_after_ms);
        break;
      case "tick":
        break;
      default:
        this.#observer.onFrame(frame);
    }
  }

  #welcomed(attempt: Attempt, welcome: Welcome): void {
    const { clock } = this.#options;
    attempt.welcome = welcome;
    this.#refreshToken = false;
    this.#policy.connected(clock.now());
    clock.clearTimeout(attempt.timer);
    this.#watchTicks(attempt, welcome.tick_ms * MISSED_TICKS);
    attempt.pending.resolve(welcome.id, welcome);
    this.#setState({ status: "connected" });
  }

  #refused(attempt: Attempt, frame: ErrorFrame): void {
    const error = TurnwireError.of(frame);
    // What belongs to no request, or to one that has timed out, is the observer's.
    if (!attempt.pending.reject(frame.id, error)) this.#observer.onFrame(frame);
  }

  /** Looks again when the silence so far could first become too long, instead of a timer for each frame. */
  #watchTicks(attempt: Attempt, silence_ms: number): void {
    const { clock } = this.#options;
    const left = attempt.lastFrameAt + silence_ms - clock.now();
    if (left <= 0) this.#lose(attempt, LOST, "the server fell silent");
    else attempt.timer = clock.setTimeout(() => this.#watchTicks(attempt, silence_ms), left);
  }

  // ------------------------------------------------------------------------------------------------- requests

  #ask(attempt: Attempt, op: string, fields: object): Promise<unknown> {
    const { codec } = this.#options;
    const id = ++this.#lastId;
    const data = codec.encode({ op, id, ...fields });
    const bound = attempt.welcome?.limits.max_request;
    if (bound !== undefined && sizeOf(data) > bound) {
      const message = `the request has ${sizeOf(data)} bytes, the server takes ${bound}`;
      return Promise.reject(new TurnwireError("too_large", message, { retryable: false }));
    }
    attempt.socket?.send(data);
    return attempt.pending.add(id, op);
  }

  #transmit(attempt: Attempt, frame: object): void {
    attempt.socket?.send(this.#options.codec.encode(frame));
  }

  // ---------------------------------------------------------------------------------------------------- losing

  #lose(attempt: Attempt, code: number, reason: string): void {
    if (attempt !== this.#attempt) return;
    const { clock, getToken } = this.#options;
    this.#abandon(code, reason);
    const decision = this.#policy.lost(code, clock.now());
    if (decision.action === "stop" || (decision.refresh_token && !getToken)) {
      this.#stop(code, reason);
      return;
    }
    this.#refreshToken ||= decision.refresh_token;
    this.#retryTimer = clock.setTimeout(() => this.#retryNow(), decision.delay_ms);
    this.#setState({ status: "reconnecting", code, reason });
  }

  #retryNow(): void {
    this.#options.clock.clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
    this.#open();
  }

  /** Lets go of the present socket; whatever it still says is ignored, and its open requests fail. */
  #abandon(code: number, reason: string): void {
    const { clock } = this.#options;
    clock.clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
    const attempt = this.#attempt;
    this.#attempt = undefined;
    if (!attempt) return;
    clock.clearTimeout(attempt.timer);
    clock.clearTimeout(attempt.probe);
    attempt.socket?.close(closable(code), reason.slice(0, 30));
    attempt.pending.loseAll();
  }

  #stop(code: number, reason: string): void {
    this.#stopWaking?.();
    this.#stopWaking = undefined;
    this.#setState({ status: "closed", code, reason });
  }

  #setState(state: ConnectionState): void {
    this.#state = state;
    this.#observer.onState(state);
  }
}

/** A page may close with 1000 and 3000-4999 only. */
const closable = (code: number): number => (code >= 3000 && code <= 4999 ? code : NORMAL);

const utf8 = new TextEncoder();
const sizeOf = (data: string | Uint8Array): number =>
  typeof data === "string" ? utf8.encode(data).length : data.length;

/** What a request gets that was waiting for a connection which will not come. */
export const closedError = (state: ConnectionState): TurnwireError => closed(state.reason ?? state.status);
