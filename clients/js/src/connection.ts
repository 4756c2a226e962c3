/**
 * Connection: one living WebSocket to the server, made anew whenever it is lost (W3, W7, W8).
 *
 * It knows `hello`, tokens and when to come back; Sessions it does not know, their frames go to `onFrame`. What
 * happens on one socket is `link`, when to come back is `reconnect`, which state follows which is `lifecycle`.
 */

import type { Codec } from "./codec.ts";
import { defined } from "./defined.ts";
import type { Clock, SocketConstructor, TimerId, WakeSource } from "./environment.ts";
import { lost, refusal } from "./errors.ts";
import type { Fields, RequestOp, Result, ServerFrame, UnknownFrame, Welcome } from "./frames.ts";
import { after, type ConnectionEvent, type ConnectionStatus } from "./lifecycle.ts";
import { BAD_FRAME, Link, type LinkObserver, LOST, SILENT } from "./link.ts";
import { ReconnectPolicy } from "./reconnect.ts";
import { type GetToken, getToken, MIN_RENEW_MS, type Token } from "./token.ts";

export interface ConnectionState {
  readonly status: ConnectionStatus;
  /** Why the last connection ended, in `reconnecting` and `closed`. */
  readonly code?: number;
  /** The same in words; `draining` in `connected`: the server is about to restart and starts no new Turns (W8). */
  readonly reason?: string;
}

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
const NORMAL = 1000;
const MAX_PATIENCE = 8;
const HELLO_CLOSE_CODES: Readonly<Record<string, number>> = { unauthenticated: 4401, forbidden: 4403 };

/** What those need of a Connection who only send requests. */
export interface Requester {
  readonly isConnected: boolean;
  /** One try: rejects with `lost` when there is no connection. */
  request<Op extends RequestOp>(op: Op, fields: Fields<Op>): Promise<Result<Op>>;
}

export class Connection implements Requester {
  readonly #options: ConnectionOptions;
  readonly #observer: ConnectionObserver;
  readonly #policy: ReconnectPolicy;
  #state: ConnectionState = { status: "idle" };
  #link: Link | undefined;
  #welcome: Welcome | undefined;
  /** Doubled each time that a connection falls silent: on a slow network a frame may need longer than three ticks (R4). */
  #patience = 1;
  #retryTimer: TimerId | undefined;
  #renewTimer: TimerId | undefined;
  #stopWaking: (() => void) | undefined;

  constructor(options: ConnectionOptions, observer: ConnectionObserver) {
    this.#options = options;
    this.#observer = observer;
    this.#policy = new ReconnectPolicy(options.random);
  }

  get state(): ConnectionState {
    return this.#state;
  }

  get isConnected(): boolean {
    return !!this.#welcome;
  }

  /** What the server said of itself, while there is a connection. */
  get welcome(): Welcome | undefined {
    return this.#welcome;
  }

  /** Starts to connect, and keeps at it. Does nothing where that is already so. */
  connect(): void {
    if (!this.#enter("connect")) return;
    this.#policy.reset();
    this.#stopWaking = this.#options.wake(
      () => this.probe(),
      // Some browsers keep no page with an open socket in their back/forward cache; `probe` takes it up again (R7).
      () => this.#link?.lose("asleep"),
    );
    this.#open();
  }

  /** Ends the connection; Turns go on at the server (T4). `connect()` starts anew (R10). */
  disconnect(): void {
    this.#release()?.end(NORMAL, "disconnect");
    this.#enter("disconnect", NORMAL, "disconnect");
  }

