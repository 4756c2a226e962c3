"""Operations made ready to be kept: checked for shape, and their JSON encoded, before a store sees them.

What can be decided by looking at one operation alone is decided here, once for all stores. What depends on what is
already stored (a taken id, the next sequence, a greater revision) is each store's own business.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from turnwire.store.base import (
    ConstraintViolated,
    CreateSession,
    DeleteSession,
    ForkSession,
    MessageNotFound,
    MessageOpen,
    Operation,
    SaveMessage,
    SaveRequest,
    SaveTurn,
    SessionRecord,
    TurnRecord,
    UpdateSession,
    preview_of,
)
from turnwire.store.recovery import is_unfinished
from turnwire_protocol.codec import encode_json
from turnwire_protocol.lifecycle import TURN
from turnwire_protocol.messages import Message, StoredJson
from turnwire_protocol.parts import AGENT_PART_TYPES, MAX_SAFE_INTEGER, USER_PART_TYPES, Part

ONLY_USER: Final = USER_PART_TYPES - AGENT_PART_TYPES
ONLY_AGENT: Final = AGENT_PART_TYPES - USER_PART_TYPES
UNFINISHED_TURN: Final = frozenset(TURN.moves) - TURN.terminal

COPY_ID: Final = "msg_"
"""How the ids of copied Messages begin; the rest is random."""

_PARTS: Final = b',"parts":['
_NO_PARTS: Final = _PARTS + b"]}"


class PartRow(Struct, frozen=True):
    """One Part: its identity, and its JSON as it is sent."""

    part_id: str
    sequence: int
    type: str
    json: bytes


class MessageRow(Struct, kw_only=True, frozen=True):
    """One Message: what is searched and constrained, its JSON without the Parts (`head`), and the Parts."""

    message_id: str
    session_id: str
    turn_id: str | None
    role: str
    sequence: int
    revision: int
    visibility: str
    created_at: int
    updated_at: int
    unfinished: bool
    preview: str | None
    head: bytes
    parts: tuple[PartRow, ...]


Prepared: TypeAlias = CreateSession | UpdateSession | DeleteSession | ForkSession | MessageRow | SaveTurn | SaveRequest


def prepare(operation: Operation) -> Prepared:
    """The operation as a store takes it. Raises ConstraintViolated when no store could keep it."""
    match operation:
        case SaveMessage(message):
            return message_row(message)
        case CreateSession(record):
            _check_session(record)
            if record.message_count != 0 or record.preview is not None:
                raise ConstraintViolated(f"session {record.session_id}: a new Session has no Messages and no preview")
        case UpdateSession(record):
            _check_session(record)
        case SaveTurn(record):
            _check_turn(record)
        case SaveRequest(record):
            _encode(record)
            _check_json(record.answer)
        case ForkSession():
            _check_numbers(f"session {operation.new_session_id}", 0, operation.now)
        case DeleteSession():
            pass
    return operation


def message_row(message: Message) -> MessageRow:
    """The row of a Message. Raises ConstraintViolated."""
    row = MessageRow(
        message_id=message.message_id,
        session_id=message.session_id,
        turn_id=None if message.turn_id is UNSET else message.turn_id,
        role=str(message.__struct_config__.tag),
        sequence=message.sequence,
        revision=message.revision,
        visibility=message.visibility,
        created_at=message.created_at,
        updated_at=message.updated_at,
        unfinished=is_unfinished(message),
        preview=preview_of(message),
        head=_encode(replace(message, parts=())).removesuffix(_NO_PARTS) + b"}",
        parts=tuple(map(_part_row, message.parts)),
    )
    _check_message(row)
    return row


def recovered_row(message: Mapping[str, Any], preview: str | None) -> MessageRow:
    """The row of a plain Message that recovery has closed, unknown fields and Part types included (P2)."""
    row = MessageRow(
        message_id=message["message_id"],
        session_id=message["session_id"],
        turn_id=message.get("turn_id"),
        role=message["role"],
        sequence=message["sequence"],
        revision=message["revision"],
        visibility=message["visibility"],
        created_at=message["created_at"],
        updated_at=message["updated_at"],
        unfinished=False,
        preview=preview,
        head=_encode({key: value for key, value in message.items() if key != "parts"}),
        parts=tuple(
            PartRow(part["part_id"], part["sequence"], part["type"], _encode(part)) for part in message["parts"]
        ),
    )
    _check_message(row)
    return row


def message_json(head: bytes, parts: bytes) -> StoredJson:
    """The complete Message, from its head and its Parts' JSON joined by commas."""
    return StoredJson(b"%b%b%b]}" % (head[:-1], _PARTS, parts))


