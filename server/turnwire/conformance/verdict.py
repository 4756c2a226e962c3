"""Verdicts: which rule was broken, how a timeline went, and the table of all of them."""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from turnwire_protocol.timelines import ClientTimeline, ServerTimeline


class Broken(Exception):
    """A server, or a client, broke this rule; the sentence says how."""

    def __init__(self, rule: str, sentence: str) -> None:
        super().__init__(sentence)
        self.rule = rule
        self.sentence = sentence


class Failure(Exception):
    """A timeline failed: why, and which rule is broken."""

    def __init__(self, reason: str, rule: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rule = rule


class Verdict(Struct, frozen=True, kw_only=True):
    """How one timeline went. `broken` is the rule that a failure blames, `reason` a sentence."""

    file: str
    name: str
    rules: tuple[str, ...]
    outcome: Literal["passed", "failed", "left out"]
    reason: str = ""
    broken: str = ""

    @classmethod
    def of(cls, file: str, timeline: ServerTimeline | ClientTimeline, failure: Failure | None, lack: str) -> "Verdict":
        """Left out for a `lack`, failed for a `failure`, else passed."""
        return cls(
            file=file,
            name=timeline.name,
            rules=timeline.rules,
            outcome="left out" if lack else "passed" if failure is None else "failed",
            reason=lack or ("" if failure is None else failure.reason),
            broken="" if failure is None else failure.rule,
        )


REASON_WIDTH = 400


def table(verdicts: Sequence[Verdict]) -> str:
    """One line for each timeline, in the order of the files, and a line of sums."""
    width = max((len(verdict.name) for verdict in verdicts), default=0)
    rules = max((len(" ".join(verdict.rules)) for verdict in verdicts), default=0)
    lines: list[str] = []
    file = None
    for verdict in verdicts:
        if verdict.file != file:
            file = verdict.file
            lines.append(f"{file}:")
        line = f"  {verdict.outcome:8}  {verdict.name:{width}}  {' '.join(verdict.rules):{rules}}"
        if verdict.reason:
            blame = f"{verdict.broken}: " if verdict.broken else ""
            line += f"  {blame}{verdict.reason[:REASON_WIDTH]}"
        lines.append(line.rstrip())
    return "\n".join([*lines, "", _sums(verdicts)])


def _sums(verdicts: Iterable[Verdict]) -> str:
    counts = {"passed": 0, "failed": 0, "left out": 0}
    for verdict in verdicts:
        counts[verdict.outcome] += 1
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
