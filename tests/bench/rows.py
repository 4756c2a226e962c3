"""One bar of the benchmarks: a ratio of two measurements of one run, and what it should not exceed.

The two are taken in turns, so that a noisy minute hits both; absolute times say more about the machine than about the
server and are no pass mark.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """What is compared, the median ratio, its least and greatest, and the one that it should not exceed."""

    name: str
    ratio: float
    spread: tuple[float, float]
    bar: float

    def line(self) -> str:
        verdict = "met" if self.ratio <= self.bar else "missed"
        low, high = self.spread
        return f"| {self.name} | {self.ratio:.2f} ({low:.2f}-{high:.2f}) | {self.bar:g} | {verdict} |"


def row(name: str, bar: float, pairs: Sequence[tuple[float, float]]) -> Row:
    """The median of the pairs' ratios, second to first."""
    ratios = sorted(second / first for first, second in pairs)
    return Row(name, statistics.median(ratios), (ratios[0], ratios[-1]), bar)


def table(rows: Sequence[Row]) -> str:
    return "\n".join(["| what | ratio (spread) | at most | |", "|---|---|---|---|", *(each.line() for each in rows)])


def save(rows: Sequence[Row], path: Path) -> None:
    data = {
        each.name: {
            "ratio": round(each.ratio, 3),
            "spread": [round(bound, 3) for bound in each.spread],
            "bar": each.bar,
        }
        for each in rows
    }
    path.write_text(json.dumps(data, indent=2) + "\n")
