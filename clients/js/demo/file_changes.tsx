/** What a Turn has changed in files, as history keeps it: counts at once, patches when they are opened (L5). */

import type { DataPart, FileDiff } from "../src/index.ts";
import { Icon } from "./icons.tsx";

type Changes = Pick<FileDiff, "files" | "additions" | "deletions">;

/** The changes that a `data` Part holds, if it is one that does. */
export function changesOf({ data_type, data }: DataPart): Changes | undefined {
  return data_type === "file_diff" && isChanges(data) ? data : undefined;
}

function isChanges(data: unknown): data is Changes {
  const { files, additions, deletions } = { ...(data as object) } as Partial<Changes>;
  return (
    Array.isArray(files) &&
    files.every((file) => typeof file?.path === "string" && areCounts(file.additions, file.deletions)) &&
    areCounts(additions, deletions)
  );
}

const areCounts = (...counts: unknown[]): boolean => counts.every(Number.isInteger);

export function FileChanges({ part_id, changes }: { part_id: string; changes: Changes }) {
  const { files } = changes;
  return (
    <details class="changes" data-part-id={part_id}>
      <summary>
        <Icon name="file" />
        <span>
          {files.length} {files.length === 1 ? "file" : "files"} changed
        </span>
        <Counts {...changes} />
      </summary>
      {files.map((file) => (
        <details class="change" key={file.path}>
          <summary>
            <code>{file.path}</code>
            <span class="faint">{file.status}</span>
            <Counts {...file} />
          </summary>
          {file.patch === undefined ? (
            <p class="faint">The patch is too large to be shown.</p>
          ) : (
            <Patch text={file.patch} />
          )}
        </details>
      ))}
    </details>
  );
}

function Counts({ additions, deletions }: { additions: number; deletions: number }) {
  return (
    <span class="counts">
      <span class="added">
        <span class="unseen">added </span>+{additions}
      </span>{" "}
      <span class="deleted">
        <span class="unseen">deleted </span>−{deletions}
      </span>
    </span>
  );
}

const CLASSES: Readonly<Record<string, string>> = { "+": "added", "-": "deleted", "@": "hunk" };

/** A unified diff, a line at a time, without its head: what file it is about stands above. */
function Patch({ text }: { text: string }) {
  const hunks = text.slice(Math.max(0, text.search(/^@@/m)));
  const lines = hunks.replace(/\n$/, "").split("\n");
  return (
    <pre class="patch" tabIndex={0} aria-label="Patch">
      {lines.map((line, index) => (
        <span class={CLASSES[line.charAt(0)] ?? "same"} key={index}>
          {line}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
