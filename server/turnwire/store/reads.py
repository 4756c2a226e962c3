"""What is read from the database, as records and pages; and the connections that read it.

A page is spliced from stored JSON by SQLite, which leaves the interpreter to the other threads meanwhile (M1).
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

import apsw
import msgspec
import trio

from turnwire.store.base import (
    NotFound,
    RequestRecord,
    Scope,
    SessionListing,
    SessionRecord,
    StoredMessage,
    StoredPage,
    StoreUnavailable,
    TooManySessions,
    TurnRecord,
)
from turnwire.store.context import Summary
from turnwire.store.paging import END, Cursor, fill_listing, fill_page
from turnwire.store.rows import message_json
from turnwire.store.writer_thread import Work, translated
from turnwire_protocol.messages import Config, Origin, StoredJson
from turnwire_protocol.mutations import TurnError

Row: TypeAlias = tuple[Any, ...]
T = TypeVar("T")

_SESSION: Final = """
SELECT session_id, title, CAST(config AS BLOB), CAST(metadata AS BLOB), created_at, updated_at, archived_at,
    message_count,
    (SELECT preview FROM messages WHERE messages.session_id = sessions.session_id AND preview IS NOT NULL
     ORDER BY sequence DESC LIMIT 1),
    CAST(origin AS BLOB), owner
FROM sessions
"""
_FROM_CURSOR: Final = """
WHERE archived_at IS {archived} AND updated_at <= ?1 AND (updated_at < ?1 OR session_id > ?2) {more}
ORDER BY updated_at DESC, session_id LIMIT ?3
"""
_LISTING: Final = _SESSION + _FROM_CURSOR
_NAMED: Final = _SESSION.replace("FROM sessions", "FROM json_each(?5) CROSS JOIN sessions ON session_id = value")
_SCOPED: Final = (
    "SELECT * FROM ("
    + _LISTING.replace("{more}", "AND owner = ?4")
    + ") UNION SELECT * FROM ("
    + _NAMED
    + _FROM_CURSOR.replace("{more}", "")
    + ") ORDER BY updated_at DESC, session_id LIMIT ?3"
)
LISTINGS: Final = {
    True: _LISTING.format(archived="NOT NULL", more=""),
    False: _LISTING.format(archived="NULL", more=""),
}
"""The listing of archived Sessions, and of all others."""

SCOPED: Final = {True: _SCOPED.format(archived="NOT NULL"), False: _SCOPED.format(archived="NULL")}
"""The same for a `Scope`: the owner's from an index in the order of the listing, joined with those named."""

_OWNED: Final = "SELECT count(*) FROM (SELECT 1 FROM sessions WHERE owner IS ? LIMIT ?)"
_MESSAGE: Final = """
SELECT message_id, sequence, revision, CAST(head AS BLOB),
    (SELECT CAST(group_concat(json, ',' ORDER BY sequence) AS BLOB) FROM parts
     WHERE (parts.message_id, parts.session_id, parts.role)
         = (messages.message_id, messages.session_id, messages.role))
FROM messages
"""
_PAGE: Final = _MESSAGE + "WHERE session_id = ?1 AND sequence < ?2 {visible} ORDER BY sequence DESC LIMIT ?3"
PAGES: Final = {True: _PAGE.format(visible=""), False: _PAGE.format(visible="AND visibility = 'visible'")}
"""The page with internal Messages, and without."""

_UNFINISHED: Final = _MESSAGE + "WHERE session_id = ? AND unfinished ORDER BY sequence"
_TURN: Final = """
SELECT turn_id, session_id, status, created_at, started_at, finished_at, CAST(error AS BLOB) FROM turns
"""
_UNFINISHED_SESSIONS: Final = """
SELECT session_id FROM messages WHERE unfinished
UNION SELECT session_id FROM turns WHERE status IN ('queued', 'running')
"""


