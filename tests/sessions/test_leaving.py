"""What a Session leaves behind in memory when it goes: none of its history, in whatever way it went (Z1)."""

import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from sessions_world import MakeWorld, ViewWatcher, World, break_down, text_answer
from turnwire.gateway.wire import wire_parts_of
from turnwire.sessions.channel import SnapshotFrames
from turnwire.store.base import StoredPage


class WireWatcher(ViewWatcher):
    """Takes the bytes, as the gateway does."""

    def joined(self, snapshot: SnapshotFrames) -> None:
        wire_parts_of(snapshot, "json")
        super().joined(snapshot)


@contextmanager
def without_collector() -> Iterator[None]:
    """Only what nothing refers to any more is freed: cycles stay."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def kept() -> int:
    """How many snapshots and pages of history are in memory."""
    return sum(isinstance(thing, SnapshotFrames | StoredPage) for thing in gc.get_objects())


async def evicted(w: World) -> None:
    w.registry.evict_idle()


async def deleted(w: World) -> None:
    await w.registry.delete("s1")


async def failed(w: World) -> None:
    await break_down(w)


@pytest.mark.parametrize("goes", [evicted, deleted, failed])
async def test_Z1_a_session_that_leaves_memory_leaves_no_snapshot_there(
    goes: Callable[[World], Awaitable[None]], autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            await (await session.prompt("x")).finished()
        with without_collector():
            before = kept()
            for limit in (1, 2):
                watcher = WireWatcher("s1")
                await w.registry.join("s1", watcher, limit=limit)
                w.registry.leave("s1", watcher)
            assert kept() > before, "they are kept for the next one who joins"
            await goes(w)
            assert w.registry.live_sessions == 0
            assert kept() == before
