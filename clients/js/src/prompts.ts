/**
 * PromptQueue: prompts that have no definite answer yet, in the order they were made (S9, Q3).
 *
 * Each is sent under one `client_request_id` until the server answered with a receipt or a refusal, across lost
 * connections, so it runs exactly once. The prompts of one Session go one after the other, which keeps their order.
 */

import type { Clock } from "./environment.ts";
import { TurnwireError } from "./errors.ts";
import type { Fields, PartInput, Receipt } from "./frames.ts";
import { backoff } from "./reconnect.ts";

export type PromptBody = ({ readonly text: string } | { readonly parts: readonly PartInput[] }) & {
  /** Refuse instead of steering or queueing when a Turn runs (Q4). */
  readonly if_idle?: boolean;
  readonly expected_turn_id?: string;
};

export interface UnsentPrompt {
  readonly client_request_id: string;
  readonly session_id: string;
  readonly body: PromptBody;
  /** `waiting` for a connection or the next try; `sending` when it is out and not answered. */
  readonly state: "waiting" | "sending";
  /** How often it was sent: above 0 nobody knows whether the server has it. */
  readonly attempts: number;
}

interface Item {
  prompt: UnsentPrompt;
  readonly resolve: (receipt: Receipt) => void;
  readonly reject: (error: TurnwireError) => void;
}

export interface PromptQueueOptions {
  readonly clock: Clock;
  readonly random: () => number;
  readonly newId: () => string;
  readonly capacity: number;
  readonly isConnected: () => boolean;
  readonly send: (fields: Fields<"prompt">) => Promise<Receipt>;
  readonly onChange: () => void;
}

const NONE: readonly UnsentPrompt[] = [];

export class PromptQueue {
  readonly #options: PromptQueueOptions;
  readonly #items: Item[] = [];
  /** Sessions whose next prompt waits for a time, not for a connection. */
  readonly #pausing = new Set<string>();
  #shown: readonly UnsentPrompt[] = NONE;
  #shownBySession = new Map<string, readonly UnsentPrompt[]>();

  constructor(options: PromptQueueOptions) {
    this.#options = options;
  }

  get unsent(): readonly UnsentPrompt[] {
    return this.#shown;
  }

  unsentOf(session_id: string): readonly UnsentPrompt[] {
    return this.#shownBySession.get(session_id) ?? NONE;
  }

  /** Gives the receipt, or rejects with the server's refusal, `queue_full` or `discarded`. */
  add(session_id: string, body: PromptBody): Promise<Receipt> {
    if (this.#items.length >= this.#options.capacity) {
      const message = `${this.#items.length} prompts are waiting to be sent already`;
      return Promise.reject(new TurnwireError("queue_full", message, { retryable: true }));
    }
    return new Promise((resolve, reject) => {
      const client_request_id = this.#options.newId();
      const prompt = { client_request_id, session_id, body, state: "waiting", attempts: 0 } as const;
      this.#items.push({ prompt, resolve, reject });
      this.#changed();
      this.#pump(session_id);
    });
  }

  /** Gives a prompt up. With `attempts` above 0 the server may have it all the same. */
  discard(client_request_id: string): boolean {
    const item = this.#items.find((other) => other.prompt.client_request_id === client_request_id);
    if (!item) return false;
    this.#remove(item);
    item.reject(new TurnwireError("discarded", "the prompt was discarded", { retryable: false }));
    this.#pump(item.prompt.session_id);
    return true;
  }

  /** There is a connection again: everything that waits goes out. */
  connected(): void {
    this.#pausing.clear();
    for (const session_id of new Set(this.#items.map((item) => item.prompt.session_id))) {
      this.#pump(session_id);
    }
  }

  #pump(session_id: string): void {
    if (!this.#options.isConnected() || this.#pausing.has(session_id)) return;
    const next = this.#items.find((item) => item.prompt.session_id === session_id);
    if (next?.prompt.state === "waiting") void this.#send(next);
  }

  async #send(item: Item): Promise<void> {
    const { client_request_id, session_id, body, attempts } = item.prompt;
    this.#update(item, { state: "sending", attempts: attempts + 1 });
    try {
      const receipt = await this.#options.send({ session_id, client_request_id, ...body });
      this.#remove(item);
      item.resolve(receipt);
    } catch (error) {
      if (!(error instanceof TurnwireError)) throw error;
      this.#failed(item, error);
    }
    this.#pump(session_id);
  }

  #failed(item: Item, error: TurnwireError): void {
    if (!error.retryable) {
      this.#remove(item);
      item.reject(error);
      return;
    }
    this.#update(item, { state: "waiting" });
    if (error.code === "lost") return; // `connected` sends it again
    const { clock, random } = this.#options;
    const { session_id, attempts } = item.prompt;
    this.#pausing.add(session_id);
    clock.setTimeout(
      () => {
        this.#pausing.delete(session_id);
        this.#pump(session_id);
      },
      backoff(attempts, random),
    );
  }

  #update(item: Item, change: Partial<UnsentPrompt>): void {
    item.prompt = { ...item.prompt, ...change };
    this.#changed();
  }

  #remove(item: Item): void {
    const index = this.#items.indexOf(item);
    if (index < 0) return; // discarded while it was out
    this.#items.splice(index, 1);
    this.#changed();
  }

  #changed(): void {
    this.#shown = this.#items.map((item) => item.prompt);
    this.#shownBySession = new Map();
    for (const prompt of this.#shown) {
      const others = this.#shownBySession.get(prompt.session_id) ?? NONE;
      this.#shownBySession.set(prompt.session_id, [...others, prompt]);
    }
    this.#options.onChange();
  }
}
