"""Plain numbers that the layers count and somebody may read at any time. No layer learns here who reads them.

Counting must cost next to nothing: integers, dicts of integers, and histograms that are lists of integers.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds for times, from a commit on a good disk to a model that thinks."""


class Histogram:
    """How many values fell into which range. `bounds` ascend; each is the greatest value of its range."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        """One for each bound, and one for what lies above the last."""
        self.total = 0.0
        """The sum of all values."""

    def observe(self, value: float) -> None:
        """Counts one more value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self.counts)

    def cumulated(self) -> Iterator[tuple[float, int]]:
        """For each bound, then infinity, how many values were not above it."""
        below = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            below += count
            yield bound, below


def count(numbers: dict[str, int], key: str) -> None:
    """One more of this kind."""
    numbers[key] = numbers.get(key, 0) + 1
