/** The view on the cases of `vectors/merge`, which the Python view passes as well. */

import { describe, expect, test } from "vitest";
import { type Effect, type Page, SessionView, type ViewState } from "../src/index.ts";
import { readVectors } from "./support/vectors.ts";

type Step =
  | { readonly receive: { op: string }; readonly effect: Effect }
  | { readonly add_page: Page; readonly before_sequence?: number; readonly effect?: Effect }
  | { readonly disconnected: true };

interface Case {
  readonly name: string;
  readonly rules: readonly string[];
  readonly session_id: string;
  readonly steps: readonly Step[];
  /** What is absent from the state stands here as null. */
  readonly expect: { readonly [key in keyof ViewState]: unknown };
}

function take(view: SessionView, step: Step): Effect | undefined {
  if ("receive" in step) return view.receive(step.receive);
  if ("add_page" in step) return view.addPage(step.add_page, step.before_sequence);
  view.disconnected();
  return undefined;
}

function compare(view: SessionView, expected: Case["expect"]): void {
  const { state } = view;
  const seen = Object.keys(expected).map((key) => [key, state[key as keyof ViewState] ?? null]);
  expect(Object.fromEntries(seen)).toEqual(expected);
}

for (const { file, cases } of readVectors<Case>("merge")) {
  describe(file, () => {
    for (const { name, rules, session_id, steps, expect: expected } of cases) {
      test(`${rules.join(" ")} ${name}`, () => {
        const view = new SessionView(session_id);
        steps.forEach((step, index) => {
          const effect = "effect" in step ? step.effect : undefined;
          expect(take(view, structuredClone(step)), `step ${index + 1}`).toBe(effect);
        });
        compare(view, expected);
      });

      test(`${rules.join(" ")} ${name}, seen after every step`, () => {
        const view = new SessionView(session_id);
        const untouched = structuredClone(steps);
        const seen: [ViewState, ViewState][] = [];
        for (const step of steps) {
          take(view, step);
          seen.push([view.state, structuredClone(view.state)]);
        }
        compare(view, expected);
        expect(steps).toEqual(untouched);
        for (const [state, copy] of seen) expect(state).toEqual(copy);
      });
    }
  });
}
