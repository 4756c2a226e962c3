"""What must hold of every frame that a server sends, whatever a timeline looks for: the standing rules.

A witness sees all frames of one connection, in their order, and the requests that were sent on it. What a single
timeline expects is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

import msgspec

from turnwire_protocol import frames, mutations
from turnwire_protocol.messages import AgentMessage, Page, UserMessage
from turnwire_protocol.parts import AGENT_PART_TYPES, USER_PART_TYPES

Map = dict[str, Any]

_FRAMES: Final[dict[str, type]] = {str(struct.__struct_config__.tag): struct for struct in get_args(frames.ServerFrame)}
_MUTATIONS: Final[dict[tuple[str, str | None], type]] = {
    ("part", None): mutations.PartMutation,
    ("delta", None): mutations.DeltaMutation,
    ("turn", "start"): mutations.TurnStart,
    ("turn", "finish"): mutations.TurnFinish,
    ("file_diff", None): mutations.FileDiff,
    ("session", "title"): mutations.SessionTitle,
    ("session", "config"): mutations.SessionConfig,
    ("warning", "model_request"): mutations.ModelRequestWarning,
}
_ENVELOPE: Final = ("mutation_id", "session_id", "created_at", "epoch", "seq", "variant")


class Broken(Exception):
    """A server broke this rule; the sentence says how."""

    def __init__(self, rule: str, sentence: str) -> None:
        super().__init__(sentence)
        self.rule = rule
        self.sentence = sentence


@dataclass
class _Followed:
    """One Session as this connection should be following it."""

    epoch: str = ""
    seq: int | None = None
    """The newest number; None before the first snapshot."""
    overlap: int = 0
    """Up to this seq a Mutation may come twice: the snapshot has it."""
    lagged: bool = False
    joined: list[tuple[str, int]] = field(default_factory=list)
    """Results of `subscribe` and `reload` whose snapshot is still to come."""
    part: tuple[str, int, int, int] | None = None
    """epoch, seq, part and parts of a snapshot that is not complete."""
    early: list[Map] = field(default_factory=list)
    """Mutations that came between its parts; what they change may stand in a later part."""
    waiting: list[Map] = field(default_factory=list)
    """Mutations that came between the result and the snapshot: they go on from the snapshot."""
    revisions: dict[str, int] = field(default_factory=dict)
    texts: dict[str, set[str]] = field(default_factory=dict)
    """Parts by Message."""
    finished: set[str] = field(default_factory=set)


class Witness:
    """`received` raises Broken."""

    def __init__(self) -> None:
        self.max_frame: int | None = None
        self._open: dict[int, Map] = {}
        self._answered: set[int] = set()
        self._sessions: dict[str, _Followed] = {}

    def sent(self, request: Mapping[str, Any]) -> None:
        """A request that is about to be sent."""
        request_id = request.get("id")
        if type(request_id) is int:
            self._answered.discard(request_id)
            self._open[request_id] = dict(request)

    def received(self, frame: Map, size: int) -> None:
        """The next frame; `size` is that of its WebSocket message in bytes."""
        if self.max_frame is not None and size > self.max_frame:
            raise Broken("W10", f"a frame of {size} bytes, max_frame is {self.max_frame}")
        _check_shape(frame)
        match frame["op"]:
            case "welcome" | "result" | "error":
                self._answer(frame)
            case "snapshot":
                self._snapshot(frame)
            case "mutation":
                self._mutation(frame)
            case "reload":
                self._follow(frame, "W6").lagged = True
            case "unsubscribed":
                self._sessions.pop(frame["session_id"], None)

    # ------------------------------------------------------------------------------------------------------ answers

    def _answer(self, frame: Map) -> None:
        request_id = frame.get("id")
        if request_id is None:
            return
        request = self._open.pop(request_id, None)
        if request is None:
            again = "a second answer" if request_id in self._answered else "an answer"
            raise Broken("W3", f"{again} to request {request_id}, which is not open")
        self._answered.add(request_id)
        if frame["op"] == "welcome":
            self.max_frame = frame["limits"]["max_frame"]
        if frame["op"] == "error":
            return
        if request.get("op") in ("subscribe", "reload"):
            joined = (frame["result"].get("epoch"), frame["result"].get("seq"))
            self._sessions.setdefault(request["session_id"], _Followed()).joined.append(joined)
        elif request.get("op") == "unsubscribe":
            self._sessions.pop(request["session_id"], None)
        elif request.get("op") == "messages":
            _check_page(frame["result"])

    # ----------------------------------------------------------------------------------------------------- snapshots

    def _snapshot(self, frame: Map) -> None:
        followed = self._follow(frame, "W4")
        epoch, seq, part, parts = frame["epoch"], frame["seq"], frame["part"], frame["parts"]
        if followed.part is not None and part != 1:
            if followed.part != (epoch, seq, part - 1, parts):
                raise Broken("W10", f"snapshot part {part} of {parts} at {epoch}/{seq} after {followed.part}")
        elif part != 1:
            raise Broken("W10", f"a snapshot begins with part {part} of {parts}")
        elif (epoch, seq) not in followed.joined:
            raise Broken("W4", f"a snapshot at {epoch}/{seq}, but the results said {followed.joined}")
        else:
            del followed.joined[: followed.joined.index((epoch, seq)) + 1]
            self._begin(followed, epoch, seq)
        followed.part = (epoch, seq, part, parts) if part < parts else None
        _check_page(frame["page"])
        for message in frame["page"]["items"]:
            _take_message(followed, message)
        if followed.part is None:
            early, followed.early = followed.early, []
            for mutation in early:
                self._check_content(followed, mutation)

    def _begin(self, followed: _Followed, epoch: str, seq: int) -> None:
        if followed.epoch == epoch and followed.seq is not None and seq < followed.seq:
            raise Broken("W4", f"a snapshot at seq {seq} after seq {followed.seq} in the same epoch")
        if followed.epoch != epoch:
            followed.revisions.clear()
        followed.epoch, followed.seq, followed.overlap, followed.lagged = epoch, seq, seq, False
        followed.early.clear()
        waiting, followed.waiting = followed.waiting, []
        for frame in waiting:
            if self._is_next(followed, frame):
                followed.early.append(frame)

    # ----------------------------------------------------------------------------------------------------- Mutations

    def _mutation(self, frame: Map) -> None:
        followed = self._follow(frame, "L1")
        if followed.seq is None or followed.lagged:
            if not followed.joined:
                lost = "after a reload frame, and before the answer to the client's own reload"
                rule, when = ("W6", lost) if followed.lagged else ("W4", "before the snapshot")
                raise Broken(rule, f"Mutation {frame['seq']} {when}")
            followed.waiting.append(frame)
        elif self._is_next(followed, frame):
            if followed.part is None:
                self._check_content(followed, frame)
            else:
                followed.early.append(frame)

    def _is_next(self, followed: _Followed, frame: Map) -> bool:
        """Takes its number, unless the snapshot has it already."""
        epoch, seq = frame["epoch"], frame["seq"]
        if epoch != followed.epoch:
            raise Broken("W5", f"Mutation {seq} of epoch {epoch!r} in epoch {followed.epoch!r}")
        if seq <= followed.overlap:
            return False
        assert followed.seq is not None
        if seq != followed.seq + 1:
            raise Broken("W5", f"seq {seq} after {followed.seq}")
        followed.seq = seq
        return True

    def _check_content(self, followed: _Followed, frame: Map) -> None:
        match frame["variant"]:
            case "message":
                self._check_revision(followed, frame)
                _take_message(followed, frame["message"])
            case "part":
                self._check_revision(followed, frame)
                followed.texts.setdefault(frame["message_id"], set()).add(frame["part_id"])
            case "delta":
                self._check_revision(followed, frame)
                if frame["part_id"] not in followed.texts.get(frame["message_id"], ()):
                    raise Broken("L4", f"a delta of Part {frame['part_id']}, which was never published")
            case "turn" if frame["type"] == "finish":
                if frame["turn_id"] in followed.finished:
                    raise Broken("T1", f"Turn {frame['turn_id']} finished twice")
                followed.finished.add(frame["turn_id"])

    def _check_revision(self, followed: _Followed, frame: Map) -> None:
        message_id, revision = frame["message_id"], frame["revision"]
        known = followed.revisions.get(message_id)
        if known is not None and revision != known + 1:
            raise Broken("S5", f"revision {revision} of Message {message_id} after {known}")
        followed.revisions[message_id] = revision

    def _follow(self, frame: Map, rule: str) -> _Followed:
        followed = self._sessions.get(frame["session_id"])
        if followed is None:
            raise Broken(rule, f"a {frame['op']} of Session {frame['session_id']}, which is not followed")
        return followed


def _take_message(followed: _Followed, message: Map) -> None:
    message_id = message["message_id"]
    followed.revisions[message_id] = max(message["revision"], followed.revisions.get(message_id, 0))
    followed.texts[message_id] = {part["part_id"] for part in message["parts"]}


# ---------------------------------------------------------------------------------------------------------- shapes


def _check_shape(frame: Map) -> None:
    """Fields that the protocol knows are there and of their type; nothing optional is null. Unknown ones may be."""
    op = frame.get("op")
    if op == "mutation":
        _check_mutation(frame)
        return
    struct = _FRAMES.get(str(op))
    if struct is not None:
        _convert(frame, struct, "W9" if op == "error" else "W3" if op in ("welcome", "result") else "W4")
    if op == "snapshot":
        for message in frame["page"]["items"]:
            _check_message(message)


def _check_mutation(frame: Map) -> None:
    missing = [name for name in _ENVELOPE if name not in frame]
    if missing:
        raise Broken("L2", f"a Mutation without {', '.join(missing)}")
    variant, kind = frame["variant"], frame.get("type")
    if variant == "message":
        for name in ("type", "message_id", "sequence", "revision", "message"):
            if name not in frame:
                raise Broken("L3", f"a message Mutation without {name}")
        _check_message(frame["message"])
    struct = _MUTATIONS.get((variant, None)) or _MUTATIONS.get((variant, kind))
    part = frame.get("part")
    if variant == "part" and isinstance(part, dict) and part.get("type") not in AGENT_PART_TYPES:
        return  # a newer server's Part (P2)
    if struct is not None:
        _convert(frame, struct, "L3")


def _check_message(message: Map) -> None:
    agent = message.get("role") == "agent"
    known = AGENT_PART_TYPES if agent else USER_PART_TYPES
    parts = [part for part in message.get("parts", []) if part.get("type") in known]
    foreign = [part["type"] for part in message.get("parts", []) if part.get("type") in USER_PART_TYPES - known]
    if foreign:
        raise Broken("P2", f"an agent's Message with a Part of type {foreign[0]}")
    _convert({**message, "parts": parts}, AgentMessage if agent else UserMessage, "M5")


def _check_page(page: Map) -> None:
    _convert(page, Page, "M3")
    sequences = [message["sequence"] for message in page["items"]]
    if sequences != sorted(set(sequences)):
        raise Broken("M3", f"the Messages of a page are not ascending: {sequences}")
    if page["has_more"] != ("next_before_sequence" in page):
        raise Broken("M3", "a page has `next_before_sequence` if and only if it has more")


def _convert(value: Map, struct: type, rule: str) -> None:
    try:
        msgspec.convert(value, struct, strict=True)
    except msgspec.ValidationError as error:
        raise Broken(rule, f"{value.get('op', 'a Message')}: {error}") from None
