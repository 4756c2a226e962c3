/** The list of Sessions: kept up to date while it is looked at, searched, and the archived ones apart. */

import { useCallback, useRef, useState } from "preact/hooks";
import type { Client, Session } from "../src/index.ts";
import { sentence } from "./notices.tsx";
import { useRefreshing } from "./refreshing.ts";

export interface SessionList {
  /** Newest activity first; only those that match while something is searched. */
  readonly items: readonly Session[];
  readonly error?: string | undefined;
  readonly more?: () => void;
  readonly refresh: () => void;
  readonly query: string;
  readonly search: (query: string) => void;
  readonly archived: boolean;
  readonly showArchived: (archived: boolean) => void;
}

const PAGE = 50;
/** While something is searched more is looked through. */
const SEARCH_PAGES = 10;
const SEARCH_PAGE = 200;

interface Listed {
  readonly items: readonly Session[];
  readonly has_more: boolean;
  readonly error?: string | undefined;
}

export function useSessionList(client: Client, connected: boolean): SessionList {
  const [pages, setPages] = useState(1);
  const [query, search] = useState("");
  const [archived, setArchived] = useState(false);
  const [listed, setListed] = useState<Listed>({ items: [], has_more: false });
  const searching = query.trim() !== "";
  const latest = useRef(0);
  const refresh = useCallback(() => {
    if (client.getSnapshot().connection.status !== "connected") return;
    const mine = ++latest.current;
    const show = (change: (old: Listed) => Listed): void => {
      // An answer that comes after a younger question is out of date.
      if (mine === latest.current) setListed(change);
    };
    const range = searching ? { pages: SEARCH_PAGES, limit: SEARCH_PAGE } : { pages, limit: PAGE };
    listPages(client, { ...range, archived }).then(
      (page) => show(() => page),
      (error: unknown) => show((old) => ({ ...old, error: sentence(error) })),
    );
  }, [client, pages, searching, archived]);
  useRefreshing(refresh, connected);
  const showArchived = (next: boolean): void => {
    setArchived(next);
    setListed({ items: [], has_more: false });
  };
  return {
    items: searching ? listed.items.filter((item) => matches(item, query)) : listed.items,
    error: listed.error,
    ...(listed.has_more && !searching && { more: () => setPages((old) => old + 1) }),
    refresh,
    query,
    search,
    archived,
    showArchived,
  };
}

/** Whether every word stands in the title or the preview. */
function matches({ title = "", preview = "" }: Session, query: string): boolean {
  const text = `${title} ${preview}`.toLocaleLowerCase();
  return query
    .toLocaleLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

interface Range {
  readonly pages: number;
  readonly limit: number;
  readonly archived: boolean;
}

async function listPages(client: Client, { pages, limit, archived }: Range): Promise<Listed> {
  const items: Session[] = [];
  let before: string | undefined;
  for (let left = pages; ; left -= 1) {
    const page = await client.listSessions({ limit, archived, ...(before !== undefined && { before }) });
    items.push(...page.items);
    before = page.next_before;
    if (left <= 1 || !page.has_more) return { items, has_more: page.has_more };
  }
}
