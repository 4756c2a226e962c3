/** Turnwire's client: `createClient`, and the parts it is made of for those who build their own. */

export { type Client, type ClientOptions, type ClientState, createClient } from "./client.ts";
export { type Codec, CodecError, frameOf, jsonCodec } from "./codec.ts";
export type { CommandOp, CommandStorage, UnsentCommand, UnsentPrompt, PromptBody } from "./commands.ts";
export type { ConnectionState } from "./connection.ts";
export type { Clock, Schedule, SocketConstructor, SocketLike, WakeSource } from "./environment.ts";
export { TurnwireError } from "./errors.ts";
export type * from "./frames.ts";
export type { ConnectionStatus } from "./lifecycle.ts";
export type { Resolution, SessionHandle, SessionState } from "./session.ts";
export type { ExpiringToken, GetToken, TokenRequest } from "./token.ts";
export type * from "./types.ts";
export { type Effect, SessionView, type ViewState, type ViewStatus } from "./view.ts";
