"""The Composer's part of a store in memory: a way to change history is simply not offered (C1)."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from turnwire.store.base import ConstraintViolated
from turnwire.store.context import Summary, check_summary

if TYPE_CHECKING:
    from turnwire.store.memory import MemoryStore


class MemoryContextStore:
    """A `ContextStore`; `summaries` are the store's own, by Session and sequence."""

    def __init__(self, store: "MemoryStore", summaries: dict[tuple[str, int], Summary]) -> None:
        self._session = store.session
        self._turn = store.turn
        self._enter = store.enter
        self._summaries = summaries
        self.page = store.page

    async def cancelled_turns(self, turn_ids: Collection[str]) -> frozenset[str]:
        turns = [turn for turn_id in turn_ids if (turn := await self._turn(turn_id)) is not None]
        return frozenset(turn.turn_id for turn in turns if turn.status == "stopped" and turn.started_at is None)

    async def summary(self, session_id: str) -> Summary | None:
        await self._enter()
        found = [summary for key, summary in self._summaries.items() if key[0] == session_id]
        return max(found, key=lambda summary: summary.through_sequence, default=None)

    async def save_summary(self, summary: Summary) -> None:
        check_summary(summary)
        count = (await self._session(summary.session_id)).message_count
        if summary.through_sequence > count:
            raise ConstraintViolated(f"a summary through {summary.through_sequence} of {count} Messages")
        self._summaries[summary.session_id, summary.through_sequence] = summary
