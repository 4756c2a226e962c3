/** Wire: WebSockets without a network, between a client and FakeServer, that can be cut, delayed and left hanging. */

import {
  createClient,
  type Client,
  type ClientOptions,
  type SocketConstructor,
  type SocketLike,
} from "../../src/index.ts";
import { VirtualClock } from "./clock.ts";
import { type FakeConnection, FakeServer } from "./fake_server.ts";

type Handler = ((event: never) => void) | null;

export class Wire {
  readonly clock = new VirtualClock();
  readonly server = new FakeServer(() => this.clock.now());
  readonly sockets: PairSocket[] = [];
  /** Whether new sockets reach the server. */
  reachable = true;
  /** How long each message travels. */
  latency_ms = 1;
  #wake: () => void = () => {};
  #suspend: () => void = () => {};
  wakers = 0;

  /** What a page does when it comes back to the foreground. */
  wake(): void {
    this.#wake();
  }

  /** What a page does when it goes into the back/forward cache. */
  suspend(): void {
    this.#suspend();
  }

  get socket(): PairSocket {
    const socket = this.sockets.at(-1);
    if (!socket) throw new Error("nothing has connected yet");
    return socket;
  }

  client(options: Partial<ClientOptions> = {}): Client {
    let ids = 0;
    const open = (): PairSocket => new PairSocket(this);
    return createClient({
      url: "ws://server.test/ws",
      clock: this.clock,
      schedule: this.clock.schedule,
      random: () => 0.5,
      newId: () => `c${++ids}`,
      wake: (probe, suspend) => {
        this.#wake = probe;
        this.#suspend = suspend;
        this.wakers += 1;
        return () => void (this.wakers -= 1);
      },
      WebSocket: function (): SocketLike {
        return open();
      } as unknown as SocketConstructor,
      ...options,
    });
  }
}

export class PairSocket implements SocketLike {
  binaryType = "blob";
  onopen: Handler = null;
  onmessage: Handler = null;
  onclose: Handler = null;
  onerror: Handler = null;
  /** A black hole: nothing comes through any more and nobody is told (R1). */
  hung = false;
  closedWith: number | undefined;
  readonly #wire: Wire;
  #server: FakeConnection | undefined;
  #gone = false;

  constructor(wire: Wire) {
    this.#wire = wire;
    wire.sockets.push(this);
    this.#later(() => (wire.reachable ? this.#open() : this.drop(1006)));
  }

  send(data: unknown): void {
    this.#later(() => this.#server?.receive(String(data)));
  }

  close(code = 1000): void {
    this.closedWith ??= code;
    this.#later(() => this.drop(code));
  }

  /** Ends the connection as seen from both sides. */
  drop(code: number, reason = ""): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#server?.closed();
    this.#server = undefined;
    this.fire(this.onclose, { code, reason });
  }

  /** Delivers a late event, as a socket does that its owner has given up (R9). */
  fire(handler: Handler, event: object): void {
    handler?.(event as never);
  }

  #open(): void {
    if (this.#gone) return;
    this.#server = this.#wire.server.connect({
      send: (text) => this.#later(() => this.fire(this.onmessage, { data: text })),
      close: (code, reason) => this.#later(() => this.drop(code, reason)),
    });
    this.fire(this.onopen, {});
  }

  #later(run: () => void): void {
    this.#wire.clock.setTimeout(() => {
      if (!this.hung) run();
    }, this.#wire.latency_ms);
  }
}
