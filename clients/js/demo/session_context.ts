/** What the parts of a conversation may do, besides showing themselves. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Message, SessionHandle } from "../src/index.ts";

export interface SessionTools {
  readonly session: SessionHandle;
  /** Whether what is shown is what the server holds now, so that it can be answered. */
  readonly live: boolean;
  /** Makes a Session of its own from everything up to this Message, and goes there. */
  readonly fork: (message: Message) => void;
  /** Says again what led to this Message. */
  readonly retry: (message: Message) => void;
}

export const SessionContext = createContext<SessionTools | undefined>(undefined);

export function useTools(): SessionTools {
  const tools = useContext(SessionContext);
  if (!tools) throw new Error("this is shown outside of a Session");
  return tools;
}
