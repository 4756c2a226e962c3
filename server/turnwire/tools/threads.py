"""Threads for one purpose, so many and no more, apart from the pool that trio gives to everybody.

Whatever hangs in that pool, such as looking up the names of hosts, must not keep a Turn from its end (T3).
"""

import trio


class ThreadLimit:
    """How many threads of one kind may be at work at once, in each run of trio."""

    def __init__(self, name: str, threads: int) -> None:
        self._threads = threads
        self._limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar(f"turnwire.threads.{name}")

    def limiter(self) -> trio.CapacityLimiter:
        """The one of this run."""
        try:
            return self._limiter.get()
        except LookupError:
            limiter = trio.CapacityLimiter(self._threads)
            self._limiter.set(limiter)
            return limiter
