"""The archive: what is in it is out of the listing, otherwise as it was, and comes back (S9, T1)."""

from typing import Any

import pytest
import trio

from sessions_world import MakeWorld, World, exchange, text_answer
from turnwire.store.base import SessionListing
from turnwire.store.memory import MemoryStore
from turnwire_protocol.codes import RequestError


class LateListing(MemoryStore):
    """What it has read of the listing takes its time to arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.read = trio.Event()
        self.arrives = trio.Event()

    async def sessions(self, **arguments: Any) -> SessionListing:
        listing = await super().sessions(**arguments)
        self.read.set()
        await self.arrives.wait()
        return listing


async def listed(w: World, *, archived: bool = False) -> list[str]:
    return [item.session_id for item in (await w.registry.list(archived=archived)).items]


async def test_an_archived_session_is_listed_apart_until_it_is_brought_back(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world() as w:
        await w.session()
        for _ in range(2):
            await w.registry.archive("s1")
            assert (await listed(w), await listed(w, archived=True)) == ([], ["s1"])
        first = await w.registry.get("s1")
        assert first == await w.registry.update("s1", archived=True), "archived once, whoever says it again"
        for _ in range(2):
            back = await w.registry.update("s1", archived=False)
            assert not back.archived_at
            assert (await listed(w), await listed(w, archived=True)) == (["s1"], [])
        await w.registry.update("s1", archived=True, title="Both at once")
        assert await listed(w, archived=True) == ["s1"]
        assert (await w.registry.get("s1")).title == "Both at once"


@pytest.mark.parametrize("archived", [False, True])
async def test_W1_no_listing_holds_a_session_that_has_changed_places_while_it_was_read(
    archived: bool, autojump_clock: object, world: MakeWorld
) -> None:
    store = LateListing()
    async with world(store=store) as w:
        await w.session()
        await w.registry.update("s1", archived=archived)
        found: list[str] = []

        async def look() -> None:
            found.extend(await listed(w, archived=archived))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            await store.read.wait()
            await w.registry.update("s1", archived=not archived)
            store.arrives.set()
        assert found == []


async def test_W4_a_snapshot_tells_whether_the_session_is_archived(autojump_clock: object, world: MakeWorld) -> None:
    async with world() as w:
        await w.session()
        await w.registry.archive("s1")
        assert "archived_at" in (await w.watch()).view.session
        await w.registry.update("s1", archived=False)
        assert "archived_at" not in (await w.watch()).view.session


async def test_T1_a_prompt_brings_a_session_back_from_the_archive(autojump_clock: object, world: MakeWorld) -> None:
    async with world(text_answer("one"), text_answer("two")) as w:
        await w.session()
        await exchange(w, "first")
        await w.registry.archive("s1")
        await exchange(w, "second")
        assert (await listed(w), await listed(w, archived=True)) == (["s1"], [])
        assert [message["sequence"] for message in await w.stored()] == [1, 2, 3, 4]


async def test_S9_a_prompt_that_is_refused_or_was_accepted_before_leaves_the_archive_as_it_is(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("one", "two", every=10)) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x", client_request_id="r")
            await w.registry.archive("s1")
            assert (await session.prompt("x", client_request_id="r")).receipt.outcome == "duplicate"
            with pytest.raises(RequestError, match="a turn is running"):
                await session.prompt("y", if_idle=True)
            assert await listed(w, archived=True) == ["s1"]
            assert (await turn.finished()).status == "completed", "the Turn runs on in the archive"
        assert await listed(w, archived=True) == ["s1"]
        assert len(await w.stored()) == 2


@pytest.mark.parametrize("queued", [True, False])
async def test_T1_a_prompt_to_a_session_that_was_archived_while_it_runs_brings_it_back(
    queued: bool, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("one", "two", every=10), text_answer("more")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("first")
            await w.registry.archive("s1")
            later = await session.prompt("second", expected_turn_id=None if queued else turn.turn_id)
            assert later.receipt.outcome == ("queued" if queued else "steered")
            assert await listed(w) == ["s1"]
            await later.finished()


async def test_M5_a_fork_of_an_archived_session_is_not_archived(autojump_clock: object, world: MakeWorld) -> None:
    async with world(text_answer("one")) as w:
        await w.session()
        await exchange(w, "first")
        await w.registry.archive("s1")
        await w.registry.fork("s1", new_session_id="f1")
        assert (await listed(w), await listed(w, archived=True)) == (["f1"], ["s1"])


async def test_L3_the_archive_is_told_by_no_mutation_but_by_the_next_snapshot_and_list(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world() as w:
        await w.session()
        watcher = await w.watch()
        for archived in (True, False):
            await w.registry.update("s1", archived=archived)
            assert ("archived_at" in (await w.watch()).view.session) is archived
            assert await listed(w, archived=archived) == ["s1"]
        assert watcher.mutations() == []
        assert await w.stored() == []
