"""The writer: one connection on one thread, to which every change of the database goes (D1, D3, D4).

Whatever waits when the thread is free becomes one transaction, each job in a savepoint of its own: a job that fails
takes nothing with it, and one fsync serves them all. A job is acknowledged after COMMIT. Jobs run to their end
whatever becomes of their callers.

What a job does is not known here; it gets the connection, inside of a transaction, and works synchronously.
"""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

import apsw
import msgspec
import trio

from turnwire.store.base import ConstraintViolated, StoreUnavailable

GROUP: Final = 64
"""The most jobs that share one transaction."""

CHECKPOINT_PAGES: Final = 1000
"""After how many new pages in the write-ahead log (4 KiB each) they are copied into the database file."""

RESET_PAGES: Final = 8 * CHECKPOINT_PAGES
"""From how many pages on a checkpoint also waits for readers, so that the log starts anew and stays bounded."""

RETRY_SECONDS: Final = 1.0
"""How often a store that cannot write tries again by itself."""

_BROKEN: Final = (
    apsw.FullError,
    apsw.IOError,
    apsw.CorruptError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.NotADBError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.ProtocolError,
    apsw.PermissionsError,
    apsw.NoMemError,
)
_REFUSED: Final = (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError)

T = TypeVar("T")
_log = logging.getLogger(__name__)


def translated(error: Exception) -> Exception:
    """What a caller is told about an error of SQLite; other errors go to the caller as they are."""
    if isinstance(error, _BROKEN):
        return StoreUnavailable(f"the database cannot be used: {error}")
    if isinstance(error, msgspec.MsgspecError):
        return StoreUnavailable(f"the database holds what this program cannot read: {error}")
    if isinstance(error, _REFUSED):
        return ConstraintViolated(str(error))
    return error


class _Job(Generic[T]):
    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Callable[[apsw.Connection], T]) -> None:
        self.work = work
        self.result: T | None = None
        self.error: Exception | None = None
        self.done = trio.Event()


class Writer:
    """Owns the writing connection and its thread. All methods and attributes belong to the trio thread."""

    def __init__(self, connection: apsw.Connection, token: trio.lowlevel.TrioToken, *, retry_seconds: float) -> None:
        self.commits = 0
        """Jobs that were committed."""
        self.transactions = 0
        """Transactions that they shared."""
        self.problem: str | None = None
        self._writable = trio.Event()
        self._writable.set()
        self._closing = False
        self._stopped = trio.Event()
        self._token = token
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread = _WriterThread(connection, self._queue, self._report, retry_seconds=retry_seconds)

    def start(self) -> None:
        """Starts the thread; `aclose` ends it."""
        self._thread.start()

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs `work` in a transaction; returns its result when it is durable.

        A caller that is cancelled while it waits leaves the job to go on. Raises what `work` raised, ConstraintViolated
        or StoreUnavailable; then nothing of it was stored.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closing:
            raise StoreUnavailable("the store is closed")
        job = _Job(work)
        self._queue.put(job)
        await job.done.wait()
        if job.error is not None:
            raise job.error
        return cast("T", job.result)

    async def wait_writable(self) -> None:
        """Returns as soon as there is no problem."""
        await self._writable.wait()

    async def aclose(self) -> None:
        """Lets accepted jobs finish, then closes the connection. Idempotent, not to be cancelled."""
        with trio.CancelScope(shield=True):
            if not self._closing:
                self._closing = True
                self._queue.put(None)
            await self._stopped.wait()

    def _report(self, group: list[_Job[Any]], problem: str | None, stopped: bool) -> None:
        """Called by the thread: hands the outcome of a group over to the trio thread."""
        self._token.run_sync_soon(self._reported, group, problem, stopped)

    def _reported(self, group: list[_Job[Any]], problem: str | None, stopped: bool) -> None:
        self._set_problem(problem)
        stored = sum(job.error is None for job in group)
        self.commits += stored
        self.transactions += stored > 0
        for job in group:
            job.done.set()
        if stopped:
            self._end()

    def _end(self) -> None:
        self._thread.join()
        self._closing = True
        while not self._queue.empty():
            job = self._queue.get_nowait()
            if job is not None:
                job.error = StoreUnavailable("the store is closed")
                job.done.set()
        self._stopped.set()

    def _set_problem(self, problem: str | None) -> None:
        if problem is not None and self.problem is None:
            _log.error("the store cannot write: %s", problem)
            self._writable = trio.Event()
        elif problem is None and self.problem is not None:
            _log.info("the store can write again")
            self._writable.set()
        self.problem = problem


