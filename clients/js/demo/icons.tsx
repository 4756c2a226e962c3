/** Small line drawings, part of the page so that nothing is loaded. They are decoration: words stand beside them. */

const PATHS = {
  check: "M3 8.5l3.2 3.2L13 5",
  cross: "M4 4l8 8M12 4l-8 8",
  hand: "M8 4.5v4M8 11.4v.1M8 1.5l6.8 12H1.2z",
  question: "M6 6a2 2 0 1 1 2.6 1.9c-.4.2-.6.5-.6 1v.6M8 11.9v.1M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13",
  file: "M9 1.5H4v13h8v-10zM9 1.5v3h3",
  clip: "M13 7.5l-5 5a3 3 0 0 1-4.3-4.3l5.6-5.5a2 2 0 0 1 2.8 2.8l-5.5 5.6a1 1 0 0 1-1.4-1.4l5-5",
  copy: "M6 5.5h7.5v8H6zM10 5.5v-3H2.5v8H6",
  fork: "M4.5 5.5v2a2 2 0 0 0 2 2h3a2 2 0 0 0 2-2v-2M8 9.5v2M4.5 2.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3M11.5 2.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3M8 11.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3",
  link: "M6 4H3v9h9v-3M8.5 2.5h5v5M13.5 2.5L7 9",
  more: "M3.5 8v.1M8 8v.1M12.5 8v.1",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  down: "M8 3v10M4 9l4 4 4-4",
  spark: "M8 2v3M8 11v3M2 8h3M11 8h3M4 4l1.8 1.8M10.2 10.2L12 12M12 4l-1.8 1.8M5.8 10.2L4 12",
  wait: "M8 4.5V8l2.5 1.5M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