class Readers:
    """A few read-only connections; each read runs on a worker thread, in one transaction of its own (M1)."""

    def __init__(self, connections: Sequence[apsw.Connection], broken: Callable[[Work[Any], str], None]) -> None:
        """`broken` is called with each read that the file has failed, and the sentence that says how."""
        self._connections = connections
        self._broken = broken
        self._idle = list(connections)
        self._limiter = trio.CapacityLimiter(len(connections))
        self._closed = False

    async def run(self, read: Work[T]) -> T:
        """What `read` gives. Raises what it raises, and StoreUnavailable.

        A caller that is cancelled stops waiting at once; a read that hangs then keeps its connection until it ends.
        """
        try:
            return await trio.to_thread.run_sync(self._run, read, limiter=self._limiter, abandon_on_cancel=True)
        except StoreUnavailable as error:
            self._broken(read, str(error))
            raise

    async def aclose(self) -> None:
        """Waits for reads that run, then closes. Idempotent, not to be cancelled."""
        with trio.CancelScope(shield=True):
            self._closed = True
            for connection in self._connections:
                await self._limiter.acquire_on_behalf_of(connection)
            for connection in self._connections:
                connection.close()
                self._limiter.release_on_behalf_of(connection)

    def _run(self, read: Callable[[apsw.Connection], T]) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        connection = self._idle.pop()
        try:
            return _in_transaction(connection, read)
        except (apsw.Error, msgspec.MsgspecError) as error:
            raise translated(error) from error
        finally:
            self._idle.append(connection)


def _in_transaction(connection: apsw.Connection, read: Callable[[apsw.Connection], T]) -> T:
    connection.execute("BEGIN")
    try:
        return read(connection)
    finally:
        if connection.in_transaction:  # an I/O error has ended it
            connection.execute("COMMIT")


def session(connection: apsw.Connection, session_id: str) -> SessionRecord:
    """Raises NotFound."""
    row = connection.execute(_SESSION + "WHERE session_id = ?", (session_id,)).fetchone()
    if row is None:
        raise NotFound(f"session {session_id} does not exist")
    return _session_record(row)


def listing(
    connection: apsw.Connection, cursor: Cursor | None, limit: int, archived: bool, scope: Scope | None = None
) -> SessionListing:
    """The listing after `cursor`, or the first one."""
    place = (END, "") if cursor is None else cursor
    if scope is None:
        rows = connection.execute(LISTINGS[archived], (*place, limit + 1))
    else:
        named = msgspec.json.encode(sorted(scope.session_ids)).decode()
        rows = connection.execute(SCOPED[archived], (*place, limit + 1, scope.owner, named))
    return fill_listing([_session_record(row) for row in rows], limit)


def page(
    connection: apsw.Connection, session_id: str, before_sequence: int | None, limit: int, include_internal: bool
) -> StoredPage:
    """A page and its total, of one point in time. Raises NotFound."""
    total = connection.execute("SELECT message_count FROM sessions WHERE session_id = ?", (session_id,)).get
    if total is None:
        raise NotFound(f"session {session_id} does not exist")
    below = END if before_sequence is None else before_sequence
    cursor = connection.execute(PAGES[include_internal], (session_id, below, limit + 1))
    try:
        return fill_page(map(_stored_message, cursor), limit=limit, total=cast("int", total))
    finally:
        cursor.close()  # a page that PAGE_BYTES ended has not read all rows


def turn(connection: apsw.Connection, turn_id: str) -> TurnRecord | None:
    """A Turn's row, or None."""
    row = connection.execute(_TURN + "WHERE turn_id = ?", (turn_id,)).fetchone()
    return None if row is None else _turn_record(row)


def cancelled_turns(connection: apsw.Connection, turn_ids: Collection[str]) -> frozenset[str]:
    """Those of these Turns that were stopped before they began (T3)."""
    rows = connection.execute(
        "SELECT turn_id FROM json_each(?) CROSS JOIN turns ON turn_id = value"
        " WHERE status = 'stopped' AND started_at IS NULL",
        (msgspec.json.encode(sorted(turn_ids)).decode(),),
    )
    return frozenset(cast("str", turn_id) for (turn_id,) in rows)


