"""Callers that are cancelled: what they asked for is done all the same once the Session has it, and else never (S9)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio

from sessions_world import MakeWorld, World, text_answer
from turnwire.store.memory import MemoryStore
from turnwire_protocol.frames import Receipt
from turnwire_protocol.parts import TextInput

SECONDS = 1.0
"""How long each operation of the slow store takes."""

HAVING_IT_READ = (0.0, 0.5)
LOOKING_FOR_THE_REQUEST = 1.5
STORING_THE_PROMPT = 2.5
"""Seconds after which the caller is cancelled, by what it waits for then: the first prompt of a Session."""


class SlowStore(MemoryStore):
    async def session(self, *args: Any, **options: Any) -> Any:
        await trio.sleep(SECONDS)
        return await super().session(*args, **options)

    async def request(self, *args: Any, **options: Any) -> Any:
        await trio.sleep(SECONDS)
        return await super().request(*args, **options)

    async def commit(self, operations: Any) -> None:
        await trio.sleep(SECONDS)
        await super().commit(operations)


async def prompt(w: World, request_id: str = "r1") -> Receipt:
    return await w.registry.prompt("s1", parts=(TextInput(request_id),), client_request_id=request_id)


async def prompt_cancelled(w: World, wait: Callable[[], Any]) -> bool:
    """Whether the caller was cancelled before it had its receipt, once `wait` had ended."""
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def ask() -> None:
            with scope:
                await prompt(w)

        nursery.start_soon(ask)
        await wait()
        scope.cancel()
    return scope.cancelled_caught


async def check_done(w: World, turns: int = 1) -> None:
    """Nobody asks again, and yet it is answered; who does ask again learns so."""
    await trio.sleep(60 * SECONDS)
    stored = [message["role"] for message in await w.stored()]
    assert stored.count("user") == stored.count("agent") == turns
    assert (await prompt(w)).outcome == "duplicate"


async def check_never_done(w: World) -> None:
    await trio.sleep(60 * SECONDS)
    assert await w.stored() == []
    assert (await prompt(w)).outcome == "started"


@pytest.mark.parametrize("seconds", HAVING_IT_READ)
async def test_S9_a_caller_that_is_cancelled_while_its_session_is_read_has_asked_for_nothing(
    seconds: float, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a"), store=SlowStore()) as w:
        await w.session()
        assert await prompt_cancelled(w, partial(trio.sleep, seconds))
        await check_never_done(w)


@pytest.mark.parametrize("seconds", [LOOKING_FOR_THE_REQUEST, STORING_THE_PROMPT])
async def test_S9_a_cancelled_caller_does_not_cancel_its_prompt(
    seconds: float, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a"), store=SlowStore()) as w:
        await w.session()
        assert await prompt_cancelled(w, partial(trio.sleep, seconds))
        await check_done(w)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.5])
async def test_S9_a_cancelled_caller_does_not_cancel_its_prompt_that_waits_for_another_request(
    seconds: float, autojump_clock: object, world: MakeWorld
) -> None:
    """The Session is in memory, and at work on something else for two seconds."""
    async with world(text_answer("a"), text_answer("b"), store=SlowStore()) as w:
        await w.session()
        async with w.registry.open("s1"), trio.open_nursery() as nursery:
            nursery.start_soon(prompt, w, "r0")
            await trio.testing.wait_all_tasks_blocked()
            assert await prompt_cancelled(w, partial(trio.sleep, seconds))
            await check_done(w, turns=2)


async def test_S9_at_whatever_step_a_caller_is_cancelled_its_prompt_is_done_once_or_never(
    autojump_clock: object, world: MakeWorld
) -> None:
    done: list[bool] = []
    cancelled = True
    while cancelled:
        async with world(text_answer("a")) as w:
            await w.session()

            async def some_steps() -> None:
                for _ in range(len(done)):
                    await trio.lowlevel.checkpoint()

            cancelled = await prompt_cancelled(w, some_steps)
            await trio.testing.wait_all_tasks_blocked()
            done.append(bool(await w.stored()))
            await (check_done if done[-1] else check_never_done)(w)
    assert done[0] is False
    assert done[-1] is True
    assert len(done) > 5, "the call takes some steps"


async def test_T3_a_cancelled_caller_does_not_cancel_its_stop(autojump_clock: object, world: MakeWorld) -> None:
    async with world(text_answer("a", every=500.0), store=SlowStore()) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            with trio.move_on_after(0.5) as scope:
                await session.stop()
            assert scope.cancelled_caught
            assert (await turn.finished()).status == "stopped"
