"""In-process subscribers: what counts as an async callback (L1)."""

from functools import partial

import pytest
import trio

from sessions_world import MakeWorld, text_answer
from turnwire_protocol.mutations import Mutation, TurnFinish


class Recorder:
    """Takes Mutations, in several shapes that Python calls async."""

    def __init__(self) -> None:
        self.seen: list[Mutation] = []

    async def __call__(self, mutation: Mutation) -> None:
        await trio.sleep(1)
        self.seen.append(mutation)

    async def method(self, mutation: Mutation) -> None:
        await self(mutation)

    async def labelled(self, label: str, mutation: Mutation) -> None:
        await self(mutation)


@pytest.mark.parametrize("shape", ["object", "method", "partial", "partial of an object"])
async def test_L1_any_async_callable_is_awaited_in_order(
    shape: str, autojump_clock: object, world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, in_place = Recorder(), list[Mutation]()
    callback = {
        "object": recorder,
        "method": recorder.method,
        "partial": partial(recorder.labelled, "x"),
        "partial of an object": partial(recorder),
    }[shape]
    async with world(text_answer("a", "b")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            session.subscribe(in_place.append)
            session.subscribe(callback)
            await (await session.prompt("x")).finished()
            await trio.sleep(60)
    assert recorder.seen == in_place
    assert isinstance(in_place[-1], TurnFinish)
    assert caplog.text == ""


async def test_L1_a_callback_that_hides_that_it_is_async_is_a_logged_fault(
    autojump_clock: object, world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    async with world(text_answer("a")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            session.subscribe(lambda mutation: recorder(mutation))
            assert (await (await session.prompt("x")).finished()).status == "completed"
    assert recorder.seen == []
    assert "async function" in caplog.text