def interaction(connection: apsw.Connection, session_id: str, interaction_id: str) -> StoredJson | None:
    """The Part of an Interaction, or None."""
    row = connection.execute(
        "SELECT CAST(json AS BLOB) FROM parts WHERE session_id = ? AND type = 'interaction'"
        " AND json ->> '$.interaction_id' = ?",
        (session_id, interaction_id),
    ).fetchone()
    return None if row is None else StoredJson(cast("bytes", row[0]))


def request(connection: apsw.Connection, session_id: str, client_request_id: str) -> RequestRecord | None:
    """A remembered request, or None."""
    row = connection.execute(
        "SELECT digest, CAST(answer AS BLOB), created_at FROM requests WHERE session_id = ? AND client_request_id = ?",
        (session_id, client_request_id),
    ).fetchone()
    if row is None:
        return None
    digest, answer, created_at = row
    return RequestRecord(
        session_id=session_id,
        client_request_id=client_request_id,
        digest=cast("str", digest),
        answer=StoredJson(cast("bytes", answer)),
        created_at=cast("int", created_at),
    )


def summary(connection: apsw.Connection, session_id: str) -> Summary | None:
    """The Composer's summary that reaches furthest, or None (C2)."""
    row = connection.execute(
        "SELECT through_sequence, text, created_at FROM context_summaries WHERE session_id = ?"
        " ORDER BY through_sequence DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    if row is None:
        return None
    through, text, created_at = cast("tuple[int, str, int]", row)
    return Summary(session_id=session_id, through_sequence=through, text=text, created_at=created_at)


def check_owned(connection: apsw.Connection, owner: str | None, most: int | None) -> None:
    """Raises TooManySessions when `owner` has `most` Sessions, archived ones included."""
    if most is not None:
        owned = cast("int", connection.execute(_OWNED, (owner, most)).get)
        if owned >= most:
            raise TooManySessions(f"{owner} owns {owned} sessions")


def unfinished_sessions(connection: apsw.Connection) -> list[str]:
    """The Sessions that recovery has to bring to rest (S7)."""
    return [cast("str", session_id) for (session_id,) in connection.execute(_UNFINISHED_SESSIONS)]


def unfinished_messages(connection: apsw.Connection, session_id: str) -> list[StoredMessage]:
    """The Messages of a Session that only a running process could carry on."""
    return list(map(_stored_message, connection.execute(_UNFINISHED, (session_id,))))


def unfinished_turns(connection: apsw.Connection, session_id: str) -> list[TurnRecord]:
    """The queued and running Turns of a Session, oldest first."""
    rows = connection.execute(
        _TURN + "WHERE session_id = ? AND status IN ('queued', 'running') ORDER BY rowid", (session_id,)
    )
    return list(map(_turn_record, rows))


def _stored_message(row: Row) -> StoredMessage:
    message_id, sequence, revision, head, parts = row
    return StoredMessage(
        message_id=message_id, sequence=sequence, revision=revision, json=message_json(head, parts or b"")
    )


def _session_record(row: Row) -> SessionRecord:
    (session_id, title, config, metadata, created_at, updated_at, archived_at, count, preview, origin, owner) = row
    return SessionRecord(
        session_id=session_id,
        owner=owner,
        title=title,
        config=msgspec.json.decode(config, type=Config),
        metadata=None if metadata is None else StoredJson(metadata),
        created_at=created_at,
        updated_at=updated_at,
        archived_at=archived_at,
        message_count=count,
        preview=preview,
        origin=None if origin is None else msgspec.json.decode(origin, type=Origin),
    )


def _turn_record(row: Row) -> TurnRecord:
    turn_id, session_id, status, created_at, started_at, finished_at, error = row
    return TurnRecord(
        turn_id=turn_id,
        session_id=session_id,
        status=status,
        created_at=created_at,
        started_at=started_at,
        finished_at=finished_at,
        error=None if error is None else msgspec.json.decode(error, type=TurnError),
    )
