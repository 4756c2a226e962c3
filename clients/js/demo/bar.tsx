/** The bar above a conversation: where one is, and how the connection is. */

import type { ComponentChildren, RefObject } from "preact";
import { useEffect } from "preact/hooks";
import type { Client } from "../src/index.ts";
import { useClient } from "./hooks.ts";
import { Icon } from "./icons.tsx";
import { ConnectionPill } from "./status.tsx";

export interface BarMenu {
  readonly button: RefObject<HTMLButtonElement | null>;
  readonly open: boolean;
  readonly onOpen: () => void;
}

interface BarProps {
  readonly client: Client;
  readonly menu: BarMenu;
  readonly title: string;
  /** Something has come that was not looked at. */
  readonly news?: boolean;
  readonly children?: ComponentChildren;
}

export function Bar({ client, menu, title, news = false, children }: BarProps) {
  const { connection, unsent } = useClient(client);
  useEffect(() => void (document.title = `${news ? "● " : ""}${title} · Turnwire`), [title, news]);
  return (
    <header class="bar">
      <button
        ref={menu.button}
        type="button"
        class="icon-button quiet menu-button"
        aria-label="Sessions"
        aria-expanded={menu.open}
        onClick={menu.onOpen}
      >
        <Icon name="menu" />
      </button>
      <h1 class="bar-title">{title}</h1>
      <ConnectionPill client={client} state={connection} unsent={unsent} />
      {children}
    </header>
  );
}
