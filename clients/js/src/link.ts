/**
 * Link: one WebSocket from its making to its end: requests, and the watch over its liveness (W3, W8).
 *
 * Whatever a socket still says after `end()` reaches nobody, so the old one cannot disturb the next (R9).
 */

import type { Codec } from "./codec.ts";
import type { Clock, SocketConstructor, SocketLike, TimerId } from "./environment.ts";
import { lost, refusal, TurnwireError } from "./errors.ts";
import type { ErrorFrame, ServerFrame, Welcome } from "./frames.ts";

/** From `new WebSocket` to `welcome`; the server itself waits 10 s for `hello`. */
export const OPEN_TIMEOUT_MS = 10_000;
/** How long a connection that is doubted may keep silent after a `ping`. */
export const PROBE_TIMEOUT_MS = 5_000;
export const MISSED_TICKS = 3;
/** Why a connection was lost where nothing came for so long. */
export const SILENT = "the server fell silent";
export const REQUEST_TIMEOUT_MS = 30_000;

const NORMAL = 1000;
/** What is told when no close code came: the connection broke. */
export const LOST = 1006;
/** What a page may close a WebSocket with when more of the same would help nobody. */
export const BAD_FRAME = 4400;

export interface LinkOptions {
  readonly url: string;
  readonly codec: Codec;
  readonly WebSocket: SocketConstructor;
  readonly clock: Clock;
}

export interface LinkObserver {
  onOpen(): void;
  /** Every frame but `result`, and but an `error` that answers a request. */
  onFrame(frame: ServerFrame): void;
  /** Called once, and not at all after `end()`. */
  onLost(code: number, reason: string): void;
}

/** A request that has no answer yet. */
interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: TurnwireError) => void;
  readonly timer: TimerId;
}

export class Link {
  readonly #options: LinkOptions;
  readonly #observer: LinkObserver;
  /** How many times as long as usual silence is borne. */
  readonly #patience: number;
  readonly #pending = new Map<number | undefined, Pending>();
  #socket: SocketLike | undefined;
  #ended = false;
  #lastFrameAt: number;
  #lastId = 0;
  /** Bytes of a request that the server takes; known from `welcome` on. */
  #maxRequest = Infinity;
  /** Open timeout, then the watch for missed ticks. */
  #timer: TimerId;
  #probe: TimerId | undefined;

  constructor(options: LinkOptions, observer: LinkObserver, patience: number) {
    const { clock } = options;
    this.#patience = patience;
    this.#options = options;
    this.#observer = observer;
    this.#lastFrameAt = clock.now();
    this.#timer = clock.setTimeout(() => this.lose("no welcome in time"), OPEN_TIMEOUT_MS);
  }

  open(): void {
    const { url, codec, WebSocket } = this.#options;
    let socket: SocketLike;
    try {
      socket = new WebSocket(url, codec.subprotocol);
    } catch (error) {
      // An address that is none now will not be one later.
      return this.lose(`${error}`, (error as Error).name === "SyntaxError" ? BAD_FRAME : LOST);
    }
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      if (!this.#ended) this.#observer.onOpen();
    };
    socket.onmessage = (event: { data: unknown }) => this.#receive(event.data);
    socket.onclose = (event: { code: number; reason: string }) => this.lose(event.reason, event.code);
    // A close event follows every error event and says more; but Node's `ws` throws where nobody listens.
    socket.onerror = () => {};
  }

  /** Sends a request and gives its result. Rejects with TurnwireError. */
  async ask(op: string, fields: object): Promise<unknown> {
    const id = ++this.#lastId;
    const data = this.#encode({ op, id, ...fields });
    const size = sizeOf(data);
    if (size > this.#maxRequest) throw new TurnwireError("too_large", `${size} bytes of ${this.#maxRequest}`);
    this.#socket?.send(data);
    return new Promise((resolve, reject) => {
      const fail = (): void =>
        this.#take(id)?.reject(new TurnwireError("timeout", `no answer to ${op} in time`, true));
      const timer = this.#options.clock.setTimeout(fail, REQUEST_TIMEOUT_MS);
      this.#pending.set(id, { resolve, reject, timer });
    });
  }

  #encode(frame: object): string | Uint8Array<ArrayBuffer> {
    try {
      return this.#options.codec.encode(frame);
    } catch (error) {
      throw TurnwireError.from("unsendable", error);
    }
  }

