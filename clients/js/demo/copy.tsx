/** Copying: to the clipboard where the browser allows it, with a word on how it went. */

import { useEffect, useState } from "preact/hooks";
import { Icon } from "./icons.tsx";

/** How long a button says that it has copied. */
export const COPIED_MS = 1_500;

/** Gives whether it worked. The clipboard is missing on pages served over plain HTTP, and may be forbidden. */
export async function copyText(text: string): Promise<boolean> {
  if (!("clipboard" in navigator)) return false;
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  );
}

export function CopyButton({ label, text }: { label: string; text: () => string }) {
  const [copied, setCopied] = useState<boolean>();
  useEffect(() => {
    if (copied === undefined) return;
    const timer = setTimeout(() => setCopied(undefined), COPIED_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  const words = copied === undefined ? label : copied ? "Copied" : "Copying is not possible here";
  return (
    <button
      type="button"
      class="tiny-button"
      title={words}
      aria-label={words}
      onClick={() => void copyText(text()).then(setCopied)}
    >
      <Icon name={copied === undefined ? "copy" : copied ? "check" : "cross"} />
    </button>
  );
}
