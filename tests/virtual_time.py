"""Virtual time that waits for threads.

An autojump clock jumps when no task can run. A task that waits for a worker thread cannot run either, so time would
jump to the next deadline, and to the one after it, until the system happens to let the thread finish.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio
from trio.testing import MockClock, active_thread_count

_installed: Final = trio.lowlevel.RunVar["_StandsForThreads | None"]("turnwire_stands_for_threads", None)


class _StandsForThreads(trio.abc.Instrument):
    """One for all blocks of a run: each on its own would give back a threshold that another has set."""

    def __init__(self, clock: MockClock) -> None:
        self.blocks = 0
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
    instrument = _installed.get()
    if instrument is None:
        instrument = _StandsForThreads(clock)
        _installed.set(instrument)
        trio.lowlevel.add_instrument(instrument)
    instrument.blocks += 1
    try:
        yield
    finally:
        instrument.blocks -= 1
        if not instrument.blocks:
            _installed.set(None)
            trio.lowlevel.remove_instrument(instrument)
            instrument.stand(False)
