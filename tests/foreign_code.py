"""What code of others may do to a server: the ways in which it ends other than as it should."""

from collections.abc import Awaitable, Callable

import trio


class OtherLoopCancelled(BaseException):
    """As other event loops have one: no Exception, and not trio's."""


class Torn(Exception):
    """What a task says in its last moments."""


async def raises_beyond_exception() -> None:
    raise OtherLoopCancelled


async def ends_its_program() -> None:
    raise SystemExit(3)


async def raises_generator_exit() -> None:
    raise GeneratorExit


async def fails_in_a_nursery() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.start_soon(raises_beyond_exception)


async def fails_as_it_is_cancelled() -> None:
    """Until then it lasts for ever."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        try:
            await trio.sleep_forever()
        finally:
            raise Torn


async def turns_its_cancellation_into_another() -> None:
    """Until then it lasts for ever."""
    try:
        await trio.sleep_forever()
    finally:
        raise OtherLoopCancelled


Foreign = Callable[[], Awaitable[None]]

AT_ONCE: list[Foreign] = [raises_beyond_exception, ends_its_program, raises_generator_exit, fails_in_a_nursery]
"""Fail by themselves."""

WHEN_CANCELLED: list[Foreign] = [fails_as_it_is_cancelled, turns_its_cancellation_into_another]
"""Fail as they are cancelled."""


def name_of(foreign: Foreign) -> str:
    return foreign.__name__
