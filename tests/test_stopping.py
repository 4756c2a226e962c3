"""The orderly end of a server whose store is slow, or whose Sessions go of their own accord: it stays orderly (W8)."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
import trio.testing

from sessions_world import GatedStore, World, open_world, text_answer
from turnwire.app import CLOSE_SECONDS
from turnwire.gateway import Gateway, GatewaySettings, OpenAccess
from turnwire.models.timeline import TimelineProvider
from turnwire.sessions.environment import SessionLimits
from turnwire.stopping import Watchdog, stop
from turnwire.store.writer_thread import BUSY_MS
from turnwire_protocol.parts import TextInput

ANSWER_SECONDS = SessionLimits().answer_seconds


@asynccontextmanager
async def running(store: GatedStore) -> AsyncIterator[tuple[World, str]]:
    """A Turn that runs, while from now on the store does not answer; and its id."""
    async with open_world(TimelineProvider(text_answer("a", every=500.0)), store=store) as w:
        await w.session()
        turn = await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r")
        store.gate = trio.Event()
        try:
            yield w, turn.turn_id
        finally:
            store.gate.set()  # a commit is never given up, so that nothing ended otherwise


@asynccontextmanager
async def stopping(w: World) -> AsyncIterator[list[bool]]:
    """The stop begins, without a grace; at the end of the block it has ended, and this is how."""
    gateway = Gateway(
        w.registry,
        GatewaySettings(),
        authenticator=OpenAccess(),
        server="test",
        documents={},
        problem=lambda: None,
        rng=random.Random(1),
    )
    orderly: list[bool] = []

    async def end() -> None:
        orderly.append(await stop(w.registry, gateway, 0.0))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        yield orderly


async def test_W8_a_stop_is_orderly_when_the_store_was_only_slow(autojump_clock: object) -> None:
    """Also on a machine that is so busy that a commit takes longer than anyone who asked would be let wait."""
    store = GatedStore()
    async with running(store) as (w, turn_id):
        async with stopping(w) as orderly:
            await trio.sleep(ANSWER_SECONDS + 1)
            assert orderly == []
            store.gate.set()
        assert orderly == [True]
        record = await store.turn(turn_id)
        assert record is not None
        assert record.status == "stopped"


async def test_W8_a_stop_is_not_orderly_when_the_store_does_not_answer(autojump_clock: object) -> None:
    store = GatedStore()
    async with running(store) as (w, _):
        async with stopping(w) as orderly:
            pass
        assert orderly == [False]


async def test_W8_a_session_that_is_deleted_meanwhile_needs_no_other_end(autojump_clock: object) -> None:
    store = GatedStore()
    async with running(store) as (w, _), trio.open_nursery() as nursery:
        drained: list[bool] = []

        async def drain() -> None:
            drained.append(await w.registry.drain(0.0))

        nursery.start_soon(w.registry.delete, "s1")
        await trio.sleep(1)
        nursery.start_soon(drain)
        await trio.sleep(1)
        assert drained == []
        store.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert drained == [True]


def test_W8_what_has_a_bound_of_its_own_has_ended_before_the_process_is_ended_by_force() -> None:
    """Storing the ends of Turns, letting go of the model provider, and copying a log that another program reads."""
    assert Watchdog(lambda: None).reserve_seconds > ANSWER_SECONDS + CLOSE_SECONDS + BUSY_MS / 1000
