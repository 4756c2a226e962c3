"""The inbox: requests of one connection that wait for their turn, and which are taken in at all. No I/O.

Requests are bounded in number, in bytes and in rate. What is over is refused with a typed error, and who goes on all
the same is told so by `hopeless`.
"""

import math
from collections import deque
from typing import Final

from msgspec import Struct

from turnwire.gateway.rates import Bucket, Rate
from turnwire_protocol import frames
from turnwire_protocol.codes import RequestError

COUNTED_BYTES: Final = 8 * 1024
"""One thread reads the messages of all clients, and a large one takes it as long as many small ones."""


def weight_of(size: int) -> int:
    """As how many messages one of so many bytes counts: one for each COUNTED_BYTES that it begins (W9)."""
    return max(1, math.ceil(size / COUNTED_BYTES))


class InboxLimits(Struct, frozen=True):
    """`requests` and `bytes` may wait; refusals of this weight in a row are too many."""

    requests: int
    bytes: int
    rate: Rate
    refusals: int


class Inbox:
    """`now` is the time of the first request, in seconds on the clock that `meter` is given, too."""

    def __init__(self, limits: InboxLimits, now: float) -> None:
        self._limits = limits
        self._bucket = Bucket(limits.rate, now)
        self._waiting: deque[tuple[frames.Request, int]] = deque()
        self._bytes = 0
        self._open_ids: set[int] = set()
        self._refused = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def hopeless(self) -> bool:
        """So many were refused, with none taken in between, that the client will not learn."""
        return self._refused >= self._limits.refusals

    def meter(self, now: float, weight: int) -> float:
        """Counts one message: 0, or the seconds for which it has come too early."""
        return self._bucket.take(now, weight)

    def put(self, request: frames.Request, size: int) -> None:
        """Takes a request of so many bytes in. Raises RequestError; the caller answers and calls `refused`."""
        if request.id in self._open_ids:
            raise RequestError("invalid_argument", "id: a request with this id is still open", field="id")
        full = len(self._waiting) >= self._limits.requests
        if full or (self._waiting and self._bytes + size > self._limits.bytes):
            raise RequestError("rate_limited", "too many requests wait for their answers")
        self._open_ids.add(request.id)
        self._waiting.append((request, size))
        self._bytes += size
        self._refused = 0

    def refused(self, weight: int) -> None:
        self._refused += weight

    @property
    def joins(self) -> bool:
        """The next request asks for a snapshot."""
        return bool(self._waiting) and isinstance(self._waiting[0][0], frames.Subscribe | frames.Reload)

    def take(self) -> frames.Request:
        """The next request; its id stays open until `answered`."""
        request, size = self._waiting.popleft()
        self._bytes -= size
        return request

    def answered(self, request: frames.Request) -> None:
        self._open_ids.discard(request.id)

    def clear(self) -> None:
        """Forgets what waits."""
        self._waiting.clear()
        self._bytes = 0
