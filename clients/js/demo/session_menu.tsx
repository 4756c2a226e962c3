/** What can be done with a whole Session: rename, let tools run unasked, archive, delete. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Session, SessionHandle } from "../src/index.ts";
import { Dialog } from "./dialog.tsx";
import { useTask } from "./hooks.ts";
import { Icon } from "./icons.tsx";
import { sentence } from "./notices.tsx";

interface SessionMenuProps {
  readonly handle: SessionHandle;
  readonly session: Session;
  readonly live: boolean;
  readonly archived: boolean;
  /** Something changed that the list of Sessions shows. */
  readonly onChange: () => void;
  /** It was brought back from the archive. */
  readonly onBack: () => void;
  /** The Session is out of sight now. */
  readonly onGone: () => void;
  readonly onFault: (text: string) => void;
}

export function SessionMenu(props: SessionMenuProps) {
  const { handle, session, live, archived, onChange, onBack, onGone, onFault } = props;
  const { title, config } = session;
  const [open, setOpen] = useState(false);
  const [dialog, setDialog] = useState<"rename" | "delete">();
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useClickAway(box, open, () => setOpen(false));
  const always = config.approval_mode === "always-allow";
  const task = useTask();
  const run = (work: () => Promise<unknown>, then: () => void): void => {
    setOpen(false);
    task.run(() => work().then(then, (error: unknown) => onFault(sentence(error))));
  };
  const show = (which: "rename" | "delete"): void => {
    setOpen(false);
    setDialog(which);
  };
  return (
    <div
      ref={box}
      class="menu"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !open) return;
        event.preventDefault();
        setOpen(false);
        button.current?.focus();
      }}
    >
      <button
        ref={button}
        type="button"
        class="icon-button quiet"
        aria-label="Session menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <Icon name="more" />
      </button>
      {open && (
        <div class="menu-items" role="group" aria-label="Session">
          <button type="button" disabled={!live} onClick={() => show("rename")}>
            Rename
          </button>
          <button
            type="button"
            disabled={!live}
            aria-pressed={always}
            onClick={() =>
              run(
                () => handle.update({ config: { approval_mode: always ? "ask" : "always-allow" } }),
                onChange,
              )
            }
          >
            {always ? "Ask before tools run" : "Run tools without asking"}
          </button>
          {archived ? (
            <button
              type="button"
              disabled={!live}
              onClick={() => run(() => handle.update({ archived: false }), onBack)}
            >
              Bring back from the archive
            </button>
          ) : (
            <button type="button" disabled={!live} onClick={() => run(() => handle.archive(), onGone)}>
              Archive
            </button>
          )}
          <button type="button" class="danger" disabled={!live} onClick={() => show("delete")}>
            Delete
          </button>
        </div>
      )}
      {dialog === "rename" && (
        <Rename
          title={title ?? ""}
          onRename={async (next) => {
            await handle.update({ title: next });
            onChange();
          }}
          onClose={() => setDialog(undefined)}
        />
      )}
      {dialog === "delete" && (
        <Dialog
          title="Delete this session?"
          action="Delete"
          danger
          onAction={async () => {
            await handle.delete();
            onGone();
          }}
          onClose={() => setDialog(undefined)}
        >
          <p>All of its messages go, in every tab and for good. What it is answering now is stopped.</p>
        </Dialog>
      )}
    </div>
  );
}

const TITLE_CHARACTERS = 200;

interface RenameProps {
  readonly title: string;
  readonly onRename: (title: string) => Promise<void>;
  readonly onClose: () => void;
}

function Rename({ title, onRename, onClose }: RenameProps) {
  const [text, setText] = useState(title);
  const next = text.trim();
  return (
    <Dialog
      title="Rename this session"
      action="Rename"
      ready={next !== ""}
      onAction={() => onRename(next)}
      onClose={onClose}
    >
      <input
        class="text-field wide"
        aria-label="Title"
        maxLength={TITLE_CHARACTERS}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </Dialog>
  );
}

function useClickAway(box: RefObject<HTMLElement | null>, active: boolean, close: () => void): void {
  useEffect(() => {
    if (!active) return;
    const onDown = (event: Event): void => {
      if (!(event.target instanceof Node) || !box.current?.contains(event.target)) close();
    };
    addEventListener("pointerdown", onDown);
    addEventListener("focusin", onDown);
    return () => {
      removeEventListener("pointerdown", onDown);
      removeEventListener("focusin", onDown);
    };
  }, [active]);
}
