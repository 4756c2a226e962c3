"""Frames: every map that may travel on the WebSocket, told apart by `op` (W3).

Requests are strict: an unknown field is refused. Answers are only ever encoded here; clients read them as plain maps
and ignore what they do not know.
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from turnwire_protocol.messages import ApprovalMode, Page, Session
from turnwire_protocol.parts import Counter, Id, Ordinal, PartInput, TimeMs

PROTOCOL_VERSION = 1
SUBPROTOCOL_JSON = "turnwire.v1.json"
SUBPROTOCOL_MSGPACK = "turnwire.v1.msgpack"

Title: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Limit: TypeAlias = Annotated[int, Meta(ge=1)]


# --------------------------------------------------------------------------------------------------------- requests


class _Request(Struct, kw_only=True, frozen=True, tag_field="op", forbid_unknown_fields=True):
    id: Ordinal


class Hello(_Request, tag="hello", kw_only=True, frozen=True):
    token: Annotated[str, Meta(max_length=16384)] | UnsetType = UNSET
    client: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    protocol: Ordinal | UnsetType = UNSET


class Ping(_Request, tag="ping", kw_only=True, frozen=True):
    pass


class ConfigChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings to change; those left out stay."""

    model: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    approval_mode: ApprovalMode | UnsetType = UNSET


class SessionCreate(_Request, tag="session.create", kw_only=True, frozen=True):
    session_id: Id | UnsetType = UNSET
    title: Title | UnsetType = UNSET
    config: ConfigChange | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    client_request_id: Id | UnsetType = UNSET


class SessionList(_Request, tag="session.list", kw_only=True, frozen=True):
    before: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    limit: Limit | UnsetType = UNSET
    archived: bool | UnsetType = UNSET


class SessionGet(_Request, tag="session.get", kw_only=True, frozen=True):
    session_id: Id


class SessionUpdate(_Request, tag="session.update", kw_only=True, frozen=True):
    session_id: Id
    title: Title | UnsetType = UNSET
    config: ConfigChange | UnsetType = UNSET
    archived: bool | UnsetType = UNSET


class Subscribe(_Request, tag="subscribe", kw_only=True, frozen=True):
    session_id: Id
    limit: Limit | UnsetType = UNSET
    include_internal: bool | UnsetType = UNSET


class Reload(_Request, tag="reload", kw_only=True, frozen=True):
    session_id: Id


class Unsubscribe(_Request, tag="unsubscribe", kw_only=True, frozen=True):
    session_id: Id


class Messages(_Request, tag="messages", kw_only=True, frozen=True):
    session_id: Id
    before_sequence: Ordinal | UnsetType = UNSET
    limit: Limit | UnsetType = UNSET
    include_internal: bool | UnsetType = UNSET


class Prompt(_Request, tag="prompt", kw_only=True, frozen=True):
    session_id: Id
    client_request_id: Id
    text: str | UnsetType = UNSET
    parts: Annotated[tuple[PartInput, ...], Meta(max_length=256)] | UnsetType = UNSET
    if_idle: bool | UnsetType = UNSET
    expected_turn_id: Id | UnsetType = UNSET


class Stop(_Request, tag="stop", kw_only=True, frozen=True):
    session_id: Id
    turn_id: Id | UnsetType = UNSET


class SessionFork(_Request, tag="session.fork", kw_only=True, frozen=True):
    session_id: Id
    through_message_id: Id | UnsetType = UNSET
    new_session_id: Id | UnsetType = UNSET
    client_request_id: Id | UnsetType = UNSET


class SessionArchive(_Request, tag="session.archive", kw_only=True, frozen=True):
    session_id: Id


class SessionDelete(_Request, tag="session.delete", kw_only=True, frozen=True):
    session_id: Id


class InteractionRespond(_Request, tag="interaction.respond", kw_only=True, frozen=True):
    session_id: Id
    interaction_id: Id
    revision: Counter
    response: dict[str, Any]
    client_request_id: Id | UnsetType = UNSET


class ApprovalResponse(Struct, frozen=True, forbid_unknown_fields=True):
    """What a user says to an approval."""

    decision: Literal["approved", "denied"]
    reason: Annotated[str, Meta(max_length=4000)] | UnsetType = UNSET


class QuestionResponse(Struct, frozen=True, forbid_unknown_fields=True):
    """What a user says to a question: an answer, or several, by `question_id`."""

    answers: dict[str, str | list[str]]


class Interactions(_Request, tag="interactions", kw_only=True, frozen=True):
    session_id: Id


Request: TypeAlias = (
    Hello
    | Ping
    | SessionCreate
    | SessionList
    | SessionGet
    | SessionUpdate
    | Subscribe
    | Reload
    | Unsubscribe
    | Messages
    | Prompt
    | Stop
    | SessionFork
    | SessionArchive
    | SessionDelete
    | InteractionRespond
    | Interactions
)


# ---------------------------------------------------------------------------------------------------------- answers


