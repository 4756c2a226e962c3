/** Blocks of Markdown to safe DOM: DOMPurify lets only harmless elements through (X5). */

import createPurifier from "dompurify";
import { type Block, FORMATTING, htmlOf } from "./blocks.ts";
import { isFollowable, isLocalImage } from "./urls.ts";

export function renderBlock(block: Block): DocumentFragment {
  return purifier.sanitize(htmlOf(block), {
    ALLOWED_TAGS: [...FORMATTING, "a", "img"],
    ALLOWED_ATTR: ["href", "src", "alt", "title", "align", "start", "class"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}

const purifier = createPurifier(window);

/** Model text may name the language of its code, and no other class of this page's. */
const LANGUAGE = /^language-[\w+#-]+$/;

purifier.addHook("uponSanitizeAttribute", (node, attribute) => {
  if (attribute.attrName !== "class") return;
  attribute.keepAttr = node.nodeName === "CODE" && LANGUAGE.test(attribute.attrValue);
});

purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A") openApart(node);
  // Code that is wider than the screen must be reachable without a mouse.
  if (node.nodeName === "PRE") node.setAttribute("tabindex", "0");
  if (node.nodeName === "IMG" && !isLocalImage(node.getAttribute("src") ?? ""))
    node.replaceWith(linkTo(node));
});

function openApart(link: Element): void {
  if (!link.hasAttribute("href")) return;
  link.setAttribute("target", "_blank");
  link.setAttribute("rel", "noopener noreferrer");
}

/** A link in the place of an image from elsewhere: it loads when the user says so. */
function linkTo(image: Element): Element {
  const src = image.getAttribute("src") ?? "";
  const words = image.getAttribute("alt") || src;
  const link = image.ownerDocument.createElement("a");
  link.textContent = `Image: ${words}`;
  if (isFollowable(src)) link.setAttribute("href", src);
  openApart(link);
  return link;
}
