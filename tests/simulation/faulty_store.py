"""A Store that takes its time, fails and dies on demand, and remembers all that was ever committed through it.

It keeps the contract: `StoreUnavailable` means that nothing was stored. `Killed` is what no code can catch: the process
has died at this await, before the commit or after it.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

import msgspec
import trio
from trio.testing import MockClock

from simulation.journal import Contents, Journal
from turnwire.store.base import (
    Operation,
    Recovered,
    RequestRecord,
    SaveMessage,
    SaveTurn,
    Scope,
    SessionListing,
    SessionRecord,
    Store,
    StoredPage,
    StoreUnavailable,
    TurnRecord,
    UpdateSession,
)
from turnwire.store.context import ContextStore, Summary
from turnwire_protocol.codec import encode_json
from turnwire_protocol.messages import StoredJson

T = TypeVar("T")

FINAL_STATUS = frozenset({"completed", "failed", "stopped"})


class Killed(BaseException):
    """The process has died."""


class SimulatedBug(Exception):
    """A fault that nobody foresaw, before an operation or behind it: what it was may be stored, or not."""


class Committed:
    """What was made durable, by whichever process: the truth that everything else is compared with."""

    def __init__(self, journal: Journal) -> None:
        self.contents = Contents(journal)
        self.revisions: dict[str, int] = {}
        """The newest committed revision by `message_id`."""
        self.met_a_bug = False
        """Whether a SimulatedBug was raised: only then may a Session's task fail."""
        self.running = ""
        """The Turn that started last."""
        self.ended: set[str] = set()
        """Turns whose end is committed, and known to be."""
        self.decided: dict[str, str] = {}
        """The newest committed status of the Interaction, by `tool_call_id`."""
        self.always_allowed = False
        """Whether the Session ever ran with `always-allow`."""

    def take(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            match operation:
                case SaveMessage(message):
                    plain = msgspec.json.decode(encode_json(message).text)
                    self.contents.check(plain, "when committed")
                    self.revisions[message.message_id] = message.revision
                    for part in plain["parts"]:
                        if part["type"] == "interaction":
                            self.decided[part["tool_call_id"]] = part["status"]
                case SaveTurn(record) if record.status == "running":
                    self.running = record.turn_id
                case UpdateSession(record) if record.config.approval_mode == "always-allow":
                    self.always_allowed = True

    def end(self, operations: Iterable[Operation]) -> None:
        """The caller is about to learn that these were stored."""
        for operation in operations:
            if isinstance(operation, SaveTurn) and operation.record.status in FINAL_STATUS:
                self.ended.add(operation.record.turn_id)


class StoreFaults:
    """What befalls the operations of one store; subclasses decide. Numbers count from 0."""

    def before(self, number: int) -> None:
        """Called when an operation begins; may raise StoreUnavailable, SimulatedBug or Killed."""

    def after(self, number: int) -> None:
        """Called when an operation has been done, before its caller learns of it; may raise SimulatedBug or Killed."""

    def pause(self) -> float:
        """How long an operation waits before and again after its work, in seconds."""
        return 0.0


class FaultyStore:
    """One process's way to the store behind it. `kill` ends the process as far as the store can tell."""

    def __init__(self, inner: Store, committed: Committed, faults: StoreFaults) -> None:
        self._inner = inner
        self._committed = committed
        self._faults = faults
        self._pauses: set[trio.CancelScope] = set()
        self._dead = False
        self.operations = 0

    @property
    def problem(self) -> str | None:
        return self._inner.problem

    def kill(self) -> None:
        """Whoever waits for the store now, shielded or not, dies where it waits."""
        self._dead = True
        for scope in self._pauses:
            scope.cancel()

    async def commit(self, operations: Sequence[Operation]) -> None:
        async def commit() -> None:
            await self._inner.commit(operations)
            self._committed.take(operations)

        await self.perform(commit)
        self._committed.end(operations)

    async def session(self, session_id: str) -> SessionRecord:
        return await self.perform(lambda: self._inner.session(session_id))

    async def sessions(
        self, *, before: str | None, limit: int, archived: bool, scope: Scope | None = None
    ) -> SessionListing:
        return await self.perform(
            lambda: self._inner.sessions(before=before, limit=limit, archived=archived, scope=scope)
        )

    async def page(
        self, session_id: str, *, before_sequence: int | None, limit: int, include_internal: bool
    ) -> StoredPage:
        return await self.perform(
            lambda: self._inner.page(
                session_id, before_sequence=before_sequence, limit=limit, include_internal=include_internal
            )
        )

    async def turn(self, turn_id: str) -> TurnRecord | None:
        return await self.perform(lambda: self._inner.turn(turn_id))

    async def request(self, session_id: str, client_request_id: str) -> RequestRecord | None:
        return await self.perform(lambda: self._inner.request(session_id, client_request_id))

    async def interaction(self, session_id: str, interaction_id: str) -> StoredJson | None:
        return await self.perform(lambda: self._inner.interaction(session_id, interaction_id))

    @property
    def context(self) -> "FaultyContext":
        return FaultyContext(self, self._inner.context)

    async def recover(self, now: int, *, session_id: str | None = None) -> Recovered:
        return await self.perform(lambda: self._inner.recover(now, session_id=session_id))

    async def aclose(self) -> None:
        """The store behind it lives on."""

    async def perform(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does the work as one operation, or fails."""
        number = self.operations
        self.operations += 1
        self._live()
        await self._pause()
        try:
            self._faults.before(number)
            result = await work()
            await self._pause()
            self._live()
            self._faults.after(number)
        except SimulatedBug:
            self._committed.met_a_bug = True
            raise
        return result

    async def _pause(self) -> None:
        seconds = self._faults.pause()
        if seconds:
            with trio.CancelScope() as scope:
                self._pauses.add(scope)
                await trio.sleep(seconds)
            self._pauses.discard(scope)
            self._live()

    def _live(self) -> None:
        if self._dead:
            raise Killed


class FaultyContext:
    """The Composer's way to the store, which shares all faults."""

    def __init__(self, store: FaultyStore, inner: ContextStore) -> None:
        self._store = store
        self._inner = inner

    async def page(
        self, session_id: str, *, before_sequence: int | None, limit: int, include_internal: bool
    ) -> StoredPage:
        return await self._store.page(
            session_id, before_sequence=before_sequence, limit=limit, include_internal=include_internal
        )

    async def cancelled_turns(self, turn_ids: Collection[str]) -> frozenset[str]:
        return await self._store.perform(lambda: self._inner.cancelled_turns(turn_ids))

    async def summary(self, session_id: str) -> Summary | None:
        return await self._store.perform(lambda: self._inner.summary(session_id))

    async def save_summary(self, summary: Summary) -> None:
        await self._store.perform(lambda: self._inner.save_summary(summary))


@asynccontextmanager
async def with_still_clock(opening: AbstractAsyncContextManager[Store]) -> AsyncIterator[Store]:
    """A store that uses threads, and the autojump clock stands still while it opens, is at work, or closes."""
    async with AsyncExitStack() as stack:
        with standing(set()):
            store = await stack.enter_async_context(opening)
        yield StillClock(store)
        with standing(set()):
            await stack.aclose()


@contextmanager
def standing(blocks: set[object]) -> Iterator[None]:
    """The autojump clock of this run stands still until none of these blocks is left."""
    clock, block = trio.lowlevel.current_clock(), object()
    assert isinstance(clock, MockClock)
    blocks.add(block)
    clock.autojump_threshold = math.inf
    try:
        yield
    finally:
        blocks.remove(block)
        if not blocks:
            clock.autojump_threshold = 0


class StillClock:
    """Keeps an autojump clock from moving while a store that uses threads is at work."""

    def __init__(self, inner: Any, calls: set[object] | None = None) -> None:
        self._inner = inner
        self._calls: set[object] = set() if calls is None else calls
        """Those under way; `context` shares them."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "context":
            return StillClock(value, self._calls)
        if not callable(value):
            return value

        async def call(*args: Any, **options: Any) -> Any:
            with standing(self._calls):
                return await value(*args, **options)

        return call


def unavailable() -> StoreUnavailable:
    return StoreUnavailable("the simulated disk is full")
