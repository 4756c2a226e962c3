"""Prepared operations as SQL, inside of a transaction that somebody else owns.

The rules of history are constraints and triggers of `schema.sql`; here stands only what each operation changes.
"""

from collections.abc import Sequence
from typing import Any, Final, cast

import apsw

from turnwire.store.base import (
    FORGOTTEN_AT_ONCE,
    REQUEST_MEMORY_MS,
    CreateSession,
    DeleteSession,
    ForkSession,
    NotFound,
    Recovered,
    RequestRecord,
    SaveRequest,
    SaveTurn,
    SessionRecord,
    TurnRecord,
    UpdateSession,
)
from turnwire.store.forks import fork
from turnwire.store.reads import check_owned, unfinished_messages, unfinished_turns
from turnwire.store.recovery import new_id, recover_session
from turnwire.store.rows import MessageRow, Prepared, plain_message, recovered_row
from turnwire_protocol.codec import encode_json

_CREATE_SESSION: Final = """
INSERT INTO sessions (session_id, title, config, metadata, created_at, updated_at, archived_at, origin, owner)
VALUES (?, ?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?, CAST(? AS TEXT), ?)
"""
_UPDATE_SESSION: Final = """
UPDATE sessions SET title = ?, config = CAST(? AS TEXT), metadata = CAST(? AS TEXT), archived_at = ?, updated_at = ?
WHERE session_id = ?
"""
_UPDATE_MESSAGE: Final = """
UPDATE messages SET session_id = :session_id, turn_id = :turn_id, role = :role, sequence = :sequence,
    revision = :revision, visibility = :visibility, created_at = :created_at, updated_at = :updated_at,
    unfinished = :unfinished, preview = :preview, head = CAST(:head AS TEXT)
WHERE message_id = :message_id
"""
_INSERT_MESSAGE: Final = """
INSERT INTO messages (message_id, session_id, turn_id, role, sequence, revision, visibility, created_at, updated_at,
    unfinished, preview, head)
VALUES (:message_id, :session_id, :turn_id, :role, :sequence, :revision, :visibility, :created_at, :updated_at,
    :unfinished, :preview, CAST(:head AS TEXT))
"""
_DROP_PARTS: Final = """
DELETE FROM parts WHERE message_id = ? AND part_id NOT IN (SELECT value FROM json_each(CAST(? AS TEXT)))
"""
_SAVE_PART: Final = """
INSERT INTO parts (session_id, message_id, role, part_id, sequence, type, json)
VALUES (?, ?, ?, ?, ?, ?, CAST(? AS TEXT))
ON CONFLICT (session_id, part_id) DO UPDATE SET message_id = excluded.message_id, role = excluded.role,
    sequence = excluded.sequence, type = excluded.type, json = excluded.json
WHERE (parts.json, parts.message_id) IS NOT (excluded.json, excluded.message_id)
"""
_UPDATE_TURN: Final = """
UPDATE turns SET session_id = :session_id, status = :status, created_at = :created_at, started_at = :started_at,
    finished_at = :finished_at, error = CAST(:error AS TEXT)
WHERE turn_id = :turn_id
"""
_INSERT_TURN: Final = """
INSERT INTO turns (turn_id, session_id, status, created_at, started_at, finished_at, error)
VALUES (:turn_id, :session_id, :status, :created_at, :started_at, :finished_at, CAST(:error AS TEXT))
"""
_SAVE_REQUEST: Final = """
INSERT INTO requests (session_id, client_request_id, digest, answer, created_at) VALUES (?, ?, ?, CAST(? AS TEXT), ?)
"""

FORGET_REQUESTS: Final = """
DELETE FROM requests WHERE (session_id, client_request_id) IN (
    SELECT session_id, client_request_id FROM requests WHERE created_at <= ? ORDER BY created_at LIMIT ?
)
"""
"""The oldest ones: two steps by indexes, whatever is remembered."""