class Limits(Struct, kw_only=True, frozen=True):
    """What the server holds clients to: bytes for `max_frame`, `max_request` and what ends with `_bytes`, milliseconds
    for what ends with `_ms`, counts for the others.
    """

    max_frame: Ordinal
    max_request: Ordinal
    page: Ordinal
    max_page: Ordinal
    max_subscriptions: Ordinal
    max_depth: Ordinal | UnsetType = UNSET
    max_values: Ordinal | UnsetType = UNSET
    max_fragments: Ordinal | UnsetType = UNSET
    max_requests: Ordinal | UnsetType = UNSET
    max_queued_bytes: Ordinal | UnsetType = UNSET
    requests_per_s: float | UnsetType = UNSET
    request_burst: Ordinal | UnsetType = UNSET
    principal_requests_per_s: float | UnsetType = UNSET
    principal_request_burst: Ordinal | UnsetType = UNSET
    max_connections: Ordinal | UnsetType = UNSET
    max_connections_per_address: Ordinal | UnsetType = UNSET
    max_connections_per_principal: Ordinal | UnsetType = UNSET
    max_sessions_per_principal: Ordinal | UnsetType = UNSET
    hello_bytes: Ordinal | UnsetType = UNSET
    hello_timeout_ms: Ordinal | UnsetType = UNSET


class Principal(Struct, frozen=True):
    id: str


class Welcome(Struct, kw_only=True, frozen=True, tag="welcome", tag_field="op"):
    id: Ordinal
    protocol: Ordinal
    server: str
    limits: Limits
    tick_ms: Ordinal
    principal: Principal


class Tick(Struct, frozen=True, tag="tick", tag_field="op"):
    """Sent every `tick_ms`, whatever else flows: the liveness that a browser can see (W8)."""


class Result(Struct, frozen=True, tag="result", tag_field="op"):
    id: Ordinal
    result: Any


class Error(Struct, kw_only=True, frozen=True, tag="error", tag_field="op"):
    """A refused request, or without `id` a fault that belongs to none (W9)."""

    id: Ordinal | UnsetType = UNSET
    code: str
    message: str
    field: str | UnsetType = UNSET
    retryable: bool
    status: str | UnsetType = UNSET
    response: Any = UNSET
    by: str | UnsetType = UNSET
    at: TimeMs | UnsetType = UNSET


class ActiveTurn(Struct, frozen=True):
    turn_id: Id
    started_at: TimeMs


class QueuedPrompt(Struct, frozen=True):
    turn_id: Id
    message_id: Id


class PendingInteraction(Struct, kw_only=True, frozen=True):
    interaction_id: Id
    interaction_type: Literal["approval", "question"]
    tool_call_id: Id
    message_id: Id
    part_id: Id
    revision: Counter
    request: Any


class Snapshot(Struct, kw_only=True, frozen=True, tag="snapshot", tag_field="op"):
    """The state of a Session at one point (`epoch`, `seq`) of its order; `part` of `parts` frames (W4, W10)."""

    session_id: Id
    epoch: str
    seq: Counter
    session: Session
    page: Page
    turn: ActiveTurn | UnsetType = UNSET
    queue: tuple[QueuedPrompt, ...]
    interactions: tuple[PendingInteraction, ...]
    part: Ordinal
    parts: Ordinal


class ReloadNotice(Struct, frozen=True, tag="reload", tag_field="op"):
    """No further Mutations of this Session come until the client asks for a new snapshot (W6).

    `rolled_back` is reserved.
    """

    session_id: Id
    reason: Literal["lagged", "restarted", "rolled_back"]


class Unsubscribed(Struct, frozen=True, tag="unsubscribed", tag_field="op"):
    session_id: Id
    reason: Literal["deleted", "forbidden"]


class Draining(Struct, frozen=True, tag="draining", tag_field="op"):
    retry_after_ms: Counter


ServerFrame: TypeAlias = Welcome | Tick | Result | Error | Snapshot | ReloadNotice | Unsubscribed | Draining


# ---------------------------------------------------------------------------------------------------------- results


class Joined(Struct, frozen=True):
    """The result of `subscribe` and `reload`: where the snapshot that follows stands."""

    epoch: str
    seq: Counter


class SessionResult(Struct, frozen=True):
    session: Session


class SessionPage(Struct, kw_only=True, frozen=True):
    items: tuple[Session, ...]
    next_before: str | UnsetType = UNSET
    has_more: bool


class Receipt(Struct, kw_only=True, frozen=True):
    """Where a prompt went (T1). A repeated `client_request_id` gives the first receipt, as `duplicate` (S9)."""

    outcome: Literal["started", "steered", "queued", "duplicate"]
    turn_id: Id
    message_id: Id
    sequence: Ordinal


class StopResult(Struct, kw_only=True, frozen=True):
    stopped: bool
    turn_id: Id | UnsetType = UNSET
    cancelled_prompts: Counter
    reason: Literal["stopped", "idle"]


class InteractionAnswer(Struct, frozen=True):
    """How an Interaction ended, for the one who ended it (P7)."""

    status: str
    response: Any


class InteractionList(Struct, frozen=True):
    items: tuple[PendingInteraction, ...]