class _WriterThread(threading.Thread):
    """Everything here runs on the thread itself, but for `start` and `join`."""

    def __init__(
        self,
        connection: apsw.Connection,
        jobs: "queue.SimpleQueue[_Job[Any] | None]",
        report: Callable[[list[_Job[Any]], str | None, bool], None],
        *,
        retry_seconds: float,
    ) -> None:
        super().__init__(name="turnwire store writer")
        self._connection = connection
        self._jobs = jobs
        self._report = report
        self._retry_seconds = retry_seconds
        self._problem: str | None = None
        self._log_pages = 0
        self._checkpointed_at = 0
        connection.set_wal_hook(self._committed)

    def run(self) -> None:
        try:
            while self._run_group():
                self._checkpoint_if_due()
        finally:
            self._close()

    def _run_group(self) -> bool:
        """One transaction of what waits; False when the end was asked for."""
        group, ended = self._take()
        if group or self._problem is not None:
            self._commit(group)
            self._report(group, self._problem, False)
        return not ended

    def _take(self) -> tuple[list[_Job[Any]], bool]:
        group: list[_Job[Any]] = []
        try:
            job = self._jobs.get(timeout=None if self._problem is None else self._retry_seconds)
            while job is not None:
                group.append(job)
                if len(group) == GROUP:
                    return group, False
                job = self._jobs.get_nowait()
        except queue.Empty:
            return group, False
        return group, True

    def _commit(self, group: list[_Job[Any]]) -> None:
        probe = self._problem is not None
        self._problem = None
        try:
            self._transact(group, probe=probe)
        except Exception as error:  # noqa: BLE001 - whatever it is, every caller in the group must learn of it
            self._problem = str(error)
            for job in group:
                job.error = job.error or StoreUnavailable(f"the database cannot be used: {error}")

    def _transact(self, group: list[_Job[Any]], *, probe: bool) -> None:
        """Raises when nothing of the group was stored."""
        if self._connection.in_transaction:  # an earlier failure could not even roll back
            self._connection.execute("ROLLBACK")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if probe:
                self._probe()
            for job in group:
                self._run_job(job)
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _run_job(self, job: _Job[Any]) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # SQLite has rolled back the whole transaction
            self._connection.execute("ROLLBACK TO job")
            job.error = translated(error)
            if isinstance(job.error, StoreUnavailable):
                self._problem = str(error)
        self._connection.execute("RELEASE job")

    def _probe(self) -> None:
        """Writes one page, the one with the version, as it is: the cheapest proof that writing works again."""
        version = self._connection.execute("PRAGMA user_version").get
        self._connection.execute(f"PRAGMA user_version = {version}")

    def _committed(self, connection: apsw.Connection, database: str, pages: int) -> int:
        if pages < self._log_pages:  # the log began anew
            self._checkpointed_at = 0
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint_if_due(self) -> None:
        if self._log_pages - self._checkpointed_at < CHECKPOINT_PAGES:
            return
        self._checkpointed_at = self._log_pages
        reset = self._log_pages >= RESET_PAGES
        self._checkpoint(apsw.SQLITE_CHECKPOINT_RESTART if reset else apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _checkpoint(self, mode: int) -> None:
        try:
            self._connection.wal_checkpoint(mode=mode)
        except apsw.Error as error:  # nothing is lost, the log keeps it all, and the next one tries again
            _log.warning("the write-ahead log could not be copied into the database file: %s", error)

    def _close(self) -> None:
        self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        try:
            self._connection.close()
        except apsw.Error as error:  # closed it is all the same, and what was acknowledged is in the log
            _log.warning("the database was not closed cleanly: %s", error)
        finally:
            self._report([], self._problem, True)
