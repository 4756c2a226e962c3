/** SessionHandle: one Session, live, as a store that user interfaces can subscribe to. */

import type { Clock, Schedule } from "./environment.ts";
import { TurnwireError } from "./errors.ts";
import type { Fields, Receipt, RequestOp, Result, SessionFrame, StopResult } from "./frames.ts";
import type { PromptBody, PromptQueue, UnsentPrompt } from "./prompts.ts";
import { backoff } from "./reconnect.ts";
import { callEach, Store } from "./store.ts";
import type { Mutation } from "./types.ts";
import { type Effect, SessionView, type ViewState, type ViewStatus } from "./view.ts";

/** The view, and what this client itself is about to do. */
export interface SessionState extends ViewState {
  /** Prompts of this Session that the server has not answered yet. */
  readonly unsent: readonly UnsentPrompt[];
  readonly loading_older: boolean;
}

/** What a handle needs from its client. */
export interface SessionHost {
  readonly clock: Clock;
  readonly random: () => number;
  readonly schedule: Schedule;
  readonly prompts: PromptQueue;
  isConnected(): boolean;
  /** One try: rejects with `lost` when there is no connection. */
  request<Op extends RequestOp>(op: Op, fields: Fields<Op>): Promise<Result<Op>>;
  /** Tries until there is an answer. */
  call<Op extends RequestOp>(op: Op, fields: Fields<Op>): Promise<Result<Op>>;
}

export class SessionHandle {
  readonly session_id: string;
  readonly #host: SessionHost;
  readonly #store: Store;
  readonly #mutationListeners = new Set<(mutation: Mutation) => void>();
  #view: SessionView;
  #older: Promise<boolean> | undefined;
  /** Raised by whatever makes an earlier `subscribe` or `reload` out of date. */
  #syncing = 0;
  /** Raised by each snapshot frame that is taken in. */
  #snapshots = 0;
  #state: SessionState | undefined;

  constructor(session_id: string, host: SessionHost) {
    this.session_id = session_id;
    this.#host = host;
    this.#store = new Store(host.schedule);
    this.#view = new SessionView(session_id);
  }

  get status(): ViewStatus {
    return this.#view.status;
  }

  /**
   * Calls `listener` after changes, at most once a frame. The first subscriber makes the Session live, the last
   * one to leave ends that; neither touches the Session or its Turn (T4, L1).
   */
  subscribe(listener: () => void): () => void {
    const remove = this.#store.add(listener);
    if (this.#store.size === 1) this.#join();
    return () => {
      const before = this.#store.size;
      remove();
      if (before === 1 && this.#store.size === 0) this.#leave();
    };
  }

  /** Calls `listener` with every Mutation that changed the view, or told something, at once. */
  onMutation(listener: (mutation: Mutation) => void): () => void {
    this.#mutationListeners.add(listener);
    return () => void this.#mutationListeners.delete(listener);
  }

  /** The same object until something changed, so `useSyncExternalStore` and the like can use it. */
  getSnapshot(): SessionState {
    const view = this.#view.state;
    const unsent = this.#host.prompts.unsentOf(this.session_id);
    const loading_older = this.#older !== undefined;
    const held = this.#state;
    if (held && this.#stateOf === view && held.unsent === unsent && held.loading_older === loading_older) {
      return held;
    }
    this.#stateOf = view;
    this.#state = { ...view, unsent, loading_older };
    return this.#state;
  }
  #stateOf: ViewState | undefined;

  /** Rejects with the server's refusal. Without a connection it waits in `unsent` and is sent later. */
  prompt(body: string | PromptBody): Promise<Receipt> {
    return this.#host.prompts.add(this.session_id, typeof body === "string" ? { text: body } : body);
  }

  /** Gives up a prompt out of `unsent`. */
  discard(client_request_id: string): boolean {
    return this.#host.prompts.discard(client_request_id);
  }

  /** Ends the running Turn and cancels queued prompts (T3). Not repeated by itself: later it could hit another Turn. */
  stop(options: { readonly turn_id?: string } = {}): Promise<StopResult> {
    return this.#host.request("stop", { session_id: this.session_id, ...options });
  }

  /** Loads the page before the oldest Message held; says whether it brought any. */
  loadOlder(limit?: number): Promise<boolean> {
    this.#older ??= this.#loadOlder(limit).finally(() => {
      this.#older = undefined;
      this.#store.changed();
    });
    this.#store.changed();
    return this.#older;
  }

  async #loadOlder(limit: number | undefined): Promise<boolean> {
    const view = this.#view;
    const asked = this.#snapshots;
    const before_sequence = view.state.next_before_sequence;
    if (before_sequence === undefined) return false;
    const { session_id } = this;
    const page = await this.#host.call("messages", {
      session_id,
      before_sequence,
      ...(limit !== undefined && { limit }),
    });
    // A page from before the last snapshot may be older than what that replaced.
    if (view !== this.#view || asked !== this.#snapshots) return false;
    return view.addPage(page, before_sequence) === "applied" && page.items.length > 0;
  }

  // ------------------------------------------------------------------------------------------- for the client

  /** Whether anybody looks at it. */
  get isActive(): boolean {
    return this.#store.size > 0;
  }

  receive(frame: SessionFrame): void {
    if (!this.isActive) return;
    const effect: Effect = this.#view.receive(frame);
    if (frame.op === "snapshot" && effect !== "ignored") this.#snapshots += 1;
    if (effect === "reload") void this.#sync("reload");
    if (effect === "applied" && frame.op === "mutation") callEach(this.#mutationListeners, frame);
    if (effect !== "ignored" && effect !== "buffered") this.#store.changed();
  }

  connected(): void {
    if (this.isActive) void this.#sync("subscribe");
  }

  disconnected(): void {
    this.#syncing += 1;
    this.#view.disconnected();
    this.#store.changed();
  }

  /** Something outside of the view changed that `getSnapshot` shows. */
  changed(): void {
    this.#store.changed();
  }

  #join(): void {
    if (this.#view.status === "error") this.#view = new SessionView(this.session_id);
    if (this.#host.isConnected()) void this.#sync("subscribe");
  }

  #leave(): void {
    this.disconnected();
    if (!this.#host.isConnected()) return;
    // Whether the server heard it is no matter: frames of a Session that nobody looks at are dropped.
    this.#host.request("unsubscribe", { session_id: this.session_id }).catch(onlyRefusals);
  }

  /** Asks for a snapshot until the server has agreed to send one, or refuses for good. */
  async #sync(op: "subscribe" | "reload"): Promise<void> {
    const mine = ++this.#syncing;
    const { clock, random } = this.#host;
    for (let attempt = 1; ; attempt += 1) {
      const error = await this.#try(op);
      if (!error || mine !== this.#syncing || error.code === "lost") return; // `connected` begins anew
      if (error.retryable) {
        await new Promise<void>((resume) => void clock.setTimeout(resume, backoff(attempt, random)));
        if (mine !== this.#syncing) return;
      } else if (op === "reload") {
        op = "subscribe"; // the subscription does not stand any more
      } else {
        this.#view.receive({ op: "unsubscribed", session_id: this.session_id, reason: error.code });
        this.#store.changed();
        return;
      }
    }
  }

  async #try(op: "subscribe" | "reload"): Promise<TurnwireError | undefined> {
    try {
      await this.#host.request(op, { session_id: this.session_id });
      return undefined;
    } catch (error) {
      if (error instanceof TurnwireError) return error;
      throw error;
    }
  }
}

function onlyRefusals(error: unknown): void {
  if (!(error instanceof TurnwireError)) throw error;
}
