/** Drafts: what was typed and not sent, by Session, for as long as the page lives. */

const drafts = new Map<string, string>();
const listeners = new Set<(key: string) => void>();

export const draftOf = (key: string): string => drafts.get(key) ?? "";

export function saveDraft(key: string, text: string): void {
  if (text === "") drafts.delete(key);
  else drafts.set(key, text);
}

/** Puts text back into the composer, before what was typed since. */
export function restoreDraft(key: string, text: string): void {
  const typed = draftOf(key);
  saveDraft(key, typed === "" ? text : `${text}\n${typed}`);
  for (const listener of listeners) listener(key);
}

/** Calls `listener` when a draft was put back. */
export function onRestore(listener: (key: string) => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
