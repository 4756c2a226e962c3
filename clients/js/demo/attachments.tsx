/** Files that go out with a prompt, as data URLs: chosen, dropped or pasted. */

import { useRef } from "preact/hooks";
import { Icon } from "./icons.tsx";
import { bytes, type FileLike } from "./parts/files.tsx";

/** Reads files into data URLs. Rejects with the browser's reason, such as a file that has gone. */
export function readFiles(files: Iterable<File>): Promise<readonly FileLike[]> {
  return Promise.all(Array.from(files, readFile));
}

function readFile(file: File): Promise<FileLike> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () =>
      resolve({
        url: String(reader.result),
        media_type: file.type || "application/octet-stream",
        ...(file.name !== "" && { filename: file.name }),
      });
    reader.onerror = () => reject(reader.error ?? new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}

/**
 * The files of a clipboard, unless they come along with a text that is meant: cells of a spreadsheet bring a picture of
 * themselves. A file manager, though, brings the names of its files as text.
 */
export function pastedFiles(clipboard: DataTransfer): readonly File[] {
  const files = [...clipboard.files];
  const lines = clipboard.getData("text/plain").trim().split(/\s*\n/);
  return lines.every((line) => line === "" || files.some(({ name }) => line.endsWith(name))) ? files : [];
}

/** Why the files do not fit into one request, or undefined. */
export function tooLarge(files: readonly FileLike[], max_request: number | undefined): string | undefined {
  const total = files.reduce((sum, file) => sum + file.url.length, 0);
  if (max_request === undefined || total < max_request) return undefined;
  return `The files are too large: at most about ${bytes((max_request * 3) / 4)} can be sent with one message.`;
}

interface AttachmentsProps {
  readonly files: readonly FileLike[];
  readonly onRemove: (file: FileLike) => void;
}

export function Attachments({ files, onRemove }: AttachmentsProps) {
  if (files.length === 0) return null;
  return (
    <ul class="attachments" aria-label="Attached files">
      {files.map((file, index) => {
        const name = file.filename ?? file.media_type;
        return (
          <li key={index}>
            {file.media_type.startsWith("image/") ? <img src={file.url} alt="" /> : <Icon name="file" />}
            <span class="file-name">{name}</span>
            <button
              type="button"
              class="tiny-button"
              aria-label={`Remove ${name}`}
              onClick={() => onRemove(file)}
            >
              <Icon name="cross" />
            </button>
          </li>
        );
      })}
    </ul>
  );
}

export function AttachButton({
  disabled,
  onFiles,
}: {
  disabled: boolean;
  onFiles: (files: FileList) => void;
}) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button
        type="button"
        class="icon-button quiet"
        aria-label="Attach files"
        title="Attach files"
        disabled={disabled}
        onClick={() => input.current?.click()}
      >
        <Icon name="clip" />
      </button>
      <input
        ref={input}
        class="unseen"
        type="file"
        multiple
        tabIndex={-1}
        aria-hidden="true"
        onChange={(event) => {
          const { files } = event.currentTarget;
          if (files && files.length > 0) onFiles(files);
          // The same file may be chosen again.
          event.currentTarget.value = "";
        }}
      />
    </>
  );
}
