"""Virtual time that waits for threads.

An autojump clock jumps when no task can run. A task that waits for a worker thread cannot run either, so time would
jump to the next deadline, and to the one after it, until the system happens to let the thread finish.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import trio
from trio.testing import MockClock, active_thread_count


class _StandsForThreads(trio.abc.Instrument):
    def __init__(self, clock: MockClock) -> None:
        self._clock = clock
        self._threshold = clock.autojump_threshold
        self._standing = False

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.stand(active_thread_count() > 0)

    def stand(self, standing: bool) -> None:
        if standing is not self._standing:
            self._standing = standing
            self._clock.autojump_threshold = math.inf if standing else self._threshold


@contextmanager
def time_waits_for_threads() -> Iterator[None]:
    """Within the block an autojump clock, if this run has one, does not jump while a thread of trio's is at work."""
    clock = trio.lowlevel.current_clock()
    if not isinstance(clock, MockClock):
        yield
        return
    instrument = _StandsForThreads(clock)
    trio.lowlevel.add_instrument(instrument)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(instrument)
        instrument.stand(False)
