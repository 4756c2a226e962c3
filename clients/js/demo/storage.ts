/**
 * What the browser keeps: `browser` between visits and for all tabs, `tab` for this tab only, across reloads. Where it
 * may keep nothing, the page works without.
 */

export interface Keeper {
  get(key: string): string | undefined;
  /** Undefined removes. Says whether it could be kept; when not, nothing is kept under this key any more. */
  set(key: string, value: string | undefined): boolean;
}

const keeper = (open: () => Storage): Keeper => ({
  get: (key) => storeOf(open)?.getItem(key) ?? undefined,
  set(key, value) {
    const store = storeOf(open);
    if (value === undefined) store?.removeItem(key);
    else if (!store || !put(store, key, value)) return false;
    return true;
  },
});

export const browser = keeper(() => localStorage);
export const tab = keeper(() => sessionStorage);

function storeOf(open: () => Storage): Storage | undefined {
  try {
    return open();
  } catch (error) {
    // Browsers that forbid it throw on the mere mention.
    if (error instanceof DOMException) return undefined;
    throw error;
  }
}

function put(store: Storage, key: string, value: string): boolean {
  try {
    store.setItem(key, value);
    return true;
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    // What was there before is out of date, although the new value finds no room.
    store.removeItem(key);
    return false;
  }
}
