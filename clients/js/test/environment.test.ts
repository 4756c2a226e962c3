/** What the client takes from where it runs: a page, a worker, or neither. */

import { afterEach, describe, expect, test, vi } from "vitest";
import { animationFrame, browserWake, randomId } from "../src/environment.ts";

afterEach(() => vi.unstubAllGlobals());

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

  test("with the frames of a page that is seen", async () => {
    place({ state: "visible" });
    const requestAnimationFrame = vi.fn((run: () => void) => void setTimeout(run, 1));
    vi.stubGlobal("requestAnimationFrame", requestAnimationFrame);
    await told();
    expect(requestAnimationFrame).toHaveBeenCalledTimes(1);
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
