/** The composer: Enter sends, Shift+Enter makes a new line, Escape or the Stop button ends the running Turn. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { AttachButton, Attachments, pastedFiles, readFiles, tooLarge } from "./attachments.tsx";
import { type Draft, draftOf, EMPTY, isEmpty, onRestore, saveDraft } from "./drafts.ts";
import { Delivery, type DeliveryMode, useDelivery } from "./delivery.tsx";
import { isComposing } from "./keys.ts";
import { sentence } from "./notices.tsx";

interface ComposerProps {
  /** Whose draft this is. */
  readonly draftKey: string;
  /** Nothing can be sent right now. */
  readonly busy?: boolean;
  /** Nothing can be sent any more, and why. */
  readonly disabled?: string | undefined;
  readonly running?: boolean;
  readonly stopping?: boolean;
  /** Bytes that one request may have. */
  readonly maxRequest?: number | undefined;
  /** `mode` counts while a Turn runs. */
  readonly onSend: (draft: Draft, mode: DeliveryMode) => void;
  readonly onStop?: () => void;
}

export function Composer(props: ComposerProps) {
  const { draftKey, busy = false, disabled, running = false, stopping = false } = props;
  const [draft, change] = useDraft(draftKey);
  const [mode, setMode] = useDelivery();
  const [fault, setFault] = useState<string>();
  const field = useRef<HTMLTextAreaElement>(null);
  const oversized = tooLarge(draft.files, props.maxRequest);
  const sendable = !isEmpty(draft) && !busy && disabled === undefined && oversized === undefined;

  const send = (as: DeliveryMode): void => {
    // What was sent is gone from the drafts before it is gone from the field.
    if (!sendable || isEmpty(draftOf(draftKey))) return;
    props.onSend(draft, as);
    change(EMPTY);
    field.current?.focus();
  };
  const attach = (files: Iterable<File>): void => {
    setFault(undefined);
    readFiles(files).then(
      (read) => change({ ...draftOf(draftKey), files: [...draftOf(draftKey).files, ...read] }),
      (error: unknown) => setFault(`A file could not be read: ${sentence(error)}`),
    );
  };
  useFocus(field, draftKey);

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send(mode);
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        if (!event.dataTransfer?.files.length) return;
        event.preventDefault();
        attach(event.dataTransfer.files);
      }}
    >
      <Attachments
        files={draft.files}
        onRemove={(file) => change({ ...draft, files: draft.files.filter((other) => other !== file) })}
      />
      {(fault ?? oversized) !== undefined && (
        <p class="notice error" role="alert">
          {fault ?? oversized}
        </p>
      )}
      <div class="composer-field" data-text={draft.text}>
        <textarea
          ref={field}
          class="composer-text"
          rows={1}
          aria-label="Message"
          placeholder={disabled ?? "Write a message"}
          disabled={disabled !== undefined}
          value={draft.text}
          onInput={(event) => change({ ...draft, text: event.currentTarget.value })}
          onPaste={(event) => {
            const files = event.clipboardData && pastedFiles(event.clipboardData);
            if (!files?.length) return;
            event.preventDefault();
            attach(files);
          }}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return;
            event.preventDefault();
            send(event.ctrlKey || event.metaKey ? (mode === "queue" ? "steer" : "queue") : mode);
          }}
        />
      </div>
      <div class="composer-row">
        <AttachButton disabled={disabled !== undefined} onFiles={attach} />
        {running && <Delivery mode={mode} onChange={setMode} />}
        <span class="spread" />
        {running && (
          <button
            type="button"
            class="button stop"
            disabled={stopping}
            onClick={props.onStop}
            title="Stop (Escape)"
          >
            {stopping ? "Stopping…" : "Stop"}
          </button>
        )}
        <button type="submit" class="button primary" disabled={!sendable}>
          Send
        </button>
      </div>
    </form>
  );
}

function useDraft(key: string): [Draft, (draft: Draft) => void] {
  const [draft, setDraft] = useState(() => draftOf(key));
  useEffect(() => onRestore((other) => other === key && setDraft(draftOf(key))), [key]);
  const change = (next: Draft): void => {
    saveDraft(key, next);
    setDraft(next);
  };
  return [draft, change];
}

/** The field has the focus when a Session is opened, and when a draft comes back. */
function useFocus(field: RefObject<HTMLTextAreaElement | null>, key: string): void {
  useEffect(() => {
    // On a phone the focus would bring up the keyboard and hide half of what is to be read.
    if (matchMedia("(pointer: fine)").matches) field.current?.focus();
    return onRestore((other) => other === key && field.current?.focus());
  }, [key]);
}
