/** The form that asks for an access token, and says why. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { TokenKeeper } from "./token.ts";

interface TokenFormProps {
  readonly tokens: TokenKeeper;
  readonly title: string;
  /** What was wrong with the last one. */
  readonly fault: string | undefined;
}

export function TokenForm({ tokens, title, fault }: TokenFormProps) {
  const [token, setToken] = useState("");
  const [inBrowser, setInBrowser] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    // It comes anew after a token was refused; then the focus that it had is nobody's.
    if (document.activeElement === document.body) field.current?.focus();
  }, []);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    tokens.give(token.trim(), inBrowser);
    setToken("");
  };
  return (
    <form class="notice token" aria-label="Access token" onSubmit={submit}>
      <label for="token">
        <strong>{title}</strong>
      </label>
      {fault !== undefined && (
        <p class="token-fault" role="alert">
          {fault}
        </p>
      )}
      <div class="token-row">
        <input
          ref={field}
          id="token"
          class="text-field"
          type="password"
          autocomplete="off"
          placeholder="Paste it here"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button class="button primary" type="submit" disabled={token.trim() === ""}>
          Connect
        </button>
      </div>
      <label class="token-keep">
        <input
          type="checkbox"
          checked={inBrowser}
          onChange={(event) => setInBrowser(event.currentTarget.checked)}
        />
        Keep it in this browser, for all tabs
      </label>
    </form>
  );
}
