"""Messages, Sessions and pages: what history is made of (M1-M10).

Only shapes live here. `StoredJson` lets a Message that is already JSON text, as the store keeps it, travel into a
frame without being parsed: unknown fields and Part types of a newer writer pass through untouched (P2).
"""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from turnwire_protocol.parts import AgentPart, Counter, Id, Ordinal, TimeMs, UserPart

Visibility: TypeAlias = Literal["visible", "internal"]
MessageState: TypeAlias = Literal["streaming", "done"]
ApprovalMode: TypeAlias = Literal["ask", "always-allow"]


class StoredJson:
    """JSON text of one value, spliced into JSON frames as it is and parsed only for MessagePack ones."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"StoredJson({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredJson) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


class Origin(Struct, frozen=True):
    """Where a forked Message or Session came from."""

    session_id: Id
    message_id: Id | UnsetType = UNSET


class UserMessage(Struct, kw_only=True, frozen=True, tag="user", tag_field="role"):
    message_id: Id
    session_id: Id
    turn_id: Id | UnsetType = UNSET
    sequence: Ordinal
    revision: Ordinal
    visibility: Visibility = "visible"
    created_at: TimeMs
    updated_at: TimeMs
    origin: Origin | UnsetType = UNSET
    parts: tuple[UserPart, ...]


class AgentMessage(Struct, kw_only=True, frozen=True, tag="agent", tag_field="role"):
    """`state` says only whether Parts may still be appended (M7)."""

    message_id: Id
    session_id: Id
    turn_id: Id | UnsetType = UNSET
    sequence: Ordinal
    revision: Ordinal
    state: MessageState
    visibility: Visibility = "visible"
    created_at: TimeMs
    updated_at: TimeMs
    origin: Origin | UnsetType = UNSET
    parts: tuple[AgentPart, ...]


Message: TypeAlias = UserMessage | AgentMessage


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """What a Session runs with; `model` absent means the server's default model."""

    model: str | UnsetType = UNSET
    approval_mode: ApprovalMode = "ask"


class Session(Struct, kw_only=True, frozen=True):
    """A Session as clients see it in `session.get`, `session.list` and every snapshot."""

    session_id: Id
    title: str | UnsetType = UNSET
    config: Config
    metadata: dict[str, Any] | UnsetType = UNSET
    created_at: TimeMs
    updated_at: TimeMs
    archived_at: TimeMs | UnsetType = UNSET
    message_count: Counter
    preview: str | UnsetType = UNSET
    executing: bool
    origin: Origin | UnsetType = UNSET


class Page(Struct, kw_only=True, frozen=True):
    """A page of history (M3): whole Messages, ascending; `total` counts all Messages of the Session."""

    items: tuple[Any, ...]
    total: Counter
    start_sequence: Ordinal | UnsetType = UNSET
    end_sequence: Ordinal | UnsetType = UNSET
    next_before_sequence: Ordinal | UnsetType = UNSET
    has_more: bool
