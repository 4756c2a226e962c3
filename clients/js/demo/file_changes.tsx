/** What a Turn has changed in files: counts at once, patches when they are opened (L5). */

import type { FileDiff } from "../src/index.ts";
import { Icon } from "./icons.tsx";

export function FileChanges({ changes }: { changes: FileDiff }) {
  const { files } = changes;
  return (
    <details class="changes">
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
