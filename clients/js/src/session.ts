/** SessionHandle: one Session, live, as a store that user interfaces can subscribe to. */

import type { CommandBody, CommandQueue, PromptBody, UnsentCommand, UnsentPrompt } from "./commands.ts";
import type { Requester } from "./connection.ts";
import { defined } from "./defined.ts";
import type { Clock, Schedule } from "./environment.ts";
import { refusal } from "./errors.ts";
import type { ErrorFrame, Fields, Receipt, RequestOp, Result, SessionFrame, StopResult } from "./frames.ts";
import { NO_NOTES, noted, type Notes } from "./notes.ts";
import { backoff } from "./reconnect.ts";
import { callEach, Store } from "./store.ts";
import type { ApprovalResponse, Json, Message, Mutation, QuestionResponse, Session } from "./types.ts";
import { type Effect, SessionView, type ViewState, type ViewStatus } from "./view.ts";

/** The view, and what this client itself is about to do. */
export interface SessionState extends ViewState, Notes {
  /** Prompts of this Session that the server has not answered yet, or that were given up. */
  readonly unsent: readonly UnsentPrompt[];
  /** The same for other commands: answers to Interactions, changes of title and config, and so on. */
  readonly commands: readonly UnsentCommand[];
  readonly loading_older: boolean;
}

/** How an Interaction ended: by this answer, or when not `accepted` by another that came first (P7). */
export interface Resolution {
  readonly accepted: boolean;
  /** `resolved`, `denied`, `expired` or `cancelled`. */
  readonly status: string;
  readonly response?: Json;
  /** Who came first, and when; only when not `accepted`, and not when nobody answered. */
  readonly by?: string;
  readonly at?: number;
}

/** What a handle needs from its client. */
export interface SessionHost {
  readonly clock: Clock;
  readonly random: () => number;
  readonly schedule: Schedule;
  readonly commands: CommandQueue;
  readonly connection: Requester;
  /** Nobody looks at this Session any more. */
  onLeave(handle: SessionHandle): void;
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
  #active = false;
  #notes = NO_NOTES;
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
    const { clock } = this.#host;
    const remove = this.#store.add(listener);
    const isAgain = this.#store.size === 1 && this.#view.status === "error";
    if (!this.#active || isAgain) this.#join();
    return () => {
      remove();
      // Not in this very moment: where a page is built anew, others subscribe in the same breath.
      clock.setTimeout(() => this.#leave(), 0);
    };
  }

  /** Calls `listener` with every Mutation that changed the view, or told something, at once. */
  onMutation(listener: (mutation: Mutation) => void): () => void {
    this.#mutationListeners.add(listener);
    return () => void this.#mutationListeners.delete(listener);
  }

  /** The same object until something changed, so `useSyncExternalStore` and the like can use it. */
  getSnapshot(): SessionState {
    if (!this.#state) {
      const mine = this.#host.commands.unsent.filter((command) => command.session_id === this.session_id);
      this.#state = {
        ...this.#view.state,
        ...this.#notes,
        unsent: mine.filter((command) => command.op === "prompt") as UnsentPrompt[],
        commands: mine.filter((command) => command.op !== "prompt"),
        loading_older: !!this.#older,
      };
    }
    return this.#state;
  }

  /** A Message that is held: the same object until it changed. Finding it costs the same however many there are. */
  message(message_id: string): Message | undefined {
    return this.#view.message(message_id);
  }

  /**
   * Rejects with the server's refusal. Without a connection it waits in `unsent` and is sent later. With
   * `expected_turn_id` it steers that Turn or is refused.
   */
  prompt(body: string | PromptBody): Promise<Receipt> {
    return this.#command("prompt", typeof body === "string" ? { text: body } : body);
  }

  /** Gives up a command out of `unsent` or `commands`. */
  discard(client_request_id: string): boolean {
    return this.#host.commands.discard(client_request_id);
  }

  /** Sends a command that has `failed` again; says whether there is one. How it ends is seen in the state. */
  retry(client_request_id: string): boolean {
    return this.#host.commands.retry(client_request_id);
  }

