"""The writer's thread: transactions, the proof that a broken store works again, and the write-ahead log (D3, D4).

It knows nothing of trio: what comes of a group goes out through a callback.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

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

RESET_PATIENCE_MS: Final = 100
"""How long it waits for them, and every commit behind it. A reader that stays longer, such as a backup, only makes the
log grow by CHECKPOINT_PAGES before this is tried again."""

BUSY_MS: Final = 5000
"""How long to wait for another program that has the file locked."""

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
Work: TypeAlias = Callable[[apsw.Connection], T]
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


class Job(Generic[T]):
    """Something to be done in a transaction. `result` or `error` is set when `done` is."""

    __slots__ = ("asked_at", "done", "error", "result", "work")

    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.asked_at = time.perf_counter()
        self.result: T | None = None
        self.error: Exception | None = None
        self.done = trio.Event()


class Doubt(NamedTuple):
    """A read that the file has failed. The store is in trouble until the same read works."""

    read: Work[Any]
    sentence: str


class Outcome(NamedTuple):
    """What the thread reports: the jobs it has done, why the store is in trouble, and whether the thread has ended."""

    group: list[Job[Any]]
    problem: str | None
    stopped: bool = False


class WriterThread(threading.Thread):
    """Everything here runs on the thread itself, but for `start` and `join`. None in the queue asks for the end."""

    def __init__(
        self,
        connection: apsw.Connection,
        queue: "queue.SimpleQueue[Job[Any] | Doubt | None]",
        report: Callable[[Outcome], None],
        *,
        retry_seconds: float,
    ) -> None:
        super().__init__(name="turnwire store writer")
        self._connection = connection
        self._queue = queue
        self._report = report
        self._retry_seconds = retry_seconds
        self._failure: str | None = None
        """Why the last group could not be written."""
        self._doubt: Doubt | None = None
        self._doubt_due = 0.0
        self._log_pages = 0
        self._checkpointed_at = 0
        self._kept_log = False
        connection.set_wal_hook(self._committed)

    def run(self) -> None:
        try:
            while self._run_group():
                self._checkpoint_if_due()
        finally:
            self._close()

    @property
    def _problem(self) -> str | None:
        return self._failure or (None if self._doubt is None else self._doubt.sentence)

    def _run_group(self) -> bool:
        """One transaction of what waits; False when the end was asked for."""
        before = self._problem
        group, ended = self._take()
        if group or self._failure is not None:
            self._commit(group)
        if self._doubt is not None and time.monotonic() >= self._doubt_due:
            self._read_again(self._doubt)
        if group or self._problem != before:
            self._report(Outcome(group, self._problem))
        return not ended

    def _take(self) -> tuple[list[Job[Any]], bool]:
        group: list[Job[Any]] = []
        try:
            item = self._queue.get(timeout=None if self._problem is None else self._retry_seconds)
            while item is not None:
                if isinstance(item, Doubt):
                    self._doubt, self._doubt_due = item, time.monotonic() + self._retry_seconds
                else:
                    group.append(item)
                    if len(group) == GROUP:
                        return group, False
                item = self._queue.get_nowait()
        except queue.Empty:
            return group, False
        return group, True

    def _commit(self, group: list[Job[Any]]) -> None:
        probe = self._failure is not None
        self._failure = None
        try:
            self._transact(group, probe=probe)
        except Exception as error:  # noqa: BLE001 - whatever it is, every caller in the group must learn of it
            self._failure = f"the database cannot be written: {error}"
            for job in group:
                job.error = job.error or StoreUnavailable(f"the database cannot be used: {error}")

    def _transact(self, group: list[Job[Any]], *, probe: bool) -> None:
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

    def _run_job(self, job: Job[Any]) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # SQLite has rolled back the whole transaction
            self._connection.execute("ROLLBACK TO job")
            job.error = translated(error)
            if isinstance(job.error, StoreUnavailable):
                self._failure = str(job.error)
        self._connection.execute("RELEASE job")

    def _probe(self) -> None:
        """Writes one page, the one with the version, as it is: the cheapest proof that writing works again."""
        version = self._connection.execute("PRAGMA user_version").get
        self._connection.execute(f"PRAGMA user_version = {version}")

    def _read_again(self, doubt: Doubt) -> None:
        try:
            doubt.read(self._connection)
        except Exception as error:  # noqa: BLE001 - only a file that is well again ends the doubt
            if isinstance(translated(error), StoreUnavailable):
                self._doubt_due = time.monotonic() + self._retry_seconds
                return
        self._doubt = None

    def _committed(self, connection: apsw.Connection, database: str, pages: int) -> int:
        if pages < self._log_pages:  # the log began anew
            self._checkpointed_at = 0
            self._kept_log = False
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint_if_due(self) -> None:
        if self._log_pages - self._checkpointed_at < CHECKPOINT_PAGES:
            return
        self._checkpointed_at = self._log_pages
        if self._log_pages < RESET_PAGES:
            self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
            return
        self._connection.set_busy_timeout(RESET_PATIENCE_MS)
        self._checkpoint(apsw.SQLITE_CHECKPOINT_RESTART)
        self._connection.set_busy_timeout(BUSY_MS)

    def _checkpoint(self, mode: int) -> None:
        try:
            self._connection.wal_checkpoint(mode=mode)
        except apsw.BusyError:  # told once for each time that the log grows
            if not self._kept_log:
                self._kept_log = True
                _log.warning("another program reads the database file all the time: its write-ahead log has to grow")
        except apsw.Error as error:  # nothing is lost, the log keeps it all, and the next one tries again
            _log.warning("the write-ahead log could not be copied into the database file: %(error)s", {"error": error})

    def _close(self) -> None:
        self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        try:
            self._connection.close()
        except apsw.Error as error:  # closed it is all the same, and what was acknowledged is in the log
            _log.warning("the database was not closed cleanly: %(error)s", {"error": error})
        finally:
            self._report(Outcome([], self._problem, stopped=True))
