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

/**
 * What is kept under a key as JSON. What cannot be read, or does not pass `isValid`, is of another version of the page or
 * of nobody's: it is removed, since the page must not end on it at every load.
 */
export function readJson<T>(
  kept: Keeper,
  key: string,
  isValid: (value: unknown) => value is T,
): T | undefined {
  const text = kept.get(key);
  if (text === undefined) return undefined;
  const value = parse(text);
  if (isValid(value)) return value;
  kept.set(key, undefined);
  return undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Whether a value is a list of which each item passes, as `readJson` asks. */
export const isList =
  <Item>(isItem: (value: unknown) => value is Item) =>
  (value: unknown): value is Item[] =>
    Array.isArray(value) && value.every(isItem);

/** Pairs of a key and a value, as a Map is made of. */
export const isEntries = <Value>(isValue: (value: unknown) => value is Value) =>
  isList(
    (item): item is [string, Value] => Array.isArray(item) && typeof item[0] === "string" && isValue(item[1]),
  );

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
