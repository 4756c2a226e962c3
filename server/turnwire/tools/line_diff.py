"""Which lines of a text have changed: a line diff whose work is bounded (L5, Z4). Knows no files and no patches.

Equal ends are set aside; what is between is split at lines that stand exactly once on both sides, and small regions
are compared exactly. Each of this is paid for out of a `Budget`. Where that is used up, a region counts as replaced
as a whole: then the diff is still true, but longer than it need be.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

EXACT_CELLS: Final = 10_000
"""Regions up to this many pairs of lines are compared exactly right away."""

SPLITS: Final = 12
"""How often a region is split at unique lines, and its parts again."""


class Budget:
    """How much work may still be done: about one unit for each line looked at, and for each pair of lines compared."""

    def __init__(self, units: int) -> None:
        self.units = units

    def pay(self, units: int) -> bool:
        """Whether there was enough; only then it is taken."""
        if units > self.units:
            return False
        self.units -= units
        return True


class Change(Struct, frozen=True):
    """Lines `before[start:end]` have become `after[new_start:new_end]`; one of them may be empty, not both."""

    start: int
    end: int
    new_start: int
    new_end: int


def lines_of(text: str) -> list[str]:
    """The lines with their newlines; only the last one may lack its own, and an empty text has none."""
    lines = text.split("\n")
    last = lines.pop()
    lines = [line + "\n" for line in lines]
    if last:
        lines.append(last)
    return lines


def changes(before: Sequence[str], after: Sequence[str], budget: Budget) -> list[Change]:
    """What has changed, in order, with at least one equal line between two changes."""
    merged: list[Change] = []
    for change in _changes(before, after, budget):
        if merged and merged[-1].end == change.start and merged[-1].new_end == change.new_start:
            change = Change(merged[-1].start, change.end, merged.pop().new_start, change.new_end)
        merged.append(change)
    return merged


def _changes(before: Sequence[str], after: Sequence[str], budget: Budget) -> Iterator[Change]:
    regions = [(Change(0, len(before), 0, len(after)), 0)]
    while regions:
        region, splits = regions.pop()
        region = _without_equal_ends(before, after, region)
        height, width = region.end - region.start, region.new_end - region.new_start
        if not height or not width:
            if height or width:
                yield region
            continue
        if height * width <= EXACT_CELLS and budget.pay(height * width):
            yield from _exact(before, after, region)
            continue
        parts = _split(before, after, region) if splits < SPLITS and budget.pay(height + width) else []
        if parts:
            regions.extend((part, splits + 1) for part in reversed(parts))
        elif budget.pay(height * width):
            yield from _exact(before, after, region)
        else:
            yield region


def _without_equal_ends(before: Sequence[str], after: Sequence[str], region: Change) -> Change:
    start, new_start, end, new_end = region.start, region.new_start, region.end, region.new_end
    while start < end and new_start < new_end and before[start] == after[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and before[end - 1] == after[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    return Change(start, end, new_start, new_end)


def _split(before: Sequence[str], after: Sequence[str], region: Change) -> list[Change]:
    """The regions between the lines that are unique on both sides and keep their order; none where there are none."""
    counts = Counter(before[region.start : region.end])
    new_counts = Counter(after[region.new_start : region.new_end])
    places = {before[at]: at for at in range(region.start, region.end) if counts[before[at]] == 1}
    pairs = [
        (places[after[at]], at)
        for at in range(region.new_start, region.new_end)
        if new_counts[after[at]] == 1 and after[at] in places
    ]
    parts: list[Change] = []
    start, new_start = region.start, region.new_start
    for at, new_at in _longest_rise(pairs):
        if at > start or new_at > new_start:
            parts.append(Change(start, at, new_start, new_at))
        start, new_start = at + 1, new_at + 1
    if new_start > region.new_start:
        parts.append(Change(start, region.end, new_start, region.new_end))
    return parts


def _longest_rise(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence whose first numbers rise; the second ones do already."""
    tops: list[int] = []
    tails: list[int] = []
    previous: list[int] = []
    for index, (value, _) in enumerate(pairs):
        pile = bisect_left(tops, value) if tops and value < tops[-1] else len(tops)
        previous.append(tails[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [value]
        tails[pile : pile + 1] = [index]
    rise: list[tuple[int, int]] = []
    index = tails[-1] if tails else -1
    while index >= 0:
        rise.append(pairs[index])
        index = previous[index]
    return rise[::-1]


def _exact(before: Sequence[str], after: Sequence[str], region: Change) -> Iterator[Change]:
    """The shortest changes of a region, by the longest common subsequence of its lines."""
    old, new = before[region.start : region.end], after[region.new_start : region.new_end]
    # longest[i][j]: how many lines old[i:] and new[j:] have in common, in order.
    longest = [[0] * (len(new) + 1)]
    for line in reversed(old):
        below, row = longest[-1], [0] * (len(new) + 1)
        for j in range(len(new) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if line == new[j] else max(below[j], row[j + 1])
        longest.append(row)
    longest.reverse()
    i = j = 0
    while i < len(old) or j < len(new):
        start, new_start = i, j
        while i < len(old) or j < len(new):
            if i < len(old) and j < len(new) and old[i] == new[j]:
                break
            if j == len(new) or (i < len(old) and longest[i + 1][j] >= longest[i][j + 1]):
                i += 1
            else:
                j += 1
        if i > start or j > new_start:
            yield Change(region.start + start, region.start + i, region.new_start + new_start, region.new_start + j)
        while i < len(old) and j < len(new) and old[i] == new[j]:
            i, j = i + 1, j + 1
