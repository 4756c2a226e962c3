"""The mailbox: everything that wants a Session to change, in one order, for the one task that owns it.

Jobs (commands of clients) come before model events, so that a `stop` never waits behind a talkative model. Jobs are
bounded by those who wait for their answers; model events are bounded here, and hold the provider back.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

import trio

from turnwire.models.base import BlockDelta
from turnwire.store.base import NotFound, StoreUnavailable
from turnwire_protocol.codes import RequestError

_ANSWERS = (RequestError, StoreUnavailable, NotFound)
"""What a request may be answered with."""

T = TypeVar("T")


class Job(Generic[T]):
    """A command on its way through a Session's task, and the answer for those who wait for it.

    `lasting` names what is done even when nobody waits any more, so that whoever wants the same can wait for it, too.
    """

    def __init__(self, action: Callable[[], Awaitable[T]], *, lasting: Hashable | None = None) -> None:
        self.lasting = lasting
        self._action = action
        self._done = trio.Event()
        self._value: T
        self._error: Exception | None = None

    async def run(self) -> None:
        """Runs in the Session's task. An error that the action may answer with goes to the one who waits.

        Raises anything else, for it is a fault of the Session: nobody knows whether memory still is what is stored, so
        the Session has to be recovered. Who waits gets `internal`, and asks again what is stored.
        """
        self._error = RequestError("unavailable", "the session was closed before it could answer")
        try:
            self._value = await self._action()
            self._error = None
        except _ANSWERS as error:
            self._error = error
        except Exception as fault:
            self._error = RequestError("internal", "the server failed")
            self._error.__cause__ = fault
            raise
        finally:
            self._done.set()

    def abandon(self, error: Exception) -> None:
        """Answers with an error instead of running."""
        self._error = error
        self._done.set()

    async def wait(self) -> T:
        """The action's result, or its exception. A caller that is cancelled here does not cancel the job."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value


class Chore(Job[None]):
    """A job of the Session itself: nobody waits for it, so what it raises is a fault of the Session."""

    async def run(self) -> None:
        await self._action()


class Mailbox:
    """Jobs and the events of one model call at a time; read by one task."""

    def __init__(self, pending_events: int) -> None:
        self._capacity = pending_events
        self._jobs: deque[Job[Any]] = deque()
        self._events: deque[tuple[object, object]] = deque()
        self._arrived = trio.Event()
        self._room = trio.Event()

    def post(self, job: Job[Any]) -> None:
        self._jobs.append(job)
        self._arrived.set()

    def pending(self, lasting: Hashable) -> Job[Any] | None:
        """The lasting job of this name, if it has not been taken and no other command has come behind it."""
        found: Job[Any] | None = None
        for job in self._jobs:
            if job.lasting == lasting:
                found = job
            elif job.lasting is None and not isinstance(job, Chore):
                found = None
        return found

    def withdraw(self, job: Job[Any]) -> None:
        """The job is not to be done any more, if it has not been taken."""
        if job in self._jobs:
            self._jobs.remove(job)

    async def feed(self, source: object, event: object) -> None:
        """Hands over an event of `source` (the model call it belongs to); waits while too many are pending."""
        while len(self._events) >= self._capacity:
            await self._room.wait()
        self._events.append((source, event))
        self._arrived.set()
        await trio.lowlevel.checkpoint_if_cancelled()

    @property
    def empty(self) -> bool:
        return not self._jobs and not self._events

    async def take(self) -> Job[Any] | list[tuple[object, object]]:
        """The next job, or else all pending model events, adjacent deltas of one block joined into one (W6)."""
        while self.empty:
            self._arrived = trio.Event()
            await self._arrived.wait()
        if self._jobs:
            return self._jobs.popleft()
        events = _coalesced(self._events)
        self._events.clear()
        self._room.set()
        self._room = trio.Event()
        return events

    def drain_jobs(self) -> list[Job[Any]]:
        """The jobs that will not run because the Session ends."""
        jobs = list(self._jobs)
        self._jobs.clear()
        return jobs


def _coalesced(events: deque[tuple[object, object]]) -> list[tuple[object, object]]:
    joined: list[tuple[object, object]] = []
    run: list[str] = []
    for source, event in events:
        last = joined[-1] if joined else None
        if (
            isinstance(event, BlockDelta)
            and last is not None
            and last[0] is source
            and isinstance(last[1], BlockDelta)
            and last[1].block == event.block
        ):
            run.append(event.text)
            continue
        _end_run(joined, run)
        joined.append((source, event))
    _end_run(joined, run)
    return joined


def _end_run(joined: list[tuple[object, object]], run: list[str]) -> None:
    """Gives the last delta of `joined` the text of those that followed it."""
    if not run:
        return
    source, first = joined[-1]
    assert isinstance(first, BlockDelta)
    joined[-1] = (source, BlockDelta(first.block, first.text + "".join(run)))
    run.clear()
