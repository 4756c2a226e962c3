/**
 * CommandQueue: commands that have no definite answer yet, in the order they were made (S9, Q3).
 *
 * Each is sent under one `client_request_id` until the server answered with a result or a refusal, across lost
 * connections, so it is carried out exactly once. Commands of one lane go one after the other, which keeps their order.
 *
 * | state     | meaning                                   | leaves it by                                                |
 * |-----------|-------------------------------------------|-------------------------------------------------------------|
 * | `waiting` | for a connection, its lane or its time    | sent -> `sending`                                           |
 * | `sending` | it is out and not answered                | result or refusal -> gone; lost or "not now" -> `waiting`;  |
 * |           |                                           | MAX_FAULTS faults -> `failed`                               |
 * | `failed`  | given up; still there to be seen          | `retry` -> `waiting`                                        |
 *
 * `discard` takes it out of any state. With a `storage` they outlive the program: what it gives back begins as `waiting`,
 * and since nobody is there any more to hear of a refusal, that makes it `failed`.
 */

import type { Requester } from "./connection.ts";
import { defined } from "./defined.ts";
import type { Clock } from "./environment.ts";
import { refusal, TurnwireError } from "./errors.ts";
import type { Fields, OmitEach, PartInput, Result } from "./frames.ts";
import { backoff } from "./reconnect.ts";

/** Requests that change something, and may be sent again without doing it twice. */
export type CommandOp =
  | "prompt"
  | "interaction.respond"
  | "session.create"
  | "session.update"
  | "session.fork"
  | "session.archive"
  | "session.delete";

type Identity = "session_id" | "client_request_id";

export type PromptBody = ({ readonly text: string } | { readonly parts: readonly PartInput[] }) & {
  /** Refuse instead of steering or queueing when a Turn runs (Q4). */
  readonly if_idle?: boolean;
  /** Refuse unless this Turn runs: to steer it, and no other. */
  readonly expected_turn_id?: string;
};

/** The fields of a command besides those that say which one it is. */
export type CommandBody<Op extends CommandOp> = Op extends "prompt"
  ? PromptBody
  : OmitEach<Fields<Op>, Identity>;

export interface UnsentCommand<Op extends CommandOp = CommandOp> {
  readonly client_request_id: string;
  readonly op: Op;
  /** Absent for a Session that is only just being created. */
  readonly session_id?: string;
  /** The other fields of the request. */
  readonly body: CommandBody<Op>;
  readonly state: "waiting" | "sending" | "failed";
  /** How often it was sent: above 0 nobody knows whether the server has it. */
  readonly attempts: number;
  /** What the server said last, when that was no definite answer. */
  readonly error?: TurnwireError;
}

export interface UnsentPrompt extends UnsentCommand<"prompt"> {
  readonly session_id: string;
}

/** Where unsent commands are kept beyond the life of this program, such as `sessionStorage`. */
export interface CommandStorage {
  /** What was saved last. */
  load(): readonly UnsentCommand[];
  /** Called after every change with all that are unsent. */
  save(commands: readonly UnsentCommand[]): void;
}

interface Item {
  command: UnsentCommand;
  /** Waits for its time, not for a connection. */
  pausing: boolean;
  faults: number;
  /** Absent where whoever made the command is gone. */
  readonly settle?: { resolve: (result: never) => void; reject: (error: TurnwireError) => void };
}

export interface CommandQueueOptions {
  readonly clock: Clock;
  readonly random: () => number;
  readonly newId: () => string;
  readonly capacity: number;
  readonly connection: Requester;
  readonly storage?: CommandStorage | undefined;
  readonly onError: (error: TurnwireError) => void;
  /** Called with the Session whose commands have changed, if they belong to one. */
  readonly onChange: (session_id: string | undefined) => void;
}

/** So many answers that say neither yes nor no, and a command is no longer repeated by itself. */
export const MAX_FAULTS = 5;
/** Answers that may come for ever; the others that ask to try again describe a state that ends. */
const FAULTS: readonly string[] = ["internal", "timeout"];
/** Whose request carries the `client_request_id`; the others do the same thing however often they are sent. */
const IDENTIFIED: readonly CommandOp[] = ["prompt", "interaction.respond", "session.create", "session.fork"];

/** The Session's; but an answer must not wait behind a prompt. */
const laneOf = ({ body, session_id, client_request_id }: UnsentCommand): string =>
  (body as { interaction_id?: string }).interaction_id ?? session_id ?? client_request_id;

export class CommandQueue {
  readonly #options: CommandQueueOptions;
  readonly #items: Item[];
  #shown: readonly UnsentCommand[];

