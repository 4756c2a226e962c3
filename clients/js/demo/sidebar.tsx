/** The list of Sessions, newest activity first. On a narrow screen it is a drawer. */

import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Session } from "../src/index.ts";
import { isComposing } from "./keys.ts";
import { useUnread } from "./seen.ts";
import type { SessionList } from "./session_list.ts";

/** Who uses this page, where the server asked. */
export interface User {
  readonly id: string;
  readonly signOut: () => void;
}

interface SidebarProps {
  readonly list: SessionList;
  readonly chosen: string | undefined;
  readonly open: boolean;
  readonly onSelect: (session_id: string | undefined) => void;
  readonly onClose: () => void;
  readonly user: User | undefined;
}

export function Sidebar({ list, chosen, open, onSelect, onClose, user }: SidebarProps) {
  const nav = useRef<HTMLElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const unread = useUnread();
  useEffect(() => {
    if (open) nav.current?.querySelector<HTMLElement>("button, a")?.focus();
  }, [open]);
  useSearchKey(field);
  const select = (id: string | undefined): void => {
    onSelect(id);
    onClose();
  };
  return (
    <>
      <div class="shade" onClick={onClose} />
      <nav
        ref={nav}
        class="sidebar"
        aria-label="Sessions"
        onKeyDown={(event) => {
          if (event.key !== "Escape" || !open || isComposing(event)) return;
          event.stopPropagation();
          onClose();
        }}
      >
        <div class="sidebar-head">
          <span class="brand">Turnwire</span>
          <button type="button" class="button" onClick={() => select(undefined)}>
            New session
          </button>
        </div>
        <Search list={list} field={field} />
        {list.error !== undefined && <p class="notice error">The list could not be loaded: {list.error}</p>}
        <div class="session-list">
          <ul class="sessions">
            {list.items.map((item) => (
              <li key={item.session_id}>
                <Entry
                  item={item}
                  current={item.session_id === chosen}
                  unread={item.session_id !== chosen && unread(item)}
                  onSelect={select}
                />
              </li>
            ))}
          </ul>
          {list.items.length === 0 && <p class="hint">{emptyWords(list)}</p>}
          {list.more && (
            <button type="button" class="button more" onClick={list.more}>
              More
            </button>
          )}
        </div>
        <button
          type="button"
          class="link-button archived"
          aria-pressed={list.archived}
          onClick={() => list.showArchived(!list.archived)}
        >
          {list.archived ? "Back to the sessions" : "Archived sessions"}
        </button>
        {user && (
          <p class="account">
            <span class="account-name">{user.id}</span>
            <button type="button" class="link-button" onClick={user.signOut}>
              Sign out
            </button>
          </p>
        )}
      </nav>
    </>
  );
}

function emptyWords({ query, archived }: SessionList): string {
  if (query.trim() !== "") return "Nothing found.";
  return archived ? "Nothing is archived." : "No sessions yet.";
}

function Search({ list, field }: { list: SessionList; field: RefObject<HTMLInputElement | null> }) {
  return (
    <input
      ref={field}
      class="text-field search"
      type="search"
      aria-label="Search sessions"
      placeholder={list.archived ? "Search the archive" : "Search"}
      value={list.query}
      onInput={(event) => list.search(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || list.query === "" || isComposing(event)) return;
        // It empties the field, and neither stops an answer nor closes the menu.
        event.preventDefault();
        event.stopPropagation();
        list.search("");
      }}
    />
  );
}

/** Ctrl+K or ⌘K goes to the search. */
function useSearchKey(field: RefObject<HTMLInputElement | null>): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

/** What a Session is called; until it has a title, by what was said last. */
export const nameOf = ({ title, preview }: Session): string => title ?? (preview || "Empty session");

interface EntryProps {
  readonly item: Session;
  readonly current: boolean;
  readonly unread: boolean;
  readonly onSelect: (session_id: string) => void;
}

function Entry({ item, current, unread, onSelect }: EntryProps) {
  return (
    <a
      class="session"
      href={`#/s/${item.session_id}`}
      aria-current={current ? "page" : undefined}
      data-session-id={item.session_id}
      data-executing={item.executing}
      data-unread={unread}
      onClick={(event) => {
        // With a modifier the browser opens a tab of its own.
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        onSelect(item.session_id);
      }}
    >
      <span class="session-title">
        <span class="session-name">{nameOf(item)}</span>
        {item.executing && <span class="running" role="img" aria-label="answering" />}
        {unread && !item.executing && <span class="unread" role="img" aria-label="unread" />}
      </span>
      {item.title !== undefined && item.preview !== undefined && (
        <span class="session-preview">{item.preview}</span>
      )}
    </a>
  );
}