  /** Finds out at once whether the connection is alive; while there is none, tries at once (R7). */
  probe(): void {
    this.#link?.probe();
    if (this.#retryTimer !== undefined) this.#open();
  }

  /**
   * Sends a request and gives its result. Rejects with TurnwireError: the server's `error`, or `lost`/`timeout` when
   * no answer came and nobody knows whether it was carried out, or `too_large` without sending.
   */
  async request<Op extends RequestOp>(op: Op, fields: Fields<Op>): Promise<Result<Op>> {
    if (!this.#link || !this.#welcome) throw lost();
    return this.#link.ask(op, fields) as Promise<Result<Op>>;
  }

  // ------------------------------------------------------------------------------------------ opening a socket

  #open(): void {
    const { clock } = this.#options;
    clock.clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
    let token: Token;
    const observer: LinkObserver = {
      onOpen: () => void this.#hello(link, token),
      onFrame: (frame) => this.#receive(frame),
      onLost: (code, reason) => this.#lost(code, reason),
    };
    const link = new Link(this.#options, observer, this.#patience);
    this.#link = link;
    this.#token(this.#policy.refreshToken).then(
      (given) => {
        token = given;
        if (link === this.#link) link.open();
      },
      (error: unknown) => link.lose(`getToken: ${error}`),
    );
  }

  /** The first frame of a connection; on one that stands, how a new token takes the place of the old one. */
  async #hello(link: Link, { token, renew_in_ms }: Token): Promise<void> {
    const fields = defined({ protocol: PROTOCOL, client: this.#options.clientName, token });
    try {
      await link.ask("hello", fields);
    } catch (fault) {
      const error = refusal(fault);
      const verdict = HELLO_CLOSE_CODES[error.code];
      // Where the token cannot be renewed in place, the present one holds until the server says otherwise.
      if (this.#welcome && !verdict) return;
      // A refused hello is a verdict on the connection, whether or not the server closes it itself.
      return link.lose(error.message, verdict ?? (error.retryable ? LOST : BAD_FRAME));
    }
    if (renew_in_ms !== undefined && link === this.#link) this.#renewIn(link, renew_in_ms);
  }

  #renewIn(link: Link, ms: number): void {
    const renew = async (): Promise<void> => {
      // The present token is good for a while yet; when it is not, the server says so.
      const token = await this.#token(true).catch(() => undefined);
      if (link !== this.#link) return;
      if (token) void this.#hello(link, token);
      else this.#renewIn(link, MIN_RENEW_MS);
    };
    this.#renewTimer = this.#options.clock.setTimeout(renew, ms);
  }

  #token(refresh: boolean): Promise<Token> {
    return getToken(this.#options.getToken, refresh, this.#options.clock.date());
  }

  // ------------------------------------------------------------------------------------------------- receiving

  #receive(frame: ServerFrame): void {
    if (frame.op === "welcome") return this.#welcomed(frame);
    if (frame.op === "draining") {
      this.#policy.hint(frame.retry_after_ms);
      this.#state = { ...this.#state, reason: frame.op };
    }
    this.#observer.onFrame(frame);
  }

  #welcomed(welcome: Welcome): void {
    const isFirst = !this.#welcome;
    this.#welcome = welcome;
    if (!isFirst) return;
    this.#policy.connected(this.#options.clock.now());
    this.#enter("welcome");
  }

  // ---------------------------------------------------------------------------------------------------- losing

  #lost(code: number, reason: string): void {
    const { clock } = this.#options;
    this.#release();
    this.#patience = reason === SILENT ? Math.min(this.#patience * 2, MAX_PATIENCE) : 1;
    const delay_ms = this.#policy.lost(code, clock.now());
    if (delay_ms === undefined || (this.#policy.refreshToken && !this.#options.getToken)) {
      this.#enter("stopped", code, reason);
      return;
    }
    this.#retryTimer = clock.setTimeout(() => this.#open(), delay_ms);
    this.#enter("lost", code, reason);
  }

  /** Forgets the present link and everything that was planned for it. */
  #release(): Link | undefined {
    const { clock } = this.#options;
    clock.clearTimeout(this.#retryTimer);
    clock.clearTimeout(this.#renewTimer);
    this.#retryTimer = undefined;
    const link = this.#link;
    this.#link = undefined;
    this.#welcome = undefined;
    return link;
  }

  /** Says whether the event leads anywhere. */
  #enter(event: ConnectionEvent, code?: number, reason?: string): boolean {
    const status = after(this.#state.status, event);
    if (!status) return false;
    if (status === "closed") this.#stopWaking?.();
    this.#state = defined({ status, code, reason });
    this.#observer.onState(this.#state);
    return true;
  }
}