  constructor(options: CommandQueueOptions) {
    this.#options = options;
    const stored = this.#stored(() => options.storage?.load()) ?? [];
    this.#shown = stored.map((command) =>
      defined({ ...command, state: "waiting" as const, error: undefined }),
    );
    this.#items = this.#shown.map((command) => ({ command, pausing: false, faults: 0 }));
  }

  get unsent(): readonly UnsentCommand[] {
    return this.#shown;
  }

  /**
   * Gives the result, or rejects with the server's refusal, `queue_full` or `discarded`, or with the last fault when
   * the command has `failed`.
   */
  async add<Op extends CommandOp>(
    op: Op,
    session_id: string | undefined,
    body: CommandBody<Op>,
  ): Promise<Result<Op>> {
    const { capacity, newId } = this.#options;
    if (this.#items.length >= capacity) {
      throw new TurnwireError("queue_full", `${capacity} commands wait already`, true);
    }
    return new Promise((resolve, reject) => {
      const client_request_id = newId();
      const fields = { client_request_id, op, session_id, body, state: "waiting", attempts: 0 } as const;
      const command = defined(fields) as unknown as UnsentCommand;
      const settle = { resolve, reject };
      this.#items.push({ command, pausing: false, faults: 0, settle });
      this.#changed(command);
      this.#pump();
    });
  }

  /** Gives a command up. With `attempts` above 0 the server may have carried it out all the same. */
  discard(client_request_id: string): boolean {
    const item = this.#find(client_request_id);
    if (!item) return false;
    this.#remove(item);
    item.settle?.reject(new TurnwireError("discarded", "discarded"));
    this.#pump();
    return true;
  }

  /** Sends a `failed` command again, under its old id; says whether there is one. */
  retry(client_request_id: string): boolean {
    const item = this.#find(client_request_id);
    if (item?.command.state !== "failed") return false;
    item.faults = 0;
    this.#update(item, { state: "waiting" });
    this.#pump();
    return true;
  }

  /** Where there is a connection now, everything that waits goes out. */
  connectionChanged(): void {
    for (const item of this.#items) item.pausing = false;
    this.#pump();
  }

  #find(client_request_id: string): Item | undefined {
    return this.#items.find((item) => item.command.client_request_id === client_request_id);
  }

  #pump(): void {
    if (!this.#options.connection.isConnected) return;
    const busy = new Set<string>();
    for (const item of this.#items) {
      const { state } = item.command;
      const lane = laneOf(item.command);
      if (state === "failed" || busy.has(lane)) continue;
      busy.add(lane);
      if (state === "waiting" && !item.pausing) void this.#send(item);
    }
  }

  async #send(item: Item): Promise<void> {
    const { client_request_id, op, session_id, body, attempts } = item.command;
    this.#update(item, { state: "sending", attempts: attempts + 1 });
    const id = IDENTIFIED.includes(op) ? client_request_id : undefined;
    const fields = defined({ ...body, session_id, client_request_id: id }) as Fields<CommandOp>;
    try {
      const result = await this.#options.connection.request(op, fields);
      this.#remove(item);
      item.settle?.resolve(result as never);
    } catch (error) {
      this.#failed(item, refusal(error));
    }
    this.#pump();
  }

  #failed(item: Item, error: TurnwireError): void {
    const { code, retryable } = error;
    if (code === "lost") {
      this.#update(item, { state: "waiting" }); // `connected` sends it again
    } else if (retryable && !(FAULTS.includes(code) && ++item.faults >= MAX_FAULTS)) {
      this.#update(item, { state: "waiting", error });
      this.#pause(item);
    } else {
      // A refusal is told to whoever made the command; where there is nobody, it stays to be seen.
      if (!retryable && item.settle) this.#remove(item);
      else this.#update(item, { state: "failed", error });
      item.settle?.reject(error);
    }
  }

  #pause(item: Item): void {
    const { clock, random } = this.#options;
    item.pausing = true;
    clock.setTimeout(
      () => {
        item.pausing = false;
        this.#pump();
      },
      backoff(item.command.attempts, random),
    );
  }

  #update(item: Item, change: Partial<UnsentCommand>): void {
    item.command = { ...item.command, ...change };
    this.#changed(item.command);
  }

  #remove(item: Item): void {
    const index = this.#items.indexOf(item);
    if (index < 0) return; // discarded while it was out
    this.#items.splice(index, 1);
    this.#changed(item.command);
  }

  #changed({ session_id }: UnsentCommand): void {
    const { storage, onChange } = this.#options;
    this.#shown = this.#items.map((item) => item.command);
    this.#stored(() => storage?.save(this.#shown));
    onChange(session_id);
  }

  /** A storage that fails is reported; the commands live on in memory. */
  #stored<T>(access: () => T): T | undefined {
    try {
      return access();
    } catch (error) {
      return void this.#options.onError(TurnwireError.from("storage", error));
    }
  }
}
