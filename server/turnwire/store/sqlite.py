"""The Store in a SQLite file: how it is opened, used and closed.

Changes go through the one `Writer`, reads through `Readers`; this file only ties them together.
"""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import trio

from turnwire.measures import Histogram
from turnwire.store import reads
from turnwire.store.base import (
    Operation,
    Recovered,
    RequestRecord,
    Scope,
    SessionListing,
    SessionRecord,
    StoredPage,
    TurnRecord,
)
from turnwire.store.context import ContextStore
from turnwire.store.context_sqlite import SqliteContextStore, open_restricted
from turnwire.store.migrations import check, migrate
from turnwire.store.owner import OwnerLock
from turnwire.store.paging import check_before, check_limit, decode_cursor
from turnwire.store.recovery import summed
from turnwire.store.rows import prepare
from turnwire.store.writer import Writer
from turnwire.store.writer_thread import BUSY_MS, RETRY_SECONDS, translated
from turnwire.store.writes import apply_all, recover_one
from turnwire_protocol.messages import StoredJson

READERS: Final = 2
"""Read-only connections, and so reads at the same time."""

LOG_BYTES: Final = 16 * 1024 * 1024
"""What a write-ahead log that grew beyond it is cut down to when it starts anew (D3)."""

_WRITER_PRAGMAS: Final = f"""
PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;
PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = {LOG_BYTES};
"""


@asynccontextmanager
async def open_sqlite(
    path: str | Path, *, readers: int = READERS, retry_seconds: float = RETRY_SECONDS, vfs: str | None = None
) -> AsyncGenerator["SqliteStore"]:
    """The store in the file `path`, made or brought to the newest version if need be; closed at the end of the block.

    `retry_seconds` is how often a store that cannot write tries again by itself; `vfs` names a SQLite VFS. Raises
    StoreLocked, StoreIncompatible or StoreUnavailable.
    """
    token = trio.lowlevel.current_trio_token()
    files = await trio.to_thread.run_sync(partial(_Files.open, Path(path), readers, vfs))
    store = SqliteStore(files, token, retry_seconds=retry_seconds)
    store.start()
    try:
        yield store
    finally:
        await store.aclose()


