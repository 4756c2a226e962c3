"""The writer: one connection on one thread, to which every change of the database goes (D1, D3, D4).

Whatever waits when the thread is free becomes one transaction, each job in a savepoint of its own: a job that fails
takes nothing with it, and one fsync serves them all. A job is acknowledged after COMMIT. Jobs run to their end
whatever becomes of their callers.

What a job does is not known here; it gets the connection, inside of a transaction, and works synchronously. What runs
on the thread is `writer_thread`.
"""

import logging
import queue
import time
from typing import Any, Final, TypeVar, cast

import apsw
import trio

from turnwire.measures import Histogram
from turnwire.store.base import StoreUnavailable
from turnwire.store.writer_thread import GROUP, Doubt, Job, Outcome, Work, WriterThread

GROUP_SIZES: Final = (1, 2, 4, 8, 16, 32, GROUP)

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Writer:
    """Owns the writing connection and its thread. All methods and attributes belong to the trio thread."""

    def __init__(self, connection: apsw.Connection, token: trio.lowlevel.TrioToken, *, retry_seconds: float) -> None:
        self.commits = 0
        """Jobs that were committed."""
        self.transactions = 0
        """Transactions that they shared."""
        self.group_sizes = Histogram(GROUP_SIZES)
        """How many jobs shared each transaction."""
        self.seconds = Histogram()
        """How long callers waited for each job that was committed."""
        self.problem: str | None = None
        self._writable = trio.Event()
        self._writable.set()
        self._closing = False
        self._stopped = trio.Event()
        self._token = token
        self._queue: queue.SimpleQueue[Job[Any] | Doubt | None] = queue.SimpleQueue()
        self._thread = WriterThread(connection, self._queue, self._report, retry_seconds=retry_seconds)

    def start(self) -> None:
        """Starts the thread; `aclose` ends it."""
        self._thread.start()

    async def run(self, work: Work[T]) -> T:
        """Runs `work` in a transaction; returns its result when it is durable.

        A caller that is cancelled while it waits leaves the job to go on. Raises what `work` raised, ConstraintViolated
        or StoreUnavailable; then nothing of it was stored.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closing:
            raise StoreUnavailable("the store is closed")
        job = Job(work)
        self._queue.put(job)
        await job.done.wait()
        if job.error is not None:
            raise job.error
        return cast("T", job.result)

    def doubt(self, read: Work[Any], sentence: str) -> None:
        """The file has failed this read: `problem` says so until the read, which is tried again, works."""
        if not self._closing:
            self._set_problem(self.problem or sentence)
            self._queue.put(Doubt(read, sentence))

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

    def _report(self, outcome: Outcome) -> None:
        """Called by the thread: hands an outcome over to the trio thread."""
        self._token.run_sync_soon(self._reported, outcome)

    def _reported(self, outcome: Outcome) -> None:
        self._set_problem(outcome.problem)
        now = time.perf_counter()
        stored = 0
        for job in outcome.group:
            if job.error is None:
                stored += 1
                self.seconds.observe(now - job.asked_at)
            job.done.set()
        if stored:
            self.commits += stored
            self.transactions += 1
            self.group_sizes.observe(stored)
        if outcome.stopped:
            self._end()

    def _end(self) -> None:
        self._thread.join()
        self._closing = True
        while not self._queue.empty():
            item = self._queue.get_nowait()
            if isinstance(item, Job):
                item.error = StoreUnavailable("the store is closed")
                item.done.set()
        self._stopped.set()

    def _set_problem(self, problem: str | None) -> None:
        if problem is not None and self.problem is None:
            _log.error("the store is in trouble: %(problem)s", {"problem": problem})
            self._writable = trio.Event()
        elif problem is None and self.problem is not None:
            _log.info("the store works again")
            self._writable.set()
        self.problem = problem
