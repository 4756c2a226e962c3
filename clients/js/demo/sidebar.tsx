/** The list of Sessions, newest activity first. On a narrow screen it is a drawer. */

import { useEffect, useRef } from "preact/hooks";
import type { Session } from "../src/index.ts";
import type { SessionList } from "./hooks.ts";

interface SidebarProps {
  readonly list: SessionList;
  readonly chosen: string | undefined;
  readonly open: boolean;
  readonly onSelect: (session_id: string | undefined) => void;
  readonly onClose: () => void;
}

export function Sidebar({ list, chosen, open, onSelect, onClose }: SidebarProps) {
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    if (open) nav.current?.querySelector<HTMLElement>("button, a")?.focus();
  }, [open]);
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
          if (event.key !== "Escape" || !open) return;
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
        {list.error !== undefined && <p class="notice error">The list could not be loaded: {list.error}</p>}
        <ul class="sessions">
          {list.items.map((item) => (
            <li key={item.session_id}>
              <Entry item={item} current={item.session_id === chosen} onSelect={select} />
            </li>
          ))}
        </ul>
        {list.more && (
          <button type="button" class="button more" onClick={list.more}>
            More
          </button>
        )}
      </nav>
    </>
  );
}

interface EntryProps {
  readonly item: Session;
  readonly current: boolean;
  readonly onSelect: (session_id: string) => void;
}

function Entry({ item, current, onSelect }: EntryProps) {
  return (
    <a
      class="session"
      href={`#/s/${item.session_id}`}
      aria-current={current ? "page" : undefined}
      data-session-id={item.session_id}
      data-executing={item.executing}
      onClick={(event) => {
        // With a modifier the browser opens a tab of its own.
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        onSelect(item.session_id);
      }}
    >
      <span class="session-title">
        {item.title ?? (item.preview || "Empty session")}
        {item.executing && <span class="running" role="img" aria-label="answering" />}
      </span>
      {item.title !== undefined && item.preview !== undefined && (
        <span class="session-preview">{item.preview}</span>
      )}
    </a>
  );
}