class SqliteStore:
    """A `Store` in one file, opened by `open_sqlite`. See `store.base` for what its methods promise."""

    def __init__(self, files: "_Files", token: trio.lowlevel.TrioToken, *, retry_seconds: float) -> None:
        self.path = files.path
        self._lock = files.lock
        self._writer = Writer(files.writer, token, retry_seconds=retry_seconds)
        self._readers = reads.Readers(files.readers, self._writer.doubt)
        self._context = SqliteContextStore(self._readers, files.context)
        self._closed = trio.Event()
        self._closing = False

    def start(self) -> None:
        """Starts the writer's thread; `aclose` ends it."""
        self._writer.start()

    @property
    def problem(self) -> str | None:
        return "the store is closed" if self._closing else self._writer.problem

    @property
    def context(self) -> ContextStore:
        return self._context

    @property
    def commits(self) -> int:
        """How many calls of `commit`, and Sessions recovered, were made durable."""
        return self._writer.commits

    @property
    def transactions(self) -> int:
        """How many transactions these shared."""
        return self._writer.transactions

    @property
    def group_sizes(self) -> Histogram:
        """How many commits shared each transaction."""
        return self._writer.group_sizes

    @property
    def commit_seconds(self) -> Histogram:
        """How long callers waited for each commit."""
        return self._writer.seconds

    @property
    def log_bytes(self) -> int:
        """The size of the write-ahead log now (D3)."""
        try:
            return os.stat(f"{self.path}-wal").st_size
        except FileNotFoundError:
            return 0

    async def wait_writable(self) -> None:
        """Returns as soon as the store can write."""
        await self._writer.wait_writable()

    async def commit(self, operations: Sequence[Operation]) -> None:
        prepared = [prepare(operation) for operation in operations]
        if not prepared:
            await trio.lowlevel.checkpoint()
            return
        await self._writer.run(lambda connection: apply_all(connection, prepared))

    async def session(self, session_id: str) -> SessionRecord:
        return await self._readers.run(lambda connection: reads.session(connection, session_id))

    async def sessions(
        self, *, before: str | None, limit: int, archived: bool, scope: Scope | None = None
    ) -> SessionListing:
        check_limit(limit)
        cursor = None if before is None else decode_cursor(before)
        return await self._readers.run(lambda connection: reads.listing(connection, cursor, limit, archived, scope))

    async def page(
        self, session_id: str, *, before_sequence: int | None, limit: int, include_internal: bool
    ) -> StoredPage:
        check_limit(limit)
        check_before(before_sequence)
        return await self._readers.run(
            lambda connection: reads.page(connection, session_id, before_sequence, limit, include_internal)
        )

    async def turn(self, turn_id: str) -> TurnRecord | None:
        return await self._readers.run(lambda connection: reads.turn(connection, turn_id))

    async def request(self, session_id: str, client_request_id: str) -> RequestRecord | None:
        return await self._readers.run(lambda connection: reads.request(connection, session_id, client_request_id))

    async def interaction(self, session_id: str, interaction_id: str) -> StoredJson | None:
        return await self._readers.run(lambda connection: reads.interaction(connection, session_id, interaction_id))

    async def recover(self, now: int, *, session_id: str | None = None) -> Recovered:
        chosen = await self._readers.run(reads.unfinished_sessions) if session_id is None else [session_id]
        return summed([await self._writer.run(partial(recover_one, session_id=each, now=now)) for each in chosen])

    async def aclose(self) -> None:
        if self._closing:
            with trio.CancelScope(shield=True):
                await self._closed.wait()
            return
        self._closing = True
        async with AsyncExitStack() as closing:  # whatever fails on the way, all of it is closed, the readers first
            closing.callback(self._closed.set)
            closing.callback(self._lock.release)
            closing.push_async_callback(self._writer.aclose)
            closing.push_async_callback(self._context.aclose)
            closing.push_async_callback(self._readers.aclose)


class _Files:
    """The locked, checked and migrated database, with its connections open. Blocking: used on a worker thread."""

    def __init__(
        self,
        path: Path,
        lock: OwnerLock,
        writer: apsw.Connection,
        readers: Sequence[apsw.Connection],
        context: apsw.Connection,
    ) -> None:
        self.path = path
        self.lock = lock
        self.writer = writer
        self.readers = readers
        self.context = context

    @classmethod
    def open(cls, path: Path, readers: int, vfs: str | None) -> "_Files":
        """Raises StoreLocked, StoreIncompatible or StoreUnavailable, and leaves nothing open."""
        path = path.resolve()
        with ExitStack() as undo:
            lock = OwnerLock.acquire(path)
            undo.callback(lock.release)
            try:
                writer = _open_writer(path, vfs, undo)
                reading = [_open_reader(path, vfs, undo) for _ in range(readers)]
                context = open_restricted(path, vfs, undo, busy_ms=BUSY_MS)
            except apsw.Error as error:
                raise translated(error) from error
            undo.pop_all()
        return cls(path, lock, writer, reading, context)


def _open_writer(path: Path, vfs: str | None, undo: ExitStack) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, vfs=vfs)
    undo.callback(connection.close)
    connection.set_busy_timeout(BUSY_MS)
    check(connection, str(path))
    connection.execute(_WRITER_PRAGMAS).fetchall()  # a script stops at a row until it is read
    migrate(connection)
    return connection


def _open_reader(path: Path, vfs: str | None, undo: ExitStack) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    undo.callback(connection.close)
    connection.set_busy_timeout(BUSY_MS)
    connection.execute("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY")
    return connection
