"""What Sessions keep of their history in memory: little while they are followed, nothing when they have gone (Z1)."""

import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_world import MakeWorld, ViewWatcher, World, break_down, text_answer
from turnwire.gateway.wire import wire_parts_of
from turnwire.models.scripted import ScriptedProvider
from turnwire.sessions.channel import SnapshotFrames
from turnwire.sessions.shelf import Shelf
from turnwire.store.base import StoredPage


class WireWatcher(ViewWatcher):
    """Takes the bytes, as the gateway does."""

    def joined(self, snapshot: SnapshotFrames) -> None:
        wire_parts_of(snapshot, "json")
        super().joined(snapshot)


@contextmanager
def without_collector() -> Iterator[None]:
    """Only what nothing refers to any more is freed: cycles stay. What was there before, `kept` does not look at."""
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def kept() -> int:
    """How many snapshots and pages of history are in memory that were made without the collector."""
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
            for limit in (1, 2):
                watcher = WireWatcher("s1")
                await w.registry.join("s1", watcher, limit=limit)
                w.registry.leave("s1", watcher)
            assert kept() > 0, "they are kept for the next one who joins"
            await goes(w)
            assert w.registry.live_sessions == 0
            assert kept() == 0


# ---------------------------------------------------------------------------------------------- while it is followed


class Taker(WireWatcher):
    """Remembers which snapshot it was given, but does not hold it."""

    taken = 0

    def joined(self, snapshot: SnapshotFrames) -> None:
        super().joined(snapshot)
        self.taken = id(snapshot)


async def test_Z1_what_all_sessions_that_are_followed_keep_is_bounded_together(
    autojump_clock: object, world: MakeWorld
) -> None:
    shelf = Shelf(100_000)
    async with world(provider=ScriptedProvider(), shelf=shelf) as w:
        names = [f"s{number}" for number in range(20)]
        for name in names:
            await w.session(name)
            async with w.registry.open(name) as session:
                await (await session.prompt("/text 9000 1000")).finished()
        with without_collector():
            for name in names:
                await w.watch(name)
                assert shelf.size <= 100_000
            assert kept() * 9000 <= 100_000, "a page and a snapshot for each of those that are kept"
            assert kept() >= 2 * 3, "those who joined last"
            first, second = Taker("s19"), Taker("s19")
            for watcher in (first, second):
                await w.registry.join("s19", watcher)
            assert first.taken == second.taken, "what is of use is not made anew"
            for name in names:
                await w.registry.delete(name)
            assert shelf.size == 0


class Book:
    """A keeper that says how much it has."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.size = 0

    def use(self, size: int) -> None:
        self.size = size
        self.shelf.used(self, size)

    def forget(self) -> None:
        self.size = 0
        self.shelf.dropped(self)


@given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 120))), max_size=60))
def test_Z1_the_shelf_gives_up_what_was_not_used_for_longest_and_no_more_than_it_must(
    steps: list[tuple[int, int | None]],
) -> None:
    shelf = Shelf(100)
    books = [Book(shelf) for _ in range(6)]
    order: list[Book] = []
    for number, size in steps:
        book = books[number]
        if book in order:
            order.remove(book)
        had = {id(each): each.size for each in order}
        if size is None:
            book.forget()
            continue
        book.use(size)
        given_up = [each for each in order if not each.size and had[id(each)]]
        assert shelf.size == sum(each.size for each in books)
        assert shelf.size <= max(100, size)
        if given_up:
            assert sum(each.size for each in books) + had[id(given_up[-1])] > 100, "no more than had to be"
            assert not any(each.size for each in order[: order.index(given_up[-1])]), "the longest unused first"
        order.append(book)