def checked_through(operation: ForkSession, named: int | None, closed: int) -> int:
    """The sequence of the named Message, if it can be copied. Raises MessageNotFound or MessageOpen."""
    if named is None:
        raise MessageNotFound(f"session {operation.session_id} has no message {operation.through_message_id}")
    if named > closed:
        raise MessageOpen(f"message {operation.through_message_id} or one before it is still being written")
    return named


def plain_message(json: StoredJson) -> dict[str, Any]:
    """A stored Message as a plain map."""
    message: dict[str, Any] = msgspec.json.decode(json.text)
    return message


def _part_row(part: Part) -> PartRow:
    return PartRow(part.part_id, part.sequence, str(part.__struct_config__.tag), _encode(part))


def _encode(value: Any) -> bytes:
    try:
        return encode_json(value).text
    except (ValueError, TypeError, NotImplementedError, RecursionError, msgspec.MsgspecError) as error:
        raise ConstraintViolated(f"cannot be stored as JSON: {error}") from error


def _check_json(json: StoredJson) -> None:
    try:
        msgspec.json.decode(json.text)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ConstraintViolated(f"not JSON: {error}") from error


def _check_numbers(where: str, least: int, *numbers: int) -> None:
    for number in numbers:
        if not least <= number <= MAX_SAFE_INTEGER:
            raise ConstraintViolated(f"{where}: {number} is not an integer from {least} to 2**53-1")


def _check_message(row: MessageRow) -> None:
    where = f"message {row.message_id}"
    _check_numbers(where, 1, row.sequence, row.revision, *(part.sequence for part in row.parts))
    _check_numbers(where, 0, row.created_at, row.updated_at)
    if row.role == "agent" and not row.parts:
        raise ConstraintViolated(f"{where}: an Agent Message has at least one Part (M10)")
    foreign = (ONLY_AGENT if row.role == "user" else ONLY_USER) & {part.type for part in row.parts}
    if foreign:
        raise ConstraintViolated(
            f"{where}: role {row.role} cannot hold Parts of type {', '.join(sorted(foreign))} (P2)"
        )
    if len({part.part_id for part in row.parts}) != len(row.parts):
        raise ConstraintViolated(f"{where}: two Parts share a part_id (P1)")
    if any(later.sequence <= part.sequence for part, later in pairwise(row.parts)):
        raise ConstraintViolated(f"{where}: Parts are not in ascending sequence (P1)")


def _check_session(record: SessionRecord) -> None:
    _encode(record)
    _check_numbers(f"session {record.session_id}", 0, record.created_at, record.updated_at, record.archived_at or 0)
    if record.metadata is not None:
        _check_json(record.metadata)


def _check_turn(record: TurnRecord) -> None:
    _encode(record)
    where = f"turn {record.turn_id}"
    _check_numbers(where, 0, record.created_at, record.started_at or 0, record.finished_at or 0)
    if record.status == "queued" and record.started_at is not None:
        raise ConstraintViolated(f"{where}: a queued Turn has no started_at (T2)")
    if record.status == "running" and record.started_at is None:
        raise ConstraintViolated(f"{where}: a running Turn has a started_at (T2)")
    if (record.status in UNFINISHED_TURN) != (record.finished_at is None):
        raise ConstraintViolated(f"{where}: finished_at belongs to a finished Turn, and only to it (T2)")
    if record.status in UNFINISHED_TURN and record.error is not None:
        raise ConstraintViolated(f"{where}: an unfinished Turn has no error (T2)")
