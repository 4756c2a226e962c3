/**
 * Colours of code. The highlighter is fetched, from this server, when the first code block comes into sight; blocks
 * are coloured when they do, so that a long history costs nothing before it is read.
 */

import createPurifier from "dompurify";
import type { highlight } from "./highlighter.ts";

/** Longer code stays plain: colouring it would stop the page. */
const MOST_CHARACTERS = 60_000;
/** Code up to here is coloured again with every fragment that comes in; longer code when it is complete. */
const LIVE_CHARACTERS = 3_000;
/** Blocks are coloured this much before they come into sight. */
const MARGIN = "400px";

let load: Promise<typeof highlight> | undefined;
let loaded: typeof highlight | undefined;

const languages = new WeakMap<Element, string>();
const purifier = createPurifier(window);

const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      void fetchHighlighter().then(() => paint(target));
    }
  },
  { rootMargin: MARGIN },
);

async function fetchHighlighter(): Promise<void> {
  load ??= import("./highlighter.ts").then((module) => module.highlight);
  loaded = await load;
}

/** Colours the code, at once when it is short, else when it is in sight. */
export function colour(code: Element, language: string): void {
  if (language === "") return;
  languages.set(code, language);
  if (loaded && code.textContent.length <= LIVE_CHARACTERS) paint(code);
  else observer.observe(code);
}

function paint(code: Element): void {
  const text = code.textContent;
  const html = text.length > MOST_CHARACTERS ? undefined : loaded?.(text, languages.get(code) ?? "");
  if (html === undefined) return;
  const painted = purifier.sanitize(html, {
    ALLOWED_TAGS: ["span"],
    ALLOWED_ATTR: ["class"],
    RETURN_DOM_FRAGMENT: true,
  });
  // Colours may be wrong; the text may not.
  if (painted.textContent === text) code.replaceChildren(painted);
}
