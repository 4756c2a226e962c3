/** Commands that were not sent, kept for this tab: after a reload they go out all the same, under their old ids (S9). */

import type { CommandStorage, UnsentCommand } from "../src/index.ts";
import { tab } from "./storage.ts";

/** The number goes up when commands are kept in another form. */
const KEY = "turnwire.unsent.1";

export const unsentStorage: CommandStorage = {
  load: () => JSON.parse(tab.get(KEY) ?? "[]") as UnsentCommand[],
  save(commands) {
    // Where there is no room they live as long as the page, which asks before it is closed.
    tab.set(KEY, commands.length === 0 ? undefined : JSON.stringify(commands));
  },
};

export const forgetUnsent = (): void => void tab.set(KEY, undefined);
