"""The data lanes of an outbox: one queue for each Session, and whose turn it is. No I/O.

Who has been given the fewest bytes is next (start-time fair queueing): each Session has a *mark*, which grows by what
it is given, and the lowest mark goes first. A Session that had nothing to say begins at the mark of the moment, so it
neither waits behind another one's backlog nor saves up for later. Within a Session frames keep their order.
"""

import heapq
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TypeAlias


class Kind(Enum):
    """What a frame of a Session is, as far as an outbox cares."""

    MUTATION = 1
    SNAPSHOT = 2
    RELOAD = 3
    FINAL = 4


_Entry: TypeAlias = tuple[Kind, bytes, int]
"""Frames of one kind, joined, and how many they are."""


class _Lane:
    __slots__ = ("entries", "mark", "mutation_bytes", "size")

    def __init__(self, mark: int) -> None:
        self.entries: deque[_Entry] = deque()
        self.mark = mark
        self.size = 0
        self.mutation_bytes = 0


class Lanes:
    """All lanes of one outbox. Sizes are in bytes."""

    __slots__ = ("_arrivals", "_lanes", "_mark", "_turns", "mutation_bytes", "size", "snapshot_parts")

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}
        self._turns: list[tuple[int, int, str]] = []
        """A heap of (mark, arrival, Session), one for each lane that is not empty."""
        self._mark = 0
        self._arrivals = 0
        self.size = 0
        self.mutation_bytes = 0
        self.snapshot_parts = 0

    def __bool__(self) -> bool:
        return bool(self._turns)

    def size_of(self, session_id: str) -> int:
        """The bytes that wait for this Session."""
        lane = self._lanes.get(session_id)
        return 0 if lane is None else lane.size

    def heaviest(self, session_id: str, extra: int) -> str:
        """The Session with most bytes of Mutations, if `session_id` had so many more."""
        weights = {name: lane.mutation_bytes for name, lane in self._lanes.items()}
        weights[session_id] = weights.get(session_id, 0) + extra
        return max(weights, key=lambda name: (weights[name], name == session_id))

    def add(self, kind: Kind, session_id: str, frames: bytes, count: int = 1) -> None:
        """Puts a frame, or several joined ones, behind all others of its Session."""
        lane = self._lanes.get(session_id)
        if lane is None:
            lane = self._lanes[session_id] = _Lane(self._mark)
        if not lane.entries:
            lane.mark = max(lane.mark, self._mark)
            self._wait(session_id, lane)
        lane.entries.append((kind, frames, count))
        self._count(lane, kind, len(frames))

    def peek(self) -> int | None:
        """The size of what is next; None when there is nothing."""
        return len(self._lanes[self._turns[0][2]].entries[0][1]) if self._turns else None

    def take(self) -> tuple[bytes, int]:
        """What was added, and how many frames that is. There must be something."""
        self._mark, _, session_id = heapq.heappop(self._turns)
        lane = self._lanes[session_id]
        kind, frames, count = lane.entries.popleft()
        lane.mark = self._mark + len(frames)
        self._count(lane, kind, -len(frames))
        if lane.entries:
            self._wait(session_id, lane)
        elif not self._turns:
            # Nobody waits, so nobody is owed anything; and lanes of Sessions that are over do not pile up.
            self._lanes.clear()
            self._mark = 0
        return frames, count

    def keep(self, session_id: str, wanted: Callable[[Kind], bool]) -> None:
        """Drops all frames of this Session but those of the wanted kinds."""
        lane = self._lanes.get(session_id)
        if lane is None:
            return
        entries, lane.entries = lane.entries, deque()
        for entry in entries:
            kind, frames, _ = entry
            if wanted(kind):
                lane.entries.append(entry)
            else:
                self._count(lane, kind, -len(frames))
        if not lane.entries:
            self._turns = [turn for turn in self._turns if turn[2] != session_id]
            heapq.heapify(self._turns)

    def _wait(self, session_id: str, lane: _Lane) -> None:
        self._arrivals += 1
        heapq.heappush(self._turns, (lane.mark, self._arrivals, session_id))

    def _count(self, lane: _Lane, kind: Kind, size: int) -> None:
        """So many bytes came, or are gone where `size` is negative. A part of a snapshot is never empty."""
        lane.size += size
        self.size += size
        if kind is Kind.MUTATION:
            lane.mutation_bytes += size
            self.mutation_bytes += size
        elif kind is Kind.SNAPSHOT:
            self.snapshot_parts += 1 if size > 0 else -1
