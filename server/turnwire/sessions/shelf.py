"""The shelf: what all Sessions together keep for whoever joins next, bounded in bytes (Z1).

Sessions that are followed stay in memory, and each keeps its newest page and the snapshot made of it, so that a
thousand clients who come back cost one. What was not used for longest is given up first: it costs the next who joins
some work, and nothing else. Who fills a place on the shelf, and with what, is `joining`.
"""

from typing import Final, Protocol

KEPT_BYTES: Final = 64 * 1024 * 1024


class Keeper(Protocol):
    """Somebody who keeps what can be made again."""

    def forget(self) -> None:
        """Keeps nothing any more, and says so to the shelf."""


class Shelf:
    """At most `most` bytes are kept, or what one keeper has alone."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._most = most
        self._sizes: dict[Keeper, int] = {}
        """In the order of their use, the longest unused first."""
        self.size = 0

    def used(self, keeper: Keeper, size: int) -> None:
        """The keeper has so many bytes now, and was just of use."""
        self.dropped(keeper)
        self._sizes[keeper] = size
        self.size += size
        while self.size > self._most and (oldest := next(iter(self._sizes))) is not keeper:
            oldest.forget()

    def dropped(self, keeper: Keeper) -> None:
        """The keeper has nothing any more. Idempotent."""
        self.size -= self._sizes.pop(keeper, 0)
