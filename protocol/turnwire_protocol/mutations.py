"""Mutations: what changed in a Session, published live and never stored (L2, L3).

A Mutation is told apart by two fields, `variant` and, where there is one, `type`. The server only encodes Mutations;
clients read them as plain maps (`view`), so that kinds and fields of a newer server pass through unharmed.
"""

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from turnwire_protocol.messages import Config, Message, StoredJson
from turnwire_protocol.parts import AgentPart, Counter, Id, Ordinal, TimeMs

TurnStatus: TypeAlias = Literal["completed", "failed", "stopped"]
"""How a Turn ended."""

TurnState: TypeAlias = Literal["queued", "running", "completed", "failed", "stopped"]
DeltaType: TypeAlias = Literal["text", "reasoning", "tool_input"]
RequestKind: TypeAlias = Literal["turn", "title", "compaction"]


class _Mutation(Struct, kw_only=True, frozen=True, tag_field="variant"):
    mutation_id: Id
    session_id: Id
    created_at: TimeMs


class MessageMutation(_Mutation, tag="message", kw_only=True, frozen=True):
    """The complete Message as it was committed, at the revision that was committed (S3-S5)."""

    type: Literal["user", "agent"]
    message_id: Id
    sequence: Ordinal
    revision: Ordinal
    turn_id: Id | UnsetType = UNSET
    message: Message | StoredJson


class PartMutation(_Mutation, tag="part", kw_only=True, frozen=True):
    """One complete Part of the live Agent Message; always comes before the Part's first delta (L4)."""

    type: str
    message_id: Id
    revision: Ordinal
    turn_id: Id | UnsetType = UNSET
    part_id: Id
    part: AgentPart


class DeltaMutation(_Mutation, tag="delta", kw_only=True, frozen=True):
    """A fragment to append to a Part's text or input_text; whole characters only (L4)."""

    type: DeltaType
    message_id: Id
    revision: Ordinal
    turn_id: Id | UnsetType = UNSET
    part_id: Id
    delta: str
    tool_call_id: Id | UnsetType = UNSET


class TurnError(Struct, frozen=True):
    code: str
    message: str


class TurnStart(_Mutation, tag="turn", kw_only=True, frozen=True):
    type: Literal["start"] = "start"
    turn_id: Id


class TurnFinish(_Mutation, tag="turn", kw_only=True, frozen=True):
    """The end of a Turn, published exactly once for every `turn_id` that was given out (T1, T2)."""

    type: Literal["finish"] = "finish"
    turn_id: Id
    status: TurnStatus
    error: TurnError | UnsetType = UNSET


class FileChange(Struct, kw_only=True, frozen=True):
    path: str
    status: Literal["added", "modified", "deleted"]
    additions: Counter
    deletions: Counter
    patch: str | UnsetType = UNSET


class FileDiff(_Mutation, tag="file_diff", kw_only=True, frozen=True):
    """Files changed in a Turn: counts and capped patches, never unbounded content (L5)."""

    turn_id: Id
    files: tuple[FileChange, ...]
    additions: Counter
    deletions: Counter


class SessionTitle(_Mutation, tag="session", kw_only=True, frozen=True):
    type: Literal["title"] = "title"
    title: str


class SessionConfig(_Mutation, tag="session", kw_only=True, frozen=True):
    type: Literal["config"] = "config"
    config: Config


class ModelRequestWarning(_Mutation, tag="warning", kw_only=True, frozen=True):
    """One failed model call (T5). `retryable` classifies the failure; `will_retry: false` means no retry follows."""

    type: Literal["model_request"] = "model_request"
    request_kind: RequestKind
    turn_id: Id | UnsetType = UNSET
    code: str
    message: str
    retryable: bool
    attempt: Ordinal
    max_attempts: Ordinal
    will_retry: bool
    retry_in_ms: Counter | UnsetType = UNSET


Mutation: TypeAlias = (
    MessageMutation
    | PartMutation
    | DeltaMutation
    | TurnStart
    | TurnFinish
    | FileDiff
    | SessionTitle
    | SessionConfig
    | ModelRequestWarning
)
MUTATION_TYPES: tuple[type[_Mutation], ...] = (
    MessageMutation,
    PartMutation,
    DeltaMutation,
    TurnStart,
    TurnFinish,
    FileDiff,
    SessionTitle,
    SessionConfig,
    ModelRequestWarning,
)