  /**
   * Answers an approval or a question; `revision` is that of the Interaction as it was shown. The first answer counts,
   * the others are told of it. Rejects with `conflict` when the Interaction has changed since it was shown (A5).
   */
  async respond(
    interaction_id: string,
    answer: { readonly revision: number; readonly response: ApprovalResponse | QuestionResponse },
  ): Promise<Resolution> {
    const body = { interaction_id, ...answer };
    try {
      return { accepted: true, ...(await this.#command("interaction.respond", body)) };
    } catch (error) {
      const { code, frame } = refusal(error);
      if (code !== "already_resolved") throw error;
      const { status = "", response, by, at } = frame as ErrorFrame;
      return defined({ accepted: false, status, response, by, at });
    }
  }

  async update(change: CommandBody<"session.update">): Promise<Session> {
    return (await this.#command("session.update", change)).session;
  }

  /** A new Session with the history of this one, up to a Message or all of it. Repeated it makes no second one. */
  async fork(options: CommandBody<"session.fork"> = {}): Promise<Session> {
    return (await this.#command("session.fork", options)).session;
  }

  async archive(): Promise<void> {
    await this.#command("session.archive", {});
  }

  /** Resolves also where there is no such Session any more. */
  async delete(): Promise<void> {
    await this.#command("session.delete", {}).catch((error) => {
      if (refusal(error).code !== "not_found") throw error;
    });
  }

  #command<Op extends UnsentCommand["op"]>(op: Op, body: CommandBody<Op>): Promise<Result<Op>> {
    return this.#host.commands.add(op, this.session_id, body);
  }

  /** Ends the running Turn and cancels queued prompts (T3). Not repeated by itself: later it could hit another Turn. */
  stop(options: { readonly turn_id?: string } = {}): Promise<StopResult> {
    return this.#host.connection.request("stop", { session_id: this.session_id, ...options });
  }

  /** Loads the page before the oldest Message held; says whether it brought any. */
  loadOlder(limit?: number): Promise<boolean> {
    this.#older ??= this.#loadOlder(limit).finally(() => {
      this.#older = undefined;
      this.changed();
    });
    this.changed();
    return this.#older;
  }

  async #loadOlder(limit: number | undefined): Promise<boolean> {
    const view = this.#view;
    const asked = this.#snapshots;
    const before_sequence = view.state.next_before_sequence;
    if (before_sequence === undefined) return false;
    const { session_id } = this;
    const page = await this.#host.call("messages", defined({ session_id, before_sequence, limit }));
    // A page from before the last snapshot may be older than what that replaced.
    if (view !== this.#view || asked !== this.#snapshots) return false;
    return view.addPage(page, before_sequence) === "applied" && page.items.length > 0;
  }

  // ------------------------------------------------------------------------------------------- for the client

  /** Lets go of the state where nobody looks at it. */
  forget(): void {
    if (!this.#active) this.#begin();
  }

  receive(frame: SessionFrame): void {
    if (!this.#active) return;
    const effect: Effect = this.#view.receive(frame);
    if (frame.op === "snapshot" && effect !== "ignored") this.#snapshots += 1;
    if (effect === "reload") void this.#sync("reload");
    if (effect === "applied" && frame.op === "mutation") this.#told(frame);
    if (effect !== "ignored" && effect !== "buffered") this.changed();
  }

  /** There is a connection now, or none any more. */
  connectionChanged(): void {
    if (!this.#active) return;
    if (this.#host.connection.isConnected) void this.#sync("subscribe");
    else this.#stale();
  }

  #stale(): void {
    this.#syncing += 1;
    this.#view.disconnected();
    this.changed();
  }

  /** Something changed that `getSnapshot` shows. */
  changed(): void {
    this.#state = undefined;
    this.#store.changed();
  }

  #told(mutation: Mutation): void {
    this.#notes = noted(this.#notes, mutation);
    callEach(this.#mutationListeners, mutation);
  }

  /** Knows nothing of the Session yet. */
  #begin(): void {
    this.#view = new SessionView(this.session_id);
    this.#notes = NO_NOTES;
    this.changed();
  }

  #join(): void {
    this.#active = true;
    if (this.#view.status === "error") this.#begin();
    if (this.#host.connection.isConnected) void this.#sync("subscribe");
  }

  #leave(): void {
    if (!this.#active || this.#store.size > 0) return;
    this.#active = false;
    this.#stale();
    this.#host.onLeave(this);
    // Whether the server hears it is no matter: frames of a Session that nobody looks at are dropped.
    this.#host.connection.request("unsubscribe", { session_id: this.session_id }).catch(refusal);
  }

  /** Asks for a snapshot until the server has agreed to send one, or refuses for good. */
  async #sync(op: "subscribe" | "reload", attempt = 1): Promise<void> {
    const mine = ++this.#syncing;
    const { clock, random, connection } = this.#host;
    const error = await connection
      .request(op, { session_id: this.session_id })
      .then(() => undefined, refusal);
    if (!error || mine !== this.#syncing || error.code === "lost") return; // `connected` begins anew
    const { session_id } = this;
    const making = this.#host.commands.unsent.some(
      (command) => command.op === "session.create" && command.session_id === session_id,
    );
    if (error.retryable || making) {
      const again = (): unknown => mine === this.#syncing && this.#sync(op, attempt + 1);
      clock.setTimeout(again, backoff(attempt, random));
    } else if (op === "reload") {
      void this.#sync("subscribe"); // the subscription does not stand any more
    } else {
      this.#view.fail(error.code);
      this.changed();
    }
  }
}
