/** Starts the chat page: one client, one tree. */

import { render } from "preact";
import { type Client, createClient } from "../src/index.ts";
import { App } from "./app.tsx";
import { TokenKeeper } from "./token.ts";
import { unsentStorage } from "./unsent_storage.ts";

declare global {
  interface Window {
    /** The page's debugging handle: `turnwire.session(id).getSnapshot()` in the browser's console. */
    turnwire: Client;
  }
}

const url = new URL("/ws", location.href);
url.protocol = location.protocol === "https:" ? "wss:" : "ws:";

const tokens = new TokenKeeper(
  () => client.getSnapshot().connection.status === "connected",
  () => client.connect(),
);
const client = createClient({
  url: url.href,
  clientName: "turnwire-page",
  getToken: tokens.getToken,
  storage: unsentStorage,
});
window.turnwire = client;
client.connect();

const root = document.getElementById("app");
if (!root) throw new Error("the page has no #app");
render(<App client={client} tokens={tokens} />, root);
