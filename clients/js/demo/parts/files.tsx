/** Files and sources: images that are here are shown, other files are offered, addresses elsewhere are links (X5). */

import type { FilePart, SourcePart } from "../../src/index.ts";
import { Icon } from "../icons.tsx";
import { isFollowable, isLocalFile, isLocalImage } from "../urls.ts";

/** What of a file is known also before it is sent. */
export type FileLike = Pick<FilePart, "url" | "media_type" | "filename">;

export function FileItem({ part }: { part: FilePart }) {
  return (
    <div class="file-part" data-part-id={part.part_id}>
      <FileView file={part} />
    </div>
  );
}

export function FileView({ file }: { file: FileLike }) {
  const name = file.filename ?? file.media_type;
  if (file.media_type.startsWith("image/") && isLocalImage(file.url)) {
    return (
      <figure class="image">
        <img src={file.url} alt={file.filename ?? "Image"} loading="lazy" />
        {file.filename !== undefined && <figcaption>{file.filename}</figcaption>}
      </figure>
    );
  }
  const label = (
    <>
      <Icon name="file" />
      <span class="file-name">{name}</span>
      <span class="faint">{sizeOf(file.url)}</span>
    </>
  );
  if (isLocalFile(file.url)) {
    return (
      <a class="file" href={file.url} download={file.filename ?? "file"}>
        {label}
      </a>
    );
  }
  if (!isFollowable(file.url)) return <span class="file">{label}</span>;
  return (
    <a class="file" href={file.url} target="_blank" rel="noopener noreferrer">
      {label}
    </a>
  );
}

const BASE64_BYTES_PER_CHARACTER = 3 / 4;

/** The size of what a data URL holds, in words. */
function sizeOf(url: string): string {
  const comma = url.indexOf(",");
  if (!/^data:/i.test(url) || comma < 0) return "";
  return bytes((url.length - comma - 1) * BASE64_BYTES_PER_CHARACTER);
}

export function bytes(count: number): string {
  if (count < 1_000) return `${Math.round(count)} bytes`;
  return count < 1_000_000 ? `${Math.round(count / 1_000)} kB` : `${(count / 1_000_000).toFixed(1)} MB`;
}

export function SourceItem({ part }: { part: SourcePart }) {
  const label = part.title ?? part.url ?? part.source_id;
  return (
    <p class="source" data-part-id={part.part_id}>
      <Icon name="link" />
      {part.url !== undefined && isFollowable(part.url) ? (
        <a href={part.url} target="_blank" rel="noopener noreferrer">
          {label}
        </a>
      ) : (
        <span>{label}</span>
      )}
    </p>
  );
}
