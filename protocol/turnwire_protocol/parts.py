"""Parts: the typed pieces that Messages are made of (P1, P2).

Only shapes live here. Which state may follow which is `lifecycle`; how a client merges Parts is `view`.

Optional fields are `UNSET`, never null: an absent field is left out of the frame. Free-form JSON (`data`, Tool
`input` and `output`) is checked for depth and range where it enters (`codec.check_json`).
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every peer, JavaScript included, holds exactly."""

Id: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:-]{1,128}(?!\n)$")]
Counter: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
Ordinal: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)]
TimeMs: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
"""Milliseconds since the epoch."""

Tag: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,63}(?!\n)$")]
"""The name of a `context` Part at the model boundary (P3)."""

FILE_DIFF = "file_diff"
"""The `data_type` of the agent's `data` Part that keeps what a Turn has changed in files (L5)."""

TextState: TypeAlias = Literal["streaming", "done"]
ToolState: TypeAlias = Literal["input-streaming", "ready", "waiting-user", "running", "completed", "failed"]
InteractionStatus: TypeAlias = Literal["pending", "resolved", "denied", "expired", "cancelled"]
ActionState: TypeAlias = Literal["running", "completed", "failed"]


# ---------------------------------------------------------------------------------------------------- prompt input
# What a client may put into a prompt: User Parts without the identity that the server gives them.


class TextInput(Struct, tag="text", tag_field="type", forbid_unknown_fields=True, frozen=True):
    text: str


class ContextInput(Struct, tag="context", tag_field="type", forbid_unknown_fields=True, frozen=True):
    tag: Tag
    context: str


class FileInput(Struct, tag="file", tag_field="type", forbid_unknown_fields=True, frozen=True):
    url: str
    media_type: Annotated[str, Meta(min_length=1, max_length=255)]
    filename: Annotated[str, Meta(max_length=1024)] | UnsetType = UNSET


class DataInput(Struct, tag="data", tag_field="type", forbid_unknown_fields=True, frozen=True):
    data_type: Annotated[str, Meta(min_length=1, max_length=255)]
    data: Any
    data_id: Id | UnsetType = UNSET


PartInput: TypeAlias = TextInput | ContextInput | FileInput | DataInput


# ----------------------------------------------------------------------------------------------------- stored Parts


class _Part(Struct, tag_field="type", kw_only=True, frozen=True):
    part_id: Id
    sequence: Ordinal
    step_id: Id | UnsetType = UNSET


class TextPart(_Part, tag="text", kw_only=True, frozen=True):
    """Text of either role; only an Agent's text has a `state`."""

    text: str
    state: TextState | UnsetType = UNSET


class ContextPart(_Part, tag="context", kw_only=True, frozen=True):
    """Context of a User Message, stored as given; tagged only at the model boundary (P3)."""

    tag: Tag
    context: str


class FilePart(_Part, tag="file", kw_only=True, frozen=True):
    url: str
    media_type: str
    filename: str | UnsetType = UNSET


class DataPart(_Part, tag="data", kw_only=True, frozen=True):
    data_type: str
    data: Any
    data_id: Id | UnsetType = UNSET


class ReasoningPart(_Part, tag="reasoning", kw_only=True, frozen=True):
    text: str
    state: TextState


class ToolPart(_Part, tag="tool", kw_only=True, frozen=True):
    """One Tool call through all of its states (P4); `input_text` grows while it streams (P5)."""

    tool_call_id: Id
    tool_name: str
    state: ToolState
    input_text: str | UnsetType = UNSET
    input: Any = UNSET
    output: Any = UNSET
    error: str | UnsetType = UNSET
    title: str | UnsetType = UNSET


class InteractionPart(_Part, tag="interaction", kw_only=True, frozen=True):
    """A question to the user. `revision` is the Message revision that last changed this Interaction (P7)."""

    interaction_id: Id
    interaction_type: Literal["approval", "question"]
    tool_call_id: Id
    status: InteractionStatus
    revision: Counter
    request: Any
    response: Any = UNSET
    resolved_by: str | UnsetType = UNSET
    resolved_at: TimeMs | UnsetType = UNSET


class SourcePart(_Part, tag="source", kw_only=True, frozen=True):
    source_type: str
    source_id: str
    url: str | UnsetType = UNSET
    title: str | UnsetType = UNSET


class ActionPart(_Part, tag="action", kw_only=True, frozen=True):
    action_id: Id
    action_type: str
    state: ActionState
    title: str
    description: str | UnsetType = UNSET
    data: Any = UNSET


class ErrorPart(_Part, tag="error", kw_only=True, frozen=True):
    """A stored stop or failure reason (M7)."""

    scope: Literal["session", "turn"]
    code: str
    message: str
    recoverable: bool


UserPart: TypeAlias = TextPart | ContextPart | FilePart | DataPart
AgentPart: TypeAlias = (
    TextPart | ReasoningPart | ToolPart | InteractionPart | FilePart | DataPart | SourcePart | ActionPart | ErrorPart
)
Part: TypeAlias = (
    TextPart
    | ContextPart
    | FilePart
    | DataPart
    | ReasoningPart
    | ToolPart
    | InteractionPart
    | SourcePart
    | ActionPart
    | ErrorPart
)

USER_PART_TYPES = frozenset({"text", "context", "file", "data"})
AGENT_PART_TYPES = frozenset({"text", "reasoning", "tool", "interaction", "file", "data", "source", "action", "error"})


def type_of(part: Part) -> str:
    """The `type` that the Part has on the wire."""
    return str(part.__struct_config__.tag)
