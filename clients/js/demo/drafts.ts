/** Drafts: what was typed and attached and not sent, by Session, for as long as the tab lives. */

import type { PartInput, PromptBody } from "../src/index.ts";
import type { FileLike } from "./parts/files.tsx";
import { isEntries, isList, readJson, tab } from "./storage.ts";

export interface Draft {
  readonly text: string;
  readonly files: readonly FileLike[];
}

export const EMPTY: Draft = { text: "", files: [] };

const KEY = "turnwire.drafts.1";

const isFile = (value: unknown): value is FileLike => {
  const { url, media_type } = { ...(value as FileLike) };
  return typeof url === "string" && typeof media_type === "string";
};
const isFiles = isList(isFile);
const isDraft = (value: unknown): value is Draft => {
  const { text, files } = { ...(value as Draft) };
  return typeof text === "string" && isFiles(files);
};

const drafts = new Map(readJson(tab, KEY, isEntries(isDraft)));

/** Once, when the page goes: a draft may hold megabytes, too much for every key that is pressed. */
addEventListener("pagehide", () => {
  const all = [...drafts];
  // Without the files where there is no room for them.
  if (!put(all)) put(all.map(([key, draft]) => [key, { ...draft, files: [] }]));
});

const put = (all: readonly (readonly [string, Draft])[]): boolean =>
  tab.set(KEY, all.length === 0 ? undefined : JSON.stringify(all));

export const forgetDrafts = (): void => drafts.clear();

const listeners = new Set<(key: string) => void>();

export const draftOf = (key: string): Draft => drafts.get(key) ?? EMPTY;

export const isEmpty = ({ text, files }: Draft): boolean => text.trim() === "" && files.length === 0;

export function saveDraft(key: string, draft: Draft): void {
  if (draft.text === "" && draft.files.length === 0) drafts.delete(key);
  else drafts.set(key, draft);
}

/** Puts a draft back into the composer, before what was typed since. */
export function restoreDraft(key: string, { text, files }: Draft): void {
  const typed = draftOf(key);
  saveDraft(key, {
    text: typed.text === "" ? text : `${text}\n${typed.text}`,
    files: [...files, ...typed.files],
  });
  for (const listener of listeners) listener(key);
}

/** Calls `listener` when a draft was put back. */
export function onRestore(listener: (key: string) => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function promptOf({ text, files }: Draft): PromptBody {
  if (files.length === 0) return { text };
  const parts: PartInput[] = files.map((file) => ({ type: "file", ...file }));
  if (text.trim() !== "") parts.push({ type: "text", text });
  return { parts };
}
