/** What this browser keeps between visits. Where it may keep nothing, the page works without. */

export function keep(key: string, value: string): void {
  store()?.setItem(key, value);
}

export const kept = (key: string): string | undefined => store()?.getItem(key) ?? undefined;

function store(): Storage | undefined {
  try {
    return localStorage;
  } catch (error) {
    // Browsers that forbid it throw on the mere mention.
    if (error instanceof DOMException) return undefined;
    throw error;
  }
}
