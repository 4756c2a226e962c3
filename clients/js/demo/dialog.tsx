/** Dialogs: the browser's own, which keep the focus inside, close on Escape and give the focus back. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useTask } from "./hooks.ts";
import { sentence } from "./notices.tsx";

interface DialogProps {
  readonly title: string;
  /** What the button says that does it. */
  readonly action: string;
  readonly danger?: boolean;
  readonly ready?: boolean;
  /** Does it; the dialog closes once this is fulfilled. */
  readonly onAction: () => Promise<void>;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function Dialog({ title, action, danger, ready = true, onAction, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const { busy, run } = useTask();
  const [fault, setFault] = useState<string>();
  useEffect(() => element.current?.showModal(), []);
  const act = (): Promise<void> => {
    setFault(undefined);
    return onAction().then(onClose, (error: unknown) => setFault(sentence(error)));
  };
  return (
    <dialog ref={element} class="dialog" aria-labelledby="dialog-title" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          run(act);
        }}
      >
        <h2 id="dialog-title">{title}</h2>
        {children}
        {fault !== undefined && (
          <p class="notice error" role="alert">
            {fault}
          </p>
        )}
        <div class="choices">
          <button type="submit" class={danger ? "button danger" : "button primary"} disabled={busy || !ready}>
            {action}
          </button>
          <button type="button" class="button" onClick={() => element.current?.close()}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  );
}
