/** Scrolling: stays at the end while it is there, and keeps what is read in place when older Messages come. */

import type { RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Nearer to an edge than this counts as being there. */
const END_PX = 40;
const START_PX = 600;

interface Scroll {
  readonly scroller: RefObject<HTMLElement | null>;
  readonly content: RefObject<HTMLDivElement | null>;
  readonly atEnd: boolean;
  readonly toEnd: () => void;
}

const distanceToEnd = (box: HTMLElement): number => box.scrollHeight - box.clientHeight - box.scrollTop;

/** `loadOlder` is called near the upper edge; it is undefined while it must not be. */
export function useScroll(first: string | undefined, loadOlder: (() => void) | undefined): Scroll {
  const scroller = useRef<HTMLElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const stick = useRef(true);
  const [atEnd, setAtEnd] = useState(true);
  const older = useRef(loadOlder);
  older.current = loadOlder;

  const follow = useCallback(() => {
    const box = scroller.current;
    if (!box) return;
    if (stick.current) box.scrollTop = box.scrollHeight;
    setAtEnd(distanceToEnd(box) <= END_PX);
  }, []);
  const loadIfNear = useCallback(() => {
    if (scroller.current && scroller.current.scrollTop < START_PX) older.current?.();
  }, []);

  useAnchor(scroller, content, first, stick);
  useLayoutEffect(() => {
    follow();
    loadIfNear();
  });
  useEffect(() => {
    const box = scroller.current;
    const inner = content.current;
    if (!box || !inner) return;
    let top = box.scrollTop;
    const onScroll = (): void => {
      // Only a movement upwards is the user's; growth alone also brings the end further away.
      if (distanceToEnd(box) <= END_PX) stick.current = true;
      else if (box.scrollTop < top) stick.current = false;
      top = box.scrollTop;
      setAtEnd(distanceToEnd(box) <= END_PX);
      loadIfNear();
    };
    const observer = new ResizeObserver(follow);
    observer.observe(inner);
    observer.observe(box);
    box.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      observer.disconnect();
      box.removeEventListener("scroll", onScroll);
    };
  }, [follow, loadIfNear]);

  const toEnd = useCallback(() => {
    stick.current = true;
    follow();
  }, [follow]);
  return { scroller, content, atEnd, toEnd };
}

/** Moves the view by as much as was put in above the Message that used to be the first. */
function useAnchor(
  scroller: RefObject<HTMLElement | null>,
  content: RefObject<HTMLDivElement | null>,
  first: string | undefined,
  stick: RefObject<boolean>,
): void {
  const held = useRef<{ id: string; top: number }>(undefined);
  useLayoutEffect(() => {
    const place = (id: string): number | undefined =>
      content.current?.querySelector<HTMLElement>(`[data-message-id="${CSS.escape(id)}"]`)?.offsetTop;
    const before = held.current;
    const now = before && place(before.id);
    if (before && now !== undefined && !stick.current && scroller.current) {
      scroller.current.scrollTop += now - before.top;
    }
    const top = first === undefined ? undefined : place(first);
    held.current = first === undefined || top === undefined ? undefined : { id: first, top };
  });
}
