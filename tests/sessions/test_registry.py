"""The registry at bad moments: what arrives twice, late, or for a Session that is gone (M2, S7, S9, T2, W8)."""

import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from sessions_world import GatedStore, MakeWorld, break_down, exchange, text_answer
from turnwire.sessions.channel import EndReason, Listener, Published, SnapshotFrames
from turnwire_protocol.codes import RequestError
from turnwire_protocol.parts import TextInput


class Passer:
    """Joins, and looks at nothing."""

    @property
    def listener(self) -> Listener:
        return self

    def joined(self, snapshot: SnapshotFrames) -> None: ...

    def published(self, item: Published) -> None: ...

    def restarted(self, session_id: str) -> None: ...

    def ended(self, session_id: str, reason: EndReason) -> None: ...


async def test_W8_a_prompt_that_waits_when_a_drain_begins_starts_no_turn(
    autojump_clock: object, world: MakeWorld
) -> None:
    store = GatedStore()
    refused: list[str] = []
    async with world(text_answer("a", every=500.0), store=store) as w:
        await w.session()
        await w.watch()
        store.gate = trio.Event()

        async def prompt() -> None:
            with pytest.raises(RequestError) as error:
                await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r")
            refused.append(error.value.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: w.registry.update("s1", title="holds the session up"))
            await trio.sleep(1)
            nursery.start_soon(prompt)
            await trio.sleep(1)
            nursery.start_soon(w.registry.drain, 1.0)
            await trio.sleep(5)
            store.gate.set()
        assert refused == ["draining"]
        assert w.registry.running_turns == 0


async def test_S9_a_creation_that_is_sent_twice_at_once_gives_one_session_to_both(
    autojump_clock: object, world: MakeWorld
) -> None:
    store = GatedStore()
    async with world(store=store) as w:
        store.gate = trio.Event()
        got: list[str] = []

        async def create() -> None:
            got.append((await w.registry.create(title="t", client_request_id="r")).session_id)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(create)
            nursery.start_soon(create)
            await trio.sleep(1)
            store.gate.set()
        assert len(got) == 2
        assert len(set(got)) == 1
        with pytest.raises(RequestError) as refused:
            await w.registry.create(title="other", client_request_id="r")
        assert refused.value.code == "conflict"


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
async def test_M2_a_limit_that_is_none_is_refused_everywhere(limit: Any, world: MakeWorld) -> None:
    async with world() as w:
        await w.session()
        asks: list[Callable[[], Awaitable[object]]] = [
            lambda: w.registry.list(limit=limit),
            lambda: w.registry.messages("s1", limit=limit),
            lambda: w.registry.join("s1", Passer(), limit=limit),
        ]
        for ask in asks:
            with pytest.raises(RequestError) as refused:
                await ask()
            assert (refused.value.code, refused.value.field) == ("invalid_argument", "limit")


async def test_T2_a_turn_prompted_after_a_fault_is_waited_for_with_the_old_handle(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a", every=10.0)) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            await break_down(w)
            turn = await session.prompt("x")
            assert (await turn.finished()).status == "completed"
            assert (await turn.finished()).status == "completed"


async def test_T2_the_end_of_a_turn_whose_session_was_deleted_is_not_found(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            assert (await turn.finished()).status == "completed"
            await w.registry.delete("s1")
            with pytest.raises(RequestError) as refused:
                await turn.finished()
            assert refused.value.code == "not_found"


async def test_W4_clients_that_join_with_every_limit_take_no_more_memory_than_one(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(*[text_answer("x" * 20_000) for _ in range(40)]) as w:
        await w.session()
        for _ in range(40):
            await exchange(w, "y")
        watcher = Passer()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for limit in range(1, 81):
                await w.registry.join("s1", watcher, limit=limit)
            kept = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert kept < 4_000_000  # one page of all is 0.8 MB; pages of all limits are 32 MB


async def test_M5_the_preview_is_of_the_newest_message_whatever_is_stored_last(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("the first answer", every=10.0)) as w:
        await w.session()
        await w.watch()
        await w.registry.prompt("s1", parts=(TextInput("first"),), client_request_id="r1")
        await trio.sleep(11)
        await w.registry.prompt("s1", parts=(TextInput("second"),), client_request_id="r2")
        await w.registry.stop("s1")
        assert (await w.registry.get("s1")).preview == (await w.store.session("s1")).preview == "second"
