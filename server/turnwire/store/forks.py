"""Forks in SQL: copies that SQLite makes by itself, at a cost that follows what is copied."""

from typing import Final, cast

import apsw

from turnwire.store.base import ForkSession, NotFound
from turnwire.store.reads import check_owned
from turnwire.store.rows import COPY_ID, checked_through

_COUNT: Final = "SELECT message_count FROM sessions WHERE session_id = ?"
_NAMED: Final = "SELECT sequence FROM messages WHERE session_id = ? AND message_id = ?"
_FIRST_OPEN: Final = "SELECT min(sequence) FROM messages WHERE session_id = ? AND unfinished"
_LAST_COPIED: Final = "SELECT message_id FROM messages WHERE session_id = ? AND sequence = ?"

_SESSION: Final = """
INSERT INTO sessions (session_id, title, config, metadata, created_at, updated_at, owner, origin)
SELECT :new, title, config, metadata, :now, :now, :owner,
    json_patch(json_object('session_id', session_id), json_object('message_id', :last))
FROM sessions WHERE session_id = :old
"""
_MESSAGES: Final = f"""
WITH copied AS MATERIALIZED (
    SELECT *, '{COPY_ID}' || lower(hex(randomblob(12))) AS copy_id FROM messages
    WHERE session_id = :old AND sequence <= :through
)
INSERT INTO messages (message_id, session_id, turn_id, role, sequence, revision, visibility, created_at, updated_at,
    unfinished, preview, head)
SELECT copy_id, :new, turn_id, role, sequence, revision, visibility, created_at, updated_at, unfinished, preview,
    json_set(head, '$.message_id', copy_id, '$.session_id', :new,
        '$.origin', json_object('session_id', session_id, 'message_id', message_id))
FROM copied ORDER BY sequence
"""
_PARTS: Final = """
INSERT INTO parts (session_id, message_id, role, part_id, sequence, type, json)
SELECT copy.session_id, copy.message_id, copy.role, parts.part_id, parts.sequence, parts.type, parts.json
FROM messages AS copy
CROSS JOIN messages AS source ON source.session_id = :old AND source.sequence = copy.sequence
CROSS JOIN parts ON (parts.message_id, parts.session_id, parts.role)
    = (source.message_id, source.session_id, source.role)
WHERE copy.session_id = :new
ORDER BY copy.sequence, parts.sequence
"""
_SUMMARIES: Final = """
INSERT INTO context_summaries (session_id, through_sequence, text, created_at)
SELECT :new, through_sequence, text, created_at FROM context_summaries
WHERE session_id = :old AND through_sequence <= :through
"""


def fork(connection: apsw.Connection, operation: ForkSession) -> None:
    """Raises NotFound, MessageNotFound, MessageOpen, TooManySessions or apsw.Error."""
    through = _through(connection, operation)
    check_owned(connection, operation.owner, operation.most)
    values = {
        "old": operation.session_id,
        "new": operation.new_session_id,
        "now": operation.now,
        "owner": operation.owner,
        "through": through,
        "last": connection.execute(_LAST_COPIED, (operation.session_id, through)).get,
    }
    for statement in (_SESSION, _MESSAGES, _PARTS, _SUMMARIES):
        connection.execute(statement, values)


def _through(connection: apsw.Connection, operation: ForkSession) -> int:
    """The sequence of the last Message to copy."""
    session_id = operation.session_id
    count = connection.execute(_COUNT, (session_id,)).get
    if count is None:
        raise NotFound(f"session {session_id} does not exist")
    open_from = connection.execute(_FIRST_OPEN, (session_id,)).get
    closed = cast("int", count) if open_from is None else cast("int", open_from) - 1
    if operation.through_message_id is None:
        return closed
    named = connection.execute(_NAMED, (session_id, operation.through_message_id)).get
    return checked_through(operation, cast("int | None", named), closed)
