"""What happened in a simulated run, and which rules were broken in it. What the rules are stands with those who check.

A broken rule is written down, not raised: most are seen inside of callbacks, from where nothing may be raised.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import trio


class Journal:
    """The trace of one run, and the rules that it broke."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self.broken: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(f"{trio.current_time():10.3f}  {line}")

    def require(self, condition: bool, rule: str, sentence: str) -> None:
        """Writes down that `rule` is broken, unless the condition holds."""
        if not condition:
            self.blame(rule, sentence)

    def blame(self, rule: str, sentence: str) -> None:
        """Writes down that `rule` is broken: for checks so frequent that sentences nobody reads would cost too much."""
        self.broken.append(f"{rule}: {sentence}")
        self.note(f"BROKEN {rule}: {sentence}")

    def report(self) -> str:
        """Everything that one needs to look into a failed run."""
        return "\n".join([f"{self.name} broke {len(self.broken)} rules", *self.broken[:20], "", *self.lines])


class Contents:
    """Which content each (message_id, revision) ever had, in the store or before anyone's eyes (S6)."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[tuple[str, int], bytes] = {}

    def check(self, message: Mapping[str, Any], where: str) -> None:
        key = (message["message_id"], message["revision"])
        content = msgspec.json.encode(message, order="sorted")
        known = self._known.setdefault(key, content)
        if known != content:
            sentence = f"revision {key[1]} of {key[0]} has other content {where}: {content!r}, was {known!r}"
            self._journal.blame("S6", sentence)
