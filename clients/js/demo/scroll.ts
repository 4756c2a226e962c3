/**
 * Scrolling: stays at the end while it is there; else what is read stays in its place, whatever changes above it:
 * older Messages that come, or Messages that turn out higher than they were taken for while they were out of sight.
 *
 * Browsers would do this themselves (`overflow-anchor`), but not all of them, and none of them at the upper edge.
 */

import type { RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Nearer to an edge than this counts as being there. */
const END_PX = 40;
const START_PX = 1_200;

interface Scroll {
  readonly scroller: RefObject<HTMLElement | null>;
  readonly content: RefObject<HTMLDivElement | null>;
  readonly atEnd: boolean;
  readonly toEnd: () => void;
}

const distanceToEnd = (box: HTMLElement): number => box.scrollHeight - box.clientHeight - box.scrollTop;

/** `loadOlder` is called near the upper edge; it is undefined while it must not be. */
export function useScroll(loadOlder: (() => void) | undefined): Scroll {
  const scroller = useRef<HTMLElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const stick = useRef(true);
  const anchor = useRef<Anchor>(undefined);
  /** Where the scroller stood when it was last looked at. */
  const top = useRef(0);
  const [atEnd, setAtEnd] = useState(true);
  const older = useRef(loadOlder);
  older.current = loadOlder;

  const settle = useCallback(() => {
    const box = scroller.current;
    if (!box) return;
    if (stick.current) box.scrollTop = box.scrollHeight;
    else if (anchor.current) hold(box, anchor.current);
    // Where the end came nearer, the browser has moved it there: when the event tells of that, it is nothing new.
    top.current = box.scrollTop;
    setAtEnd(distanceToEnd(box) <= END_PX);
  }, []);
  const loadIfNear = useCallback(() => {
    if (scroller.current && scroller.current.scrollTop < START_PX) older.current?.();
  }, []);

  // What may be loaded now, and could not be before, may be near already.
  const canLoad = loadOlder !== undefined;
  useLayoutEffect(() => {
    if (!canLoad) return;
    settle();
    loadIfNear();
  }, [canLoad, settle, loadIfNear]);
  useEffect(() => {
    const box = scroller.current;
    const inner = content.current;
    if (!box || !inner) return;
    const onScroll = (): void => {
      // Only a movement upwards is the user's, by whatever means: no event tells of a search in the page or of a screen
      // reader. Growth alone also brings the end further away.
      if (distanceToEnd(box) <= END_PX) stick.current = true;
      else if (box.scrollTop < top.current) stick.current = false;
      top.current = box.scrollTop;
      anchor.current = stick.current ? undefined : findAnchor(box, inner);
      setAtEnd(distanceToEnd(box) <= END_PX);
      loadIfNear();
    };
    // It is called after layout and before painting, so no step of this is ever seen. To ask after each rendering where
    // things are would lay out everything once more, which in a long conversation is most of the work of a frame.
    const observer = new ResizeObserver(() => {
      settle();
      loadIfNear();
    });
    observer.observe(inner);
    observer.observe(box);
    box.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      observer.disconnect();
      box.removeEventListener("scroll", onScroll);
    };
  }, [settle, loadIfNear]);

  const toEnd = useCallback(() => {
    stick.current = true;
    settle();
  }, [settle]);
  return { scroller, content, atEnd, toEnd };
}

/** A Message that is read, and where on the screen it stands. */
interface Anchor {
  readonly element: Element;
  readonly top: number;
}

const topOf = (element: Element): number => element.getBoundingClientRect().top;

/** The first Message that is at least partly in sight. */
function findAnchor(box: HTMLElement, content: HTMLElement): Anchor | undefined {
  const edge = topOf(box);
  const group = firstBelow([...content.querySelectorAll(".group")], edge);
  const element = group && firstBelow([...group.querySelectorAll("[data-message-id]")], edge);
  return element && { element, top: topOf(element) };
}

/** The first of elements in a column whose end is below the edge, by halving. */
function firstBelow(elements: readonly Element[], edge: number): Element | undefined {
  let low = 0;
  let high = elements.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((elements[middle]?.getBoundingClientRect().bottom ?? Infinity) <= edge) low = middle + 1;
    else high = middle;
  }
  return elements[low];
}

function hold(box: HTMLElement, { element, top }: Anchor): void {
  if (!element.isConnected) return;
  const moved = topOf(element) - top;
  // Less than a pixel is rounding, and would be corrected for ever.
  if (Math.abs(moved) >= 1) box.scrollTop += moved;
}
