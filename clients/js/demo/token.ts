/**
 * The token of a server that asks for one: where it is kept, and how the user is asked for another (X2, R6).
 *
 * It is never part of an address. It is kept for this tab, so that a reload needs none; in the browser, for all tabs and
 * until it is given back, only where the user says so.
 */

import type { GetToken } from "../src/index.ts";
import { expiryOf } from "../src/token.ts";
import { browser, tab } from "./storage.ts";

const KEY = "turnwire.token";
/** A person is asked when no more than this is left, however early a program would see to it. */
const ASK_MS = 5 * 60_000;

export class TokenKeeper {
  readonly #isConnected: () => boolean;
  readonly #onGiven: () => void;
  readonly #listeners = new Set<() => void>();
  /** Takes the token that the standing connection waits for. */
  #renew: ((token: string) => void) | undefined;

  constructor(isConnected: () => boolean, onGiven: () => void) {
    this.#isConnected = isConnected;
    this.#onGiven = onGiven;
    addEventListener("storage", ({ key, newValue }) => {
      // Another tab was given a token for all of them, or gave it back.
      if (key === KEY && newValue !== null) this.#given(newValue);
      else if (key === KEY) location.reload();
    });
  }

  /** For `createClient`. */
  readonly getToken: GetToken = ({ refresh }) => {
    const { token } = this;
    if (refresh && this.#isConnected()) {
      // The same once more is taken, and the next is due when most of what is left is over.
      return expiryOf(token) - Date.now() > ASK_MS ? token : this.#ask();
    }
    // A new connection with the token that there is; when that is refused again the user is asked.
    if (!refresh) this.#settle();
    return token;
  };

  get token(): string | undefined {
    return tab.get(KEY) ?? browser.get(KEY);
  }

  /** Whether the token expires soon, and the connection waits for the next one. */
  getSnapshot(): boolean {
    return this.#renew !== undefined;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  give(token: string, inBrowser: boolean): void {
    tab.set(KEY, inBrowser ? undefined : token);
    browser.set(KEY, inBrowser ? token : undefined);
    this.#given(token);
  }

  forget(): void {
    tab.set(KEY, undefined);
    browser.set(KEY, undefined);
  }

  #ask(): Promise<string> {
    return new Promise((resolve) => {
      this.#renew = resolve;
      this.#tell();
    });
  }

  #given(token: string): void {
    this.#renew?.(token);
    this.#settle();
    this.#onGiven();
  }

  #settle(): void {
    this.#renew = undefined;
    this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}
