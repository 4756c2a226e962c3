"""Sessions on a memory store, a model that plays timelines, a virtual clock and seeded chance."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import msgspec
import pytest
import trio
from msgspec import structs

from turnwire.context.composer import Composer
from turnwire.models.base import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    ModelError,
    ModelEvent,
    ModelProvider,
    ModelRequest,
    StepEnd,
    Usage,
)
from turnwire.models.timeline import Timeline, TimelineProvider
from turnwire.sessions.channel import EndReason, Listener, Published, SnapshotFrames
from turnwire.sessions.environment import Environment, SessionLimits
from turnwire.sessions.mailbox import Chore
from turnwire.sessions.registry import Registry
from turnwire.store.base import Operation, Store
from turnwire.store.memory import MemoryStore, open_memory
from turnwire_protocol.view import SessionView
from virtual_time import time_waits_for_threads

Map = dict[str, Any]


def text_answer(*deltas: str, every: float = 0.02) -> Timeline:
    """A call that says these deltas, one after the other, and finishes."""
    return [
        (every, BlockStart(0, "text")),
        *((every * (n + 1), BlockDelta(0, delta)) for n, delta in enumerate(deltas)),
        (every * (len(deltas) + 1), BlockEnd(0)),
        (every * (len(deltas) + 1), StepEnd(blocks=(0,))),
    ]


def failing(error: ModelError, *deltas: str) -> Timeline:
    """A call that says these deltas and then fails."""
    return [
        (0.0, BlockStart(0, "text")),
        *((0.01 * (n + 1), BlockDelta(0, delta)) for n, delta in enumerate(deltas)),
        (0.01 * (len(deltas) + 1), error),
    ]


def counted(timeline: Timeline, tokens: int) -> Timeline:
    """The same call, reporting so many tokens of input."""
    (*before, (at, end)) = timeline
    assert isinstance(end, StepEnd)
    return [*before, (at, StepEnd(end.blocks, end.reason, Usage(input_tokens=tokens, output_tokens=0)))]


def tool_calls(*calls: tuple[str, str], text: str = "") -> Timeline:
    """A Step that says `text`, if any, and then calls these tools, each with its input text in two deltas."""
    events: list[ModelEvent] = []
    if text:
        events += [BlockStart(0, "text"), BlockDelta(0, text), BlockEnd(0)]
    first = 1 if text else 0
    for block, (name, input_text) in enumerate(calls, start=first):
        half = len(input_text) // 2
        events += [
            BlockStart(block, "tool", tool_call_id=f"theirs-{block}", tool_name=name),
            *(BlockDelta(block, piece) for piece in (input_text[:half], input_text[half:]) if piece),
            BlockEnd(block),
        ]
    events.append(StepEnd(blocks=tuple(range(first + len(calls))), reason="tool_calls"))
    return [(0.01 * number, event) for number, event in enumerate(events, start=1)]


class ViewWatcher:
    """A client that follows the rules, without a wire between: its view takes the frames as JSON."""

    def __init__(self, session_id: str) -> None:
        self.view = SessionView(session_id)
        self.effects: list[str] = []
        self.frames: list[Map] = []
        self.ended_with: EndReason | None = None
        self.restarts = 0
        self._changed = trio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds after a frame."""
        while not condition():
            await self._changed.wait()

    @property
    def listener(self) -> Listener:
        return self

    def joined(self, snapshot: SnapshotFrames) -> None:
        for data in snapshot.encoded("json"):
            self._receive(data)

    def published(self, item: Published) -> None:
        self._receive(item.encoded("json"))

    def restarted(self, session_id: str) -> None:
        self.restarts += 1

    def ended(self, session_id: str, reason: EndReason) -> None:
        self.ended_with = reason

    def _receive(self, data: bytes) -> None:
        frame = msgspec.json.decode(data)
        self.frames.append(frame)
        self.effects.append(self.view.receive(frame))
        self._changed.set()
        self._changed = trio.Event()

    def mutations(self, variant: str | None = None) -> list[Map]:
        return [
            frame
            for frame in self.frames
            if frame["op"] == "mutation" and (variant is None or frame["variant"] == variant)
        ]


