"""What the tests' virtual time promises: it moves when nobody has anything to do, and a busy thread has."""

import math
import threading

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from virtual_time import time_waits_for_threads

REAL_SECONDS = 0.05
"""How long the thread is at work: an age for a clock that would jump."""


async def test_virtual_time_stands_while_a_thread_is_at_work_and_goes_on_after_it(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 3_600)
        with time_waits_for_threads():
            await trio.to_thread.run_sync(threading.Event().wait, REAL_SECONDS)
            assert trio.current_time() == 0
            await trio.sleep(1)
            assert trio.current_time() == 1
        nursery.cancel_scope.cancel()


async def test_virtual_time_stands_for_many_blocks_as_for_one(autojump_clock: MockClock) -> None:
    def threshold() -> float:
        return autojump_clock.autojump_threshold

    may_end, over = threading.Event(), trio.Event()

    async def work() -> None:
        await trio.to_thread.run_sync(may_end.wait)
        over.set()

    async with trio.open_nursery() as nursery:
        try:
            with time_waits_for_threads():
                with time_waits_for_threads():
                    nursery.start_soon(work)
                    await wait_all_tasks_blocked()
                    assert threshold() == math.inf
                await trio.lowlevel.checkpoint()
                assert threshold() == math.inf, "one of two blocks has ended, and the thread is still at work"
                with time_waits_for_threads():
                    may_end.set()
                    await over.wait()
                    await trio.lowlevel.checkpoint()
                    assert threshold() == 0, "the thread has ended, and a block began while it was at work"
        finally:
            may_end.set()


async def test_real_time_is_left_alone() -> None:
    with time_waits_for_threads():
        await trio.to_thread.run_sync(threading.Event().wait, 0)
