/** What a page asks for again: while somebody looks at it, and no longer than it is told to. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { REFRESH_MS, keepRefreshing, type Looked } from "../demo/refreshing.ts";

class Page extends EventTarget {
  visibilityState: DocumentVisibilityState = "visible";

  becomes(state: DocumentVisibilityState): void {
    this.visibilityState = state;
    this.dispatchEvent(new Event("visibilitychange"));
  }
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("a page that is looked at asks at once, from time to time and when one comes back, until it is told to stop", () => {
  const page = new Page();
  const refresh = vi.fn();
  const stop = keepRefreshing(refresh, page as Looked);
  expect(refresh).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(2 * REFRESH_MS);
  expect(refresh).toHaveBeenCalledTimes(3);
  page.becomes("hidden");
  vi.advanceTimersByTime(5 * REFRESH_MS);
  expect(refresh).toHaveBeenCalledTimes(3);
  page.becomes("visible");
  expect(refresh).toHaveBeenCalledTimes(4);
  stop();
  page.becomes("visible");
  vi.advanceTimersByTime(5 * REFRESH_MS);
  expect(refresh).toHaveBeenCalledTimes(4);
  expect(vi.getTimerCount()).toBe(0);
});