class Kinds:
    """Plays a timeline for each call, taken from the queue of its kind of request."""

    name = "kinds"

    def __init__(
        self, *turns: Timeline, compaction: tuple[Timeline, ...] = (), title: tuple[Timeline, ...] = ()
    ) -> None:
        self.by_kind = {
            "turn": TimelineProvider(*turns),
            "compaction": TimelineProvider(*compaction),
            "title": TimelineProvider(*title),
        }

    def requests(self, kind: str) -> list[ModelRequest]:
        return self.by_kind[kind].requests

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, Any]:
        return self.by_kind[request.kind].stream(request)

    async def aclose(self) -> None:
        """Nothing is kept."""


class World:
    """One registry on one store, as tests see it."""

    def __init__(self, registry: Registry, environment: Environment, nursery: trio.Nursery) -> None:
        self.registry = registry
        self.env = environment
        self.nursery = nursery

    @property
    def store(self) -> Store:
        return self.env.store

    async def session(self, session_id: str = "s1") -> str:
        return (await self.registry.create(session_id=session_id)).session_id

    async def watch(self, session_id: str = "s1", **options: Any) -> ViewWatcher:
        watcher = ViewWatcher(session_id)
        await self.registry.join(session_id, watcher, **options)
        return watcher

    async def stored(self, session_id: str = "s1", *, include_internal: bool = False) -> list[Map]:
        """The newest Messages as SQLite (or its like) holds them."""
        page = await self.store.page(session_id, before_sequence=None, limit=200, include_internal=include_internal)
        return [msgspec.json.decode(item.json.text) for item in page.items]


class GatedStore(MemoryStore):
    """Its commits wait while the gate is shut; it shuts by itself after `commits_left` of them, if that is a number."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = trio.Event()
        self.gate.set()
        self.commits_left: int | None = None

    def shut_after(self, commits: int) -> None:
        self.commits_left = commits

    async def commit(self, operations: Sequence[Operation]) -> None:
        if self.commits_left == 0:
            self.commits_left, self.gate = None, trio.Event()
        if self.commits_left is not None:
            self.commits_left -= 1
        await self.gate.wait()
        await super().commit(operations)


async def exchange(world: World, text: str) -> str:
    """One prompt and its answer in Session s1; gives the Turn's status."""
    async with world.registry.open("s1") as session:
        return (await (await session.prompt(text)).finished()).status


async def break_down(w: World) -> None:
    """A fault in the task of Session s1, from which it is recovered."""

    async def fault() -> None:
        raise ZeroDivisionError("a bug")

    session = w.registry.in_memory("s1")
    assert session is not None
    session.mailbox.post(Chore(fault))
    await trio.sleep(1)


def model_warnings(watcher: ViewWatcher) -> list[Map]:
    """What the warnings of failed model calls say."""
    return [
        {key: frame.get(key) for key in ("request_kind", "turn_id", "code", "attempt", "will_retry")}
        for frame in watcher.mutations("warning")
    ]


_runs = count(1)
"""Each world is a process of its own as far as ids go."""

MakeWorld = Callable[..., Any]


@asynccontextmanager
async def open_world(
    provider: ModelProvider, *, store: Store | None = None, limits: SessionLimits | None = None, **changes: Any
) -> AsyncIterator[World]:
    """A recovered store and a running registry; everything ends with the block, as in a crash.

    Virtual time waits for tools that run in threads.
    """
    async with open_memory() as own_store:
        used: Store = own_store if store is None else store
        ids, run = count(1), next(_runs)
        environment = Environment(
            store=used,
            provider=provider,
            composer=Composer(used.context),
            titles=False,
            now=lambda: 1_700_000_000_000 + round(trio.current_time() * 1000),
            new_id=lambda prefix: f"{prefix}-{run}-{next(ids)}",
            random=random.Random(7),
            limits=limits or SessionLimits(),
        )
        if changes:
            environment = structs.replace(environment, **changes)
        await used.recover(environment.now())
        registry = Registry(environment)
        async with trio.open_nursery() as nursery:
            with time_waits_for_threads():
                await nursery.start(registry.run)
                yield World(registry, environment, nursery)
            nursery.cancel_scope.cancel()


@pytest.fixture
async def memory_store() -> AsyncIterator[MemoryStore]:
    async with open_memory() as store:
        yield store


@pytest.fixture
def world() -> MakeWorld:
    """`async with world(timeline, ...) as w:` opens a world whose model plays these timelines."""

    def make(*calls: Timeline, **options: Any) -> Any:
        provider = options.pop("provider", None) or TimelineProvider(*calls)
        return open_world(provider, **options)

    return make
