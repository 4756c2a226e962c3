/** What the client needs from where it runs. All of it can be given, so that tests live on virtual time. */

/** The part of the WebSocket interface that is used; browsers, Node 22 and the `ws` package have it. */
export interface SocketLike {
  binaryType: string;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number, reason?: string): void;
}

export type SocketConstructor = new (url: string, subprotocol: string) => SocketLike;

export type TimerId = unknown;

export interface Clock {
  /** Milliseconds that only ever grow. */
  now(): number;
  /** Milliseconds since 1970, which may jump; only for what others say in such times. */
  date(): number;
  setTimeout(run: () => void, ms: number): TimerId;
  clearTimeout(timer: TimerId): void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => Date.now(),
  setTimeout: (run, ms) => setTimeout(run, ms),
  clearTimeout: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
};

/** Runs `run` soon, once: when the next frame is painted, or at frame pace where nothing is painted. */
export type Schedule = (run: () => void) => void;

const FRAME_MS = 16;
/** A page that is hidden before its next frame is painted gets that one only when it is shown again. */
export const NO_FRAME_MS = 100;

export const animationFrame: Schedule = (run) => {
  // A hidden page gets no animation frames, but its title and its memory should keep up; a worker paints nothing.
  const isSeen = globalThis.document?.visibilityState === "visible";
  const done = (): void => {
    clearTimeout(timer);
    if (isSeen) cancelAnimationFrame(frame);
    run();
  };
  const timer = setTimeout(done, isSeen ? NO_FRAME_MS : FRAME_MS);
  const frame = isSeen ? requestAnimationFrame(done) : 0;
};

/**
 * Calls `probe` when there is reason to doubt the connection (R7), and `suspend` when the place is put to sleep, until
 * the next `probe`; returns how to end that.
 */
export type WakeSource = (probe: () => void, suspend: () => void) => () => void;

/** In a page, or in a worker, which hears of `online` and `offline` only. Elsewhere it never calls. */
export const browserWake: WakeSource = (probe, suspend) => {
  const ended = new AbortController();
  const run = ({ type }: Event): void => {
    if (type === "pagehide") suspend();
    else if (globalThis.document?.visibilityState !== "hidden") probe();
  };
  for (const event of ["online", "offline", "pagehide", "pageshow", "visibilitychange"]) {
    globalThis.addEventListener?.(event, run, ended);
  }
  return () => ended.abort();
};

/** An id that nobody else makes. `crypto.randomUUID` is missing on pages served over plain HTTP. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(36)).join("-");
}
