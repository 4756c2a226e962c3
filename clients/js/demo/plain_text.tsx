/** Text as it is, line breaks kept. */

import { useLayoutEffect, useRef } from "preact/hooks";

/** An element that shows a text Part; `turnwireText` is the Part's exact source text, for tests and tools. */
export interface TextElement extends HTMLDivElement {
  turnwireText?: string;
}

export function PlainText({ part_id, text }: { part_id: string; text: string }) {
  const element = useRef<TextElement>(null);
  useLayoutEffect(() => {
    if (element.current) element.current.turnwireText = text;
  }, [text]);
  return (
    <div ref={element} class="plain" data-part-id={part_id}>
      {text}
    </div>
  );
}
