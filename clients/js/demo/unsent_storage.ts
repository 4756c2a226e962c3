/** Commands that were not sent, kept for this tab: after a reload they go out all the same, under their old ids (S9). */

import type { CommandStorage, UnsentCommand } from "../src/index.ts";
import { isList, readJson, tab } from "./storage.ts";

/** The number goes up when commands are kept in another form. */
const KEY = "turnwire.unsent.1";

const isCommands = isList((value): value is UnsentCommand => {
  const { client_request_id, op, body } = { ...(value as UnsentCommand) };
  const named = typeof client_request_id === "string" && typeof op === "string";
  const { text, parts } = { ...(body as { text?: unknown; parts?: unknown }) };
  return (
    named && typeof body === "object" && (op !== "prompt" || typeof text === "string" || Array.isArray(parts))
  );
});

export const unsentStorage: CommandStorage = {
  load: () => readJson(tab, KEY, isCommands) ?? [],
  save(commands) {
    // Where there is no room they live as long as the page, which asks before it is closed.
    tab.set(KEY, commands.length === 0 ? undefined : JSON.stringify(commands));
  },
};

export const forgetUnsent = (): void => void tab.set(KEY, undefined);
