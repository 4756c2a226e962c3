/** The composer: Enter sends, Shift+Enter makes a new line, Escape or the Stop button ends the running Turn. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { draftOf, onRestore, saveDraft } from "./drafts.ts";

interface ComposerProps {
  /** Whose draft this is. */
  readonly draftKey: string;
  /** Nothing can be sent right now. */
  readonly busy?: boolean;
  /** Nothing can be sent any more, and why. */
  readonly disabled?: string | undefined;
  readonly running?: boolean;
  readonly stopping?: boolean;
  readonly onSend: (text: string) => void;
  readonly onStop?: () => void;
}

const MAX_HEIGHT_PX = 240;

export function Composer(props: ComposerProps) {
  const { draftKey, busy = false, disabled, running = false, stopping = false, onSend, onStop } = props;
  const [text, setText] = useState(() => draftOf(draftKey));
  const field = useRef<HTMLTextAreaElement>(null);
  const sendable = text.trim() !== "" && !busy && disabled === undefined;

  const change = (value: string): void => {
    setText(value);
    saveDraft(draftKey, value);
  };
  const send = (): void => {
    if (!sendable) return;
    onSend(text);
    change("");
    field.current?.focus();
  };

  useEffect(() => {
    // On a phone the focus would bring up the keyboard and hide half of what is to be read.
    if (matchMedia("(pointer: fine)").matches) field.current?.focus();
  }, [draftKey]);
  useEffect(
    () =>
      onRestore((key) => {
        if (key !== draftKey) return;
        setText(draftOf(key));
        field.current?.focus();
      }),
    [draftKey],
  );
  useLayoutEffect(() => fit(field.current), [text]);

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        ref={field}
        class="composer-text"
        rows={1}
        aria-label="Message"
        placeholder={disabled ?? "Write a message"}
        disabled={disabled !== undefined}
        value={text}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={(event) => {
          // While an input method composes, Enter picks a word.
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      {running && (
        <button type="button" class="button stop" disabled={stopping} onClick={onStop} title="Stop (Escape)">
          {stopping ? "Stopping…" : "Stop"}
        </button>
      )}
      <button type="submit" class="button primary" disabled={!sendable}>
        Send
      </button>
    </form>
  );
}

/** As high as its text, up to a bound. */
function fit(field: HTMLTextAreaElement | null): void {
  if (!field) return;
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight, MAX_HEIGHT_PX)}px`;
}
