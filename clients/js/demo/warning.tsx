/** Failed model calls (T5): why, and when the next try comes. */

import { useEffect, useState } from "preact/hooks";
import type { ModelRequestWarning } from "../src/index.ts";

const REQUESTS: Readonly<Record<ModelRequestWarning["request_kind"], string>> = {
  turn: "The model could not be reached",
  title: "No title could be made",
  compaction: "The conversation could not be condensed",
};

export function WarningNote({ warning }: { warning: ModelRequestWarning }) {
  // From when this page heard of it: other machines' clocks are no measure (E4).
  const [at] = useState(() => performance.now());
  const { request_kind, message, attempt, max_attempts, will_retry, retry_in_ms } = warning;
  return (
    <div class="notice warning" role="status" data-warning={warning.code}>
      <p>
        {REQUESTS[request_kind] ?? "A request to the model failed"}: {message}
      </p>
      <p class="faint">
        Attempt {attempt} of {max_attempts}
        {will_retry ? " failed. " : " failed, and there will be no other."}
        {will_retry && <Countdown until={at + (retry_in_ms ?? 0)} />}
      </p>
    </div>
  );
}

const SECOND_MS = 1_000;

/** Seconds until the next try. A screen reader hears of the warning once, not of each second. */
function Countdown({ until }: { until: number }) {
  const [now, setNow] = useState(() => performance.now());
  const left = Math.ceil((until - now) / SECOND_MS);
  useEffect(() => {
    if (left <= 0) return;
    const timer = setTimeout(() => setNow(performance.now()), until - now - (left - 1) * SECOND_MS);
    return () => clearTimeout(timer);
  }, [left, until, now]);
  return <span aria-hidden="true">{left > 0 ? `Trying again in ${left} s.` : "Trying again…"}</span>;
}
