/** Which addresses may be used for what: nothing is loaded from elsewhere, nothing but http is followed (X5). */

export const parseUrl = (text: string): URL | undefined =>
  URL.canParse(text, document.baseURI) ? new URL(text, document.baseURI) : undefined;

/** Whether showing the image asks nobody outside for anything. */
export function isLocalImage(src: string): boolean {
  const url = parseUrl(src);
  if (url?.protocol === "data:") return /^data:image\//i.test(url.href);
  return url?.origin === location.origin;
}

/** Whether it can be saved from here: the bytes are in the address, or come from this server. */
export function isLocalFile(address: string): boolean {
  const url = parseUrl(address);
  return url?.protocol === "data:" || url?.origin === location.origin;
}

export const isFollowable = (address: string): boolean => /^https?:$/.test(parseUrl(address)?.protocol ?? "");
