"""The pace of one client: how long the message that it is sending may take (W9). No I/O and no clock of its own."""

from msgspec import Struct


class PaceLimits(Struct, frozen=True):
    """A message may take `seconds`, and one more for each `bytes_per_s` of it that have come."""

    seconds: float
    bytes_per_s: float


class Pace:
    """Knows only that bytes came and that messages ended. Where a message begins in the chunk that ended the one before
    it counts from the next chunk; silence in the middle of a frame is watched over by pings, which it makes wait.
    """

    __slots__ = ("_bytes", "_limits", "_since")

    def __init__(self, limits: PaceLimits) -> None:
        self._limits = limits
        self._since: float | None = None
        self._bytes = 0

    def received(self, count: int, now: float) -> None:
        """So many bytes have come."""
        if self._since is None:
            self._since = now
            self._bytes = 0
        self._bytes += count

    def ended(self) -> None:
        """A message is whole."""
        self._since = None

    def is_too_slow(self, now: float) -> bool:
        """The message that is coming has taken longer than it may."""
        if self._since is None:
            return False
        return now - self._since > self._limits.seconds + self._bytes / self._limits.bytes_per_s
