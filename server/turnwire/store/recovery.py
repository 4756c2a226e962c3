"""What a crash left unfinished, and how it is brought to rest (S6, S7).

Pure functions on plain Messages, shared by all stores: fields and Part types that this version does not know pass
through untouched (P2). How the rows are found and saved is the stores' own business.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from msgspec.structs import replace

from turnwire.store.base import PART_STRIDE, REVISION_STRIDE, Recovered, TurnRecord
from turnwire_protocol.lifecycle import ACTION, INTERACTION, TEXT, TOOL, TURN, Lifecycle, advance
from turnwire_protocol.messages import Message, UserMessage
from turnwire_protocol.mutations import TurnError
from turnwire_protocol.parts import Part

INTERRUPTED: Final = "runtime_interrupted"
_STARTED_TURN: Final = "The server stopped while this Turn was running."
_QUEUED_TURN: Final = "The server stopped before this Turn started."
_TOOL: Final = "The server stopped before this tool finished."


class _End(NamedTuple):
    field: str
    lifecycle: Lifecycle[Any]
    state: str


_ENDS: Final[Mapping[str, _End]] = {
    "text": _End("state", TEXT, "done"),
    "reasoning": _End("state", TEXT, "done"),
    "tool": _End("state", TOOL, "failed"),
    "interaction": _End("status", INTERACTION, "cancelled"),
    "action": _End("state", ACTION, "failed"),
}
"""What the Parts that have a lifecycle become when the process that carried them on is gone."""


class Recovery(NamedTuple):
    """What must be saved to bring one Session to rest: whole Messages, and Turns in their final status."""

    messages: list[dict[str, Any]]
    turns: list[TurnRecord]

    def counted(self) -> Recovered:
        """What this changes."""
        changed = bool(self.messages or self.turns)
        return Recovered(sessions=int(changed), messages=len(self.messages), turns=len(self.turns))


def summed(each: Sequence[Recovered]) -> Recovered:
    """What recovery changed in all."""
    return Recovered(
        sessions=sum(one.sessions for one in each),
        messages=sum(one.messages for one in each),
        turns=sum(one.turns for one in each),
    )


def new_id() -> str:
    """An id for what recovery adds."""
    return uuid4().hex


def is_unfinished(message: Message) -> bool:
    """Whether only a running process could carry this Message on: it is streaming, or one of its Parts is open."""
    if isinstance(message, UserMessage):
        return False
    return message.state == "streaming" or any(map(_is_open, message.parts))


def recover_session(
    session_id: str,
    unfinished: Sequence[Mapping[str, Any]],
    turns: Sequence[TurnRecord],
    *,
    last_sequence: int,
    now: int,
    new_id: Callable[[], str],
) -> Recovery:
    """Ends a Session's unfinished Messages and Turns; Turns keep their ids (K3).

    `now` is in ms. A Turn that none of the Messages belongs to gets a Message of its own after `last_sequence`, so that
    no accepted prompt ends in silence.
    """
    messages = [recover_message(message, now=now, part_id=new_id()) for message in unfinished]
    carried = {message.get("turn_id") for message in messages}
    for turn in turns:
        if turn.turn_id not in carried:
            last_sequence += 1
            messages.append(_notice(session_id, turn, sequence=last_sequence, now=now, new_id=new_id))
    return Recovery(messages, [_failed(turn, now) for turn in turns])


def recover_message(message: Mapping[str, Any], *, now: int, part_id: str) -> dict[str, Any]:
    """The Message, closed: open Parts ended, an `error` Part with `part_id` appended, numbers above any seen live."""
    revision = message["revision"] + REVISION_STRIDE
    parts = [_closed(part, revision=revision, now=now) for part in message["parts"]]
    sequence = max((part["sequence"] for part in parts), default=0) + PART_STRIDE
    parts.append(
        _error_part(part_id, sequence, scope="turn" if "turn_id" in message else "session", sentence=_STARTED_TURN)
    )
    return {**message, "revision": revision, "state": "done", "updated_at": now, "parts": parts}


def _is_open(part: Part) -> bool:
    end = _ENDS.get(str(part.__struct_config__.tag))
    return end is not None and bool(end.lifecycle.moves.get(getattr(part, end.field)))


def _closed(part: Mapping[str, Any], *, revision: int, now: int) -> dict[str, Any]:
    end = _ENDS.get(part["type"])
    if end is None or not end.lifecycle.moves.get(part.get(end.field)):
        return dict(part)
    closed = {**part, end.field: advance(end.lifecycle, part[end.field], end.state)}
    if part["type"] == "tool":
        closed.setdefault("error", _TOOL)
    elif part["type"] == "interaction":
        closed.update(revision=revision, resolved_at=now)
    return closed


def _error_part(part_id: str, sequence: int, *, scope: str, sentence: str) -> dict[str, Any]:
    return {
        "type": "error",
        "part_id": part_id,
        "sequence": sequence,
        "scope": scope,
        "code": INTERRUPTED,
        "message": sentence,
        "recoverable": True,
    }


def _notice(session_id: str, turn: TurnRecord, *, sequence: int, now: int, new_id: Callable[[], str]) -> dict[str, Any]:
    return {
        "role": "agent",
        "message_id": new_id(),
        "session_id": session_id,
        "turn_id": turn.turn_id,
        "sequence": sequence,
        "revision": 1,
        "state": "done",
        "visibility": "visible",
        "created_at": now,
        "updated_at": now,
        "parts": [_error_part(new_id(), 1, scope="turn", sentence=_sentence(turn))],
    }


def _failed(turn: TurnRecord, now: int) -> TurnRecord:
    return replace(
        turn,
        status=advance(TURN, turn.status, "failed"),
        finished_at=now,
        error=TurnError(INTERRUPTED, _sentence(turn)),
    )


def _sentence(turn: TurnRecord) -> str:
    return _QUEUED_TURN if turn.status == "queued" else _STARTED_TURN
