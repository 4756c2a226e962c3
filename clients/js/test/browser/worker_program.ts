/** What runs in the worker of the test: follows one Session, says one prompt, and posts what it sees. */

import { createClient } from "../../src/index.ts";

const client = createClient({ url: `ws://${location.host}/ws` });
const session = client.session("s1");
const post: (seen: object) => void = postMessage;

client.subscribe(() => post({ connection: client.getSnapshot().connection.status }));
session.subscribe(() => {
  const { messages, status } = session.getSnapshot();
  post({ status, texts: messages.map(({ parts: [part] }) => (part?.type === "text" ? part.text : "")) });
});
client.connect();
void session.prompt("hello").then((receipt) => post({ outcome: receipt.outcome }));
