/** What the client takes from where it runs: a page, a worker, or neither. */

import { afterEach, describe, expect, test, vi } from "vitest";
import { animationFrame, browserWake, randomId } from "../src/environment.ts";
import { Store } from "../src/store.ts";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

/** A global scope that hears events: a page with a `visibility`, or a worker without. */
function place(visibility?: { state: string }): EventTarget {
  const target = new EventTarget();
  vi.stubGlobal("addEventListener", target.addEventListener.bind(target));
  if (visibility) {
    const document = {
      get visibilityState() {
        return visibility.state;
      },
    };
    vi.stubGlobal("document", document);
  }
  return target;
}

const never = (): void => {
  throw new Error("this was not to happen");
};

describe("R7 the connection is probed", () => {
  test("when a page comes online or goes offline, is shown, or returns from the cache, and not when it is hidden", () => {
    const visibility = { state: "visible" };
    const page = place(visibility);
    const probe = vi.fn();
    const end = browserWake(probe, never);
    for (const event of ["online", "offline", "pageshow", "visibilitychange"])
      page.dispatchEvent(new Event(event));
    expect(probe).toHaveBeenCalledTimes(4);
    visibility.state = "hidden";
    page.dispatchEvent(new Event("visibilitychange"));
    expect(probe).toHaveBeenCalledTimes(4);
    visibility.state = "visible";
    end();
    page.dispatchEvent(new Event("online"));
    expect(probe).toHaveBeenCalledTimes(4);
  });

  test("not when the page goes into the cache: then the connection is let go", () => {
    const page = place({ state: "hidden" });
    const suspend = vi.fn();
    const end = browserWake(never, suspend);
    page.dispatchEvent(new Event("pagehide"));
    expect(suspend).toHaveBeenCalledTimes(1);
    end();
    page.dispatchEvent(new Event("pagehide"));
    expect(suspend).toHaveBeenCalledTimes(1);
  });

  test("when a worker comes online", () => {
    const worker = place();
    const probe = vi.fn();
    const end = browserWake(probe, never);
    worker.dispatchEvent(new Event("online"));
    expect(probe).toHaveBeenCalledTimes(1);
    end();
  });

  test("never, where nothing is heard of", () => {
    expect(() => browserWake(never, never)()).not.toThrow();
  });
});

describe("Z6 listeners are told at frame pace", () => {
  const told = (): Promise<void> => new Promise((resolve) => animationFrame(resolve));

  /** A page that paints when told to. */
  function painted(): { paint: () => void; asked: number } {
    const frames = new Map<number, () => void>();
    const page = {
      asked: 0,
      paint() {
        const due = [...frames.values()];
        frames.clear();
        for (const run of due) run();
      },
    };
    vi.stubGlobal("requestAnimationFrame", (run: () => void) => {
      frames.set(++page.asked, run);
      return page.asked;
    });
    vi.stubGlobal("cancelAnimationFrame", (frame: number) => frames.delete(frame));
    return page;
  }

  test("with the frames of a page that is seen, and once", () => {
    vi.useFakeTimers();
    place({ state: "visible" });
    const page = painted();
    const run = vi.fn();
    animationFrame(run);
    expect(run).not.toHaveBeenCalled();
    page.paint();
    expect(run).toHaveBeenCalledTimes(1);
    vi.runAllTimers();
    expect(run).toHaveBeenCalledTimes(1);
    expect(page.asked).toBe(1);
  });

  test("soon, and once, where the page is hidden before the frame that it had asked for", () => {
    vi.useFakeTimers();
    const visibility = { state: "visible" };
    place(visibility);
    const page = painted();
    const told = vi.fn();
    const store = new Store(animationFrame);
    store.add(told);
    store.changed();
    visibility.state = "hidden";
    vi.runAllTimers();
    expect(told).toHaveBeenCalledTimes(1);
    store.changed();
    vi.runAllTimers();
    expect(told).toHaveBeenCalledTimes(2);
    visibility.state = "visible";
    page.paint();
    expect(told).toHaveBeenCalledTimes(2);
  });

  test.each([["a hidden page", { state: "hidden" }] as const, ["a worker", undefined] as const])(
    "with a timer in %s, where there are none",
    async (_, visibility) => {
      place(visibility);
      vi.stubGlobal("requestAnimationFrame", () => {});
      await told();
    },
  );
});

test("ids are never the same", () => {
  expect(new Set(Array.from({ length: 1_000 }, randomId)).size).toBe(1_000);
  expect(randomId()).toMatch(/^[A-Za-z0-9_.:-]{1,128}$/);
});
