"""The Composer's way into the database file: a connection of its own that cannot write to history (C1).

SQLite asks the connection's authorizer about everything that a statement would do, triggers included, before it runs.
History is read through the store's read-only connections.
"""

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeVar, cast

import apsw
import trio

from turnwire.store import reads
from turnwire.store.base import ConstraintViolated, NotFound, StoredPage, StoreUnavailable
from turnwire.store.context import Summary, check_summary
from turnwire.store.paging import check_before, check_limit
from turnwire.store.writer_thread import translated

T = TypeVar("T")

DERIVED: Final = "context_"
"""How the names of the tables begin that the Composer owns."""

_ALWAYS: Final = frozenset(
    {
        apsw.SQLITE_SELECT,
        apsw.SQLITE_READ,
        apsw.SQLITE_FUNCTION,
        apsw.SQLITE_RECURSIVE,
        apsw.SQLITE_TRANSACTION,
        apsw.SQLITE_SAVEPOINT,
    }
)
_DERIVED_ONLY: Final = frozenset({apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE})

_SAVE: Final = """
INSERT INTO context_summaries (session_id, through_sequence, text, created_at) VALUES (?, ?, ?, ?)
ON CONFLICT (session_id, through_sequence) DO UPDATE SET text = excluded.text, created_at = excluded.created_at
"""


def restrict(connection: apsw.Connection) -> None:
    """From now on the connection can read everything and write to derived tables only, for ever (C1)."""
    connection.authorizer = _authorize


def _authorize(
    operation: int, subject: str | None, detail: str | None, database: str | None, trigger: str | None
) -> int:
    allowed = operation in _ALWAYS or (
        operation in _DERIVED_ONLY and database == "main" and (subject or "").startswith(DERIVED)
    )
    return apsw.SQLITE_OK if allowed else apsw.SQLITE_DENY


def open_restricted(path: Path, vfs: str | None, undo: ExitStack, *, busy_ms: int) -> apsw.Connection:
    """The Composer's connection to a file that was checked and migrated before. Raises apsw.Error."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    undo.callback(connection.close)
    connection.set_busy_timeout(busy_ms)
    connection.execute(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 0"
    ).fetchall()
    restrict(connection)
    return connection


class SqliteContextStore:
    """A `ContextStore` on one file; a part of `SqliteStore`, which closes it."""

    def __init__(self, readers: reads.Readers, connection: apsw.Connection) -> None:
        self._readers = readers
        self._connection = connection
        self._limiter = trio.CapacityLimiter(1)
        self._closed = False

    async def page(
        self, session_id: str, *, before_sequence: int | None, limit: int, include_internal: bool
    ) -> StoredPage:
        check_limit(limit)
        check_before(before_sequence)
        return await self._readers.run(
            lambda connection: reads.page(connection, session_id, before_sequence, limit, include_internal)
        )

    async def cancelled_turns(self, turn_ids: Collection[str]) -> frozenset[str]:
        return await self._readers.run(lambda connection: reads.cancelled_turns(connection, turn_ids))

    async def summary(self, session_id: str) -> Summary | None:
        return await self._readers.run(lambda connection: reads.summary(connection, session_id))

    async def save_summary(self, summary: Summary) -> None:
        check_summary(summary)
        await trio.to_thread.run_sync(self._save, summary, limiter=self._limiter)

    async def aclose(self) -> None:
        """Waits for a summary that is being saved, then closes. Idempotent, not to be cancelled."""
        with trio.CancelScope(shield=True):
            async with self._limiter:
                self._closed = True
                self._connection.close()

    def _save(self, summary: Summary) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        try:
            self._transact(summary)
        except apsw.Error as error:
            raise translated(error) from error

    def _transact(self, summary: Summary) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            count = connection.execute(
                "SELECT message_count FROM sessions WHERE session_id = ?", (summary.session_id,)
            ).get
            if count is None:
                raise NotFound(f"session {summary.session_id} does not exist")
            if summary.through_sequence > cast("int", count):
                raise ConstraintViolated(f"a summary through {summary.through_sequence} of {count} Messages")
            connection.execute(_SAVE, (summary.session_id, summary.through_sequence, summary.text, summary.created_at))
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