  /** Finds out soon whether the connection is alive, and gives up one that is long in coming (R7). */
  probe(): void {
    const { clock } = this.#options;
    if (this.#maxRequest === Infinity) {
      // No welcome so far. A fresh attempt is let be: reasons to doubt come in swarms.
      if (clock.now() - this.#lastFrameAt >= PROBE_TIMEOUT_MS) this.lose("no welcome in time");
      return;
    }
    if (this.#probe !== undefined) return;
    this.#probe = clock.setTimeout(() => this.lose("no answer to ping"), PROBE_TIMEOUT_MS);
    // Whatever comes is an answer.
    this.ask("ping", {}).catch(refusal);
  }

  /** Lets go of the socket: what it still says is ignored, and open requests fail as `lost`. */
  end(code: number, reason: string): void {
    const { clock } = this.#options;
    this.#ended = true;
    clock.clearTimeout(this.#timer);
    clock.clearTimeout(this.#probe);
    this.#socket?.close(closable(code), reason.slice(0, 30));
    // Nobody knows what became of them.
    for (const id of this.#pending.keys()) this.#take(id)?.reject(lost());
  }

  /** Ends it and says so; nothing where it has ended already. */
  lose(reason: string, code = LOST): void {
    if (this.#ended) return;
    this.end(code, reason);
    this.#observer.onLost(code, reason);
  }

  #receive(data: unknown): void {
    if (this.#ended) return;
    const { clock, codec } = this.#options;
    this.#lastFrameAt = clock.now();
    clock.clearTimeout(this.#probe);
    this.#probe = undefined;
    try {
      this.#dispatch(codec.decode(data) as ServerFrame);
    } catch (error) {
      // After a frame that nobody understands the state here is not to be trusted; a new connection brings a new one.
      this.lose(`bad frame: ${error}`);
    }
  }

  #dispatch(frame: ServerFrame): void {
    if (frame.op === "result") return this.#take(frame.id)?.resolve(frame.result);
    if (frame.op === "welcome") this.#welcomed(frame);
    const refused = frame.op === "error" && this.#take(frame.id);
    // What belongs to no request, or to one that has timed out, is the observer's.
    if (refused) refused.reject(TurnwireError.of(frame as ErrorFrame));
    else this.#observer.onFrame(frame);
  }

  /** From now on silence means that the server is gone. */
  #welcomed({ id, tick_ms, limits }: Welcome): void {
    this.#maxRequest = limits.max_request;
    this.#options.clock.clearTimeout(this.#timer);
    this.#watch(tick_ms * MISSED_TICKS * this.#patience);
    this.#take(id)?.resolve(undefined);
  }

  #take(id: number | undefined): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    this.#options.clock.clearTimeout(pending?.timer);
    return pending;
  }

  /** Looks again when the silence so far could first become too long, instead of a timer for each frame. */
  #watch(silence_ms: number): void {
    const { clock } = this.#options;
    const left = this.#lastFrameAt + silence_ms - clock.now();
    // A page that was frozen runs its timers before it is given what had arrived: it has to ask.
    if (left <= -PROBE_TIMEOUT_MS) this.probe();
    else if (left <= 0) return this.lose(SILENT);
    if (!this.#ended)
      this.#timer = clock.setTimeout(() => this.#watch(silence_ms), left > 0 ? left : PROBE_TIMEOUT_MS);
  }
}

/** A page may close with 1000 and 3000-4999 only. */
const closable = (code: number): number => (code < 3000 ? NORMAL : code);

const utf8 = new TextEncoder();
const sizeOf = (data: string | Uint8Array): number =>
  typeof data === "string" ? utf8.encode(data).length : data.length;
