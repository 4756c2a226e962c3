/** Tokens: what `getToken` may give, and when a new one is due (R6). No timers of its own. */

export interface TokenRequest {
  /** The last token was refused, or is about to expire: get a new one. */
  readonly refresh: boolean;
}

export interface ExpiringToken {
  readonly token: string;
  /** Milliseconds since 1970. Left out, it is read from the token where that is a JWT. */
  readonly expires_at?: number | undefined;
}

type Given = string | ExpiringToken | null | undefined;

/** Gives the token for `hello`; undefined or null for a server that asks for none. */
export type GetToken = (request: TokenRequest) => Given | Promise<Given>;

export interface Token {
  readonly token: string | undefined;
  /** How long to wait before the next is asked for; undefined when it does not expire, as far as can be seen. */
  readonly renew_in_ms: number | undefined;
}

/** A new token is asked for when this much of the old one's time is over. */
export const RENEW_AT = 0.8;
/** However short tokens live, they are not asked for more often; nor sooner again when none could be had. */
export const MIN_RENEW_MS = 5_000;
/** Longer waits overflow the timers of browsers, and renewing once a day does no harm. */
export const MAX_RENEW_MS = 86_400_000;

/** Asks for a token. Rejects with whatever `ask` throws. */
export async function getToken(ask: GetToken | undefined, refresh: boolean, now: number): Promise<Token> {
  const given = await ask?.({ refresh });
  const { token, expires_at }: Partial<ExpiringToken> =
    typeof given === "string" ? { token: given } : (given ?? {});
  const left = (expires_at ?? expiryOf(token)) - now;
  // A token that is past its time here: more likely this clock is wrong, and the server has the last word.
  const renew_in_ms = left > 0 ? Math.min(Math.max(left * RENEW_AT, MIN_RENEW_MS), MAX_RENEW_MS) : undefined;
  return { token, renew_in_ms };
}

/** When a JWT expires, in milliseconds since 1970; NaN for any other token. */
export function expiryOf(token: string | undefined): number {
  try {
    const payload = token!.split(".")[1]!;
    const claims = JSON.parse(atob(payload.replace(/-/g, "+").replace(/_/g, "/"))) as { exp: number };
    return claims.exp * 1000;
  } catch {
    return NaN; // not a JWT: nothing is known of its expiry
  }
}