def apply_all(connection: apsw.Connection, operations: Sequence[Prepared]) -> None:
    """Raises NotFound, ConstraintViolated, TooManySessions or apsw.Error; then the caller rolls back."""
    for operation in operations:
        _apply(connection, operation)


def recover_one(connection: apsw.Connection, session_id: str, now: int) -> Recovered:
    """Brings one Session to rest (S7). Raises NotFound."""
    stored = unfinished_messages(connection, session_id)
    recovery = recover_session(
        session_id,
        [plain_message(message.json) for message in stored],
        unfinished_turns(connection, session_id),
        last_sequence=_last_sequence(connection, session_id),
        now=now,
        new_id=new_id,
    )
    for message in recovery.messages:
        preview = connection.execute("SELECT preview FROM messages WHERE message_id = ?", (message["message_id"],)).get
        _save_message(connection, recovered_row(message, cast("str | None", preview)))
    for turn in recovery.turns:
        _save_turn(connection, turn)
    return recovery.counted()


def _apply(connection: apsw.Connection, operation: Prepared) -> None:
    match operation:
        case MessageRow():
            _save_message(connection, operation)
        case CreateSession(record, most):
            check_owned(connection, record.owner, most)
            _create_session(connection, record)
        case UpdateSession(record):
            _update_session(connection, record)
        case DeleteSession(session_id):
            _last_sequence(connection, session_id)
            connection.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))
        case ForkSession():
            fork(connection, operation)
        case SaveTurn(record):
            _save_turn(connection, record)
        case SaveRequest(record):
            _save_request(connection, record)


def _last_sequence(connection: apsw.Connection, session_id: str) -> int:
    """Raises NotFound."""
    count = connection.execute("SELECT message_count FROM sessions WHERE session_id = ?", (session_id,)).get
    if count is None:
        raise NotFound(f"session {session_id} does not exist")
    return cast("int", count)


def _json(value: Any) -> bytes | None:
    return None if value is None else encode_json(value).text


def _create_session(connection: apsw.Connection, record: SessionRecord) -> None:
    connection.execute(
        _CREATE_SESSION,
        (
            record.session_id,
            record.title,
            _json(record.config),
            _json(record.metadata),
            record.created_at,
            record.updated_at,
            record.archived_at,
            _json(record.origin),
            record.owner,
        ),
    )


def _update_session(connection: apsw.Connection, record: SessionRecord) -> None:
    _last_sequence(connection, record.session_id)
    connection.execute(
        _UPDATE_SESSION,
        (
            record.title,
            _json(record.config),
            _json(record.metadata),
            record.archived_at,
            record.updated_at,
            record.session_id,
        ),
    )


def _save_message(connection: apsw.Connection, row: MessageRow) -> None:
    _last_sequence(connection, row.session_id)
    values = {name: getattr(row, name) for name in MessageRow.__struct_fields__ if name != "parts"}
    connection.execute(_UPDATE_MESSAGE, values)
    if connection.changes():
        connection.execute(_DROP_PARTS, (row.message_id, _json([part.part_id for part in row.parts])))
    else:
        connection.execute(_INSERT_MESSAGE, values)
    connection.executemany(
        _SAVE_PART,
        (
            (row.session_id, row.message_id, row.role, part.part_id, part.sequence, part.type, part.json)
            for part in row.parts
        ),
    )


def _save_turn(connection: apsw.Connection, record: TurnRecord) -> None:
    _last_sequence(connection, record.session_id)
    values = {name: getattr(record, name) for name in TurnRecord.__struct_fields__}
    values["error"] = _json(record.error)
    connection.execute(_UPDATE_TURN, values)
    if not connection.changes():
        connection.execute(_INSERT_TURN, values)


def _save_request(connection: apsw.Connection, record: RequestRecord) -> None:
    _last_sequence(connection, record.session_id)
    connection.execute(
        _SAVE_REQUEST,
        (record.session_id, record.client_request_id, record.digest, _json(record.answer), record.created_at),
    )
    connection.execute(FORGET_REQUESTS, (record.created_at - REQUEST_MEMORY_MS, FORGOTTEN_AT_ONCE))
