/** The token of a server that asks for one: kept for this tab only, never in an address (X2). */

import { useState } from "preact/hooks";

const KEY = "turnwire.token";

export const readToken = (): string | undefined => sessionStorage.getItem(KEY) ?? undefined;

export function TokenForm({ onToken }: { onToken: () => void }) {
  const [token, setToken] = useState("");
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    sessionStorage.setItem(KEY, token);
    onToken();
  };
  return (
    <form class="notice token" onSubmit={submit}>
      <label for="token">This server asks for an access token.</label>
      <div class="token-row">
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button class="button primary" type="submit" disabled={token === ""}>
          Connect
        </button>
      </div>
    </form>
  );
}
