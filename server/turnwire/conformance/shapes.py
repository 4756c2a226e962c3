"""What every frame of a server must look like, whatever it is about: the fields that the protocol knows are there and
of their type, and nothing optional is null. Ops, fields and Part types that it does not know may come (P2).

How frames follow each other is the witness's.
"""

from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from turnwire.conformance.verdict import Broken
from turnwire_protocol import frames, mutations
from turnwire_protocol.messages import AgentMessage, Page, UserMessage
from turnwire_protocol.parts import AGENT_PART_TYPES, USER_PART_TYPES, Counter, Id, Ordinal, TimeMs

Map: TypeAlias = dict[str, Any]


class _Frame(Struct, frozen=True):
    op: str
    session_id: str | UnsetType = UNSET


class _Envelope(Struct, frozen=True):
    mutation_id: Id
    session_id: Id
    created_at: TimeMs
    epoch: str
    seq: Counter
    variant: str
    type: str | UnsetType = UNSET


class _PartHead(Struct, frozen=True):
    part_id: Id
    sequence: Ordinal
    type: str


class _MessageHead(Struct, frozen=True):
    role: Literal["user", "agent"]
    parts: tuple[_PartHead, ...]


class _MessageMutation(Struct, frozen=True):
    type: Literal["user", "agent"]
    message_id: Id
    sequence: Ordinal
    revision: Ordinal
    message: Map


class _PartMutation(Struct, frozen=True):
    type: str
    message_id: Id
    revision: Ordinal
    part_id: Id
    part: _PartHead


_FRAMES: Final[dict[str, type]] = {str(struct.__struct_config__.tag): struct for struct in get_args(frames.ServerFrame)}
_RULES: Final = {"welcome": "W3", "result": "W3", "error": "W9"}
"""Which rule a frame of this op breaks that is not as it should be; W4 all others."""

_MUTATIONS: Final[dict[tuple[str, str | None], type]] = {
    ("message", None): _MessageMutation,
    ("part", None): _PartMutation,
    ("delta", None): mutations.DeltaMutation,
    ("turn", "start"): mutations.TurnStart,
    ("turn", "finish"): mutations.TurnFinish,
    ("file_diff", None): mutations.FileDiff,
    ("session", "title"): mutations.SessionTitle,
    ("session", "config"): mutations.SessionConfig,
    ("warning", "model_request"): mutations.ModelRequestWarning,
}


def check_frame(frame: Map) -> None:
    """Raises Broken. What a `result` holds is its request's affair: see `check_joined` and `check_page`."""
    _convert(frame, _Frame, "W2")
    op = frame["op"]
    if op == "mutation":
        _check_mutation(frame)
    elif op in _FRAMES:
        _convert(frame, _FRAMES[op], _RULES.get(op, "W4"))
        if op == "snapshot":
            check_page(frame["page"])


def check_joined(result: Any) -> None:
    """The result of `subscribe` or `reload`. Raises Broken."""
    _convert(result, frames.Joined, "W4")


def check_page(page: Any) -> None:
    """A page of history, or of a snapshot. Raises Broken."""
    _convert(page, Page, "M3")
    for message in page["items"]:
        _check_message(message)
    sequences = [message["sequence"] for message in page["items"]]
    if sequences != sorted(set(sequences)):
        raise Broken("M3", f"the Messages of a page are not ascending: {sequences}")
    if page["has_more"] != ("next_before_sequence" in page):
        raise Broken("M3", "a page has `next_before_sequence` if and only if it has more")


def _check_mutation(frame: Map) -> None:
    _convert(frame, _Envelope, "L2")
    variant = frame["variant"]
    struct = _MUTATIONS.get((variant, None)) or _MUTATIONS.get((variant, frame.get("type")))
    if struct is not None:
        _convert(frame, struct, "L3")
    if variant == "message":
        message = frame["message"]
        _check_message(message)
        _check_same(frame, {**message, "type": message["role"]}, "type", "message_id", "sequence", "revision")
    if variant == "part":
        _check_same(frame, frame["part"], "type", "part_id")
        if frame["type"] in AGENT_PART_TYPES:
            _convert(frame, mutations.PartMutation, "L3")


def _check_same(frame: Map, carried: Map, *names: str) -> None:
    for name in names:
        if frame[name] != carried[name]:
            raise Broken("L3", f"a Mutation with `{name}` {frame[name]!r} carries {carried[name]!r}")


def _check_message(message: Any) -> None:
    _convert(message, _MessageHead, "M5")
    agent = message["role"] == "agent"
    known = AGENT_PART_TYPES if agent else USER_PART_TYPES
    foreign = (AGENT_PART_TYPES | USER_PART_TYPES) - known
    for part in message["parts"]:
        if part["type"] in foreign:
            raise Broken("P2", f"a Part of type {part['type']} in a Message of the {message['role']}")
    parts = [part for part in message["parts"] if part["type"] in known]
    _convert({**message, "parts": parts}, AgentMessage if agent else UserMessage, "M5")


def _convert(value: Any, struct: type, rule: str) -> None:
    try:
        msgspec.convert(value, struct, strict=True)
    except msgspec.ValidationError as error:
        what = value.get("op", "a Message") if isinstance(value, dict) else "what came"
        raise Broken(rule, f"{what}: {error}") from None
