"""What must hold of every frame that a server sends, whatever a timeline looks for: the standing rules.

A witness sees all frames of one connection, in their order, and the requests that were sent on it. What a single
timeline expects is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from turnwire.conformance.shapes import Map, check_frame, check_joined, check_page
from turnwire.conformance.verdict import Broken


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
    behind: bool = False
    """The snapshot that comes is older than what the client has: it passes it over."""
    early: list[Map] = field(default_factory=list)
    """Mutations that came between its parts; what they change may stand in a later part."""
    waiting: list[Map] = field(default_factory=list)
    """Mutations that came between the result and the snapshot: they go on from the snapshot."""
    revisions: dict[str, int] = field(default_factory=dict)
    texts: dict[str, set[str]] = field(default_factory=dict)
    """Parts by Message."""
    finished: set[str] = field(default_factory=set)


class _Open(NamedTuple):
    """A request without an answer."""

    op: str
    session_id: str
    epoch: str
    seq: int
    """What the client had of the Session when it asked."""


class Witness:
    """`received` raises Broken."""

    def __init__(self) -> None:
        self.max_frame: int | None = None
        self._open: dict[int, _Open] = {}
        self._answered: set[int] = set()
        self._sessions: dict[str, _Followed] = {}

    def sent(self, request: Mapping[str, Any]) -> None:
        """A request that is about to be sent."""
        request_id = request.get("id")
        if type(request_id) is int:
            self._answered.discard(request_id)
            session_id = str(request.get("session_id"))
            followed = self._sessions.get(session_id, _Followed())
            self._open[request_id] = _Open(str(request.get("op")), session_id, followed.epoch, followed.seq or 0)

    def received(self, frame: Map, size: int) -> None:
        """The next frame; `size` is that of its WebSocket message in bytes."""
        if self.max_frame is not None and size > self.max_frame:
            raise Broken("W10", f"a frame of {size} bytes, max_frame is {self.max_frame}")
        check_frame(frame)
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
        if frame["op"] == "error":
            return
        if (frame["op"] == "welcome") != (request.op == "hello"):
            raise Broken("W3", f"{request.op} was answered by a {frame['op']}")
        if frame["op"] == "welcome":
            self.max_frame = frame["limits"]["max_frame"]
        elif request.op in ("subscribe", "reload"):
            self._joined(request, frame["result"])
        elif request.op == "unsubscribe":
            self._sessions.pop(request.session_id, None)
        elif request.op == "messages":
            check_page(frame["result"])

    def _joined(self, request: _Open, result: Any) -> None:
        check_joined(result)
        epoch, seq = result["epoch"], result["seq"]
        if epoch == request.epoch and seq < request.seq:
            raise Broken("W4", f"a snapshot at seq {seq}, and seq {request.seq} had come before it was asked for")
        self._sessions.setdefault(request.session_id, _Followed()).joined.append((epoch, seq))

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
            live = followed.seq is not None and not followed.lagged and followed.part is None
            followed.behind = live and followed.epoch == epoch and seq < (followed.seq or 0)
            if not followed.behind:
                self._begin(followed, epoch, seq)
        followed.part = (epoch, seq, part, parts) if part < parts else None
        if followed.behind:
            return
        for message in frame["page"]["items"]:
            _take_message(followed, message)
        if followed.part is None:
            early, followed.early = followed.early, []
            for mutation in early:
                self._check_content(followed, mutation)

    def _begin(self, followed: _Followed, epoch: str, seq: int) -> None:
        if followed.epoch != epoch:
            followed.revisions.clear()
        followed.epoch, followed.seq, followed.overlap, followed.lagged = epoch, seq, seq, False
        # Those that came between the parts of a snapshot that this one takes the place of go on from this one.
        waiting = [*(each for each in followed.early if each["epoch"] == epoch), *followed.waiting]
        followed.early, followed.waiting = [], []
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
            if followed.part is None or followed.behind:
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
            case "turn" if frame.get("type") == "finish":
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
