"""The timeline model: plays lists of events at exact times, for tests that need a precise or a broken stream.

Unlike the scripted model it checks nothing: a test may break the grammar of a stream on purpose, to see that the
reader finds it (S2).
"""

from collections.abc import AsyncGenerator, Sequence
from typing import TypeAlias

import trio

from turnwire.models.base import ModelError, ModelEvent, ModelRequest

Timeline: TypeAlias = Sequence[tuple[float, ModelEvent | ModelError]]
"""What one call does: (seconds since the call, what then happens); a ModelError is raised, and the end is the end."""


class ScriptExhausted(Exception):
    """The provider was called more often than it has timelines: the test expected fewer calls."""


class TimelineProvider:
    """One timeline for each successive call, attempts included; times are read from trio's clock.

    `requests` are all requests so far, and `running` counts the streams that have begun and are not closed, so that
    tests can see what reached the model and that a stopped call was let go.
    """

    def __init__(self, *calls: Timeline, name: str = "timeline") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self.running = 0
        self._calls = iter(calls)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Plays the next timeline. Raises its ModelError, or ScriptExhausted when there is none left."""
        self.requests.append(request)
        timeline = next(self._calls, None)
        if timeline is None:
            raise ScriptExhausted(f"call {len(self.requests)} has no timeline")
        start = trio.current_time()
        self.running += 1
        try:
            for seconds, event in timeline:
                await trio.sleep_until(start + seconds)
                if isinstance(event, ModelError):
                    raise event
                yield event
        finally:
            self.running -= 1

    async def aclose(self) -> None:
        """Nothing is kept between calls."""
