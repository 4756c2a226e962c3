"""The Composer: canonical history becomes model input, and what is too long for it a summary (C1-C3).

It reads committed Messages and changes none; all that it writes is summaries, which can be made again. How one Message
is translated is `translate`, how the part to summarise is chosen and told is `compaction`.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, Final

import msgspec
from msgspec import Struct

from turnwire.context.compaction import Ask, Compacted, Place, boundary, summarise
from turnwire.context.sizes import BYTES_PER_TOKEN, bytes_of
from turnwire.context.tags import tagged
from turnwire.context.transcript import lines_of
from turnwire.context.translate import Rules, Unit, notice, units_of
from turnwire.models.base import ModelMessage, TextContent
from turnwire.store.base import MAX_PAGE, StoredMessage
from turnwire.store.context import ContextStore, Summary

WINDOW_TOKENS: Final = 128_000
"""How many tokens a model reads at most, when nobody says."""

COMPACT_SHARE: Final = 0.8
"""How full the window is before the history is compacted."""

_VALUE_SHARE: Final = 1 / 8
_PIECE_SHARE: Final = 1 / 2
_SUMMARY_SHARE: Final = 1 / 16
"""How much of the window one tool's output, one piece of transcript and a summary may take."""

_ROLES: Final = ("user", "agent")
_LEFT_OUT: Final = "Earlier messages of this conversation are left out here."


class HistoryBounds(Struct, kw_only=True, frozen=True):
    """Which Messages a model call may see: those up to a point, without Turns that still wait."""

    session_id: str
    through_sequence: int
    exclude_turns: frozenset[str] = frozenset()
    turn_id: str | None = None
    """The running Turn, for which the call is made."""
    internal: bool = True
    """Whether internal Messages are among them."""
    turn_sequence: int = 1
    """Where the running Turn's first Message stands."""


class _Read(Struct, frozen=True):
    """A Message of history, and whether it is a prompt that was cancelled before its Turn began."""

    sequence: int
    message: dict[str, Any]
    cancelled: bool

    @property
    def turn_id(self) -> str | None:
        return self.message.get("turn_id")

    def units(self, rules: Rules) -> list[Unit]:
        """What a model reads of it. Of what was cancelled nothing: it would seem to be asked and never answered."""
        return [] if self.cancelled else units_of(self.message, rules)


class _Entry(Struct, frozen=True):
    sequence: int
    turn_id: str | None
    unit: Unit


class Composer:
    """Makes model input from a Session's history, and keeps it within the model's window.

    `window_tokens` is what the model reads at most. Where providers do not count tokens they are estimated.
    """

    def __init__(
        self, context: ContextStore, *, window_tokens: int = WINDOW_TOKENS, compact_share: float = COMPACT_SHARE
    ) -> None:
        self._context = context
        self._window_bytes = window_tokens * BYTES_PER_TOKEN
        self._due_tokens = int(window_tokens * compact_share)
        self._value_characters = int(self._window_bytes * _VALUE_SHARE)

    # ---------------------------------------------------------------------------------------------------- composing

    async def compose(self, bounds: HistoryBounds) -> tuple[ModelMessage, ...]:
        """The model's input: the summary of the oldest part, if there is one, then the Messages after it.

        A Turn's Messages stand together, Turns in the order of their prompts, the running one last. When the window is
        full the oldest are left out, but never the newest, nor what the user said in the running Turn. No call is
        without its result, nor a result without its call. Prompts that a stop cancelled before they were asked (T3) are
        left out as well.

        Raises StoreUnavailable, NotFound.
        """
        summary = await self._context.summary(bounds.session_id)
        told = [] if summary is None else [_told(summary)]
        room = self._window_bytes - sum(map(bytes_of, told))
        entries, full = await self._newest(bounds, 0 if summary is None else summary.through_sequence, room)
        entries.sort(key=_order(entries, bounds.turn_id))
        units = [*told, *([notice(_LEFT_OUT)] if full else []), *(entry.unit for entry in entries)]
        return tuple(message for unit in units for message in unit)

    async def _newest(self, bounds: HistoryBounds, after: int, room: int) -> tuple[list[_Entry], bool]:
        """What fits of the Messages after `after`, ascending, and whether something did not."""
        newest_first: list[_Entry] = []
        full = False
        before = bounds.through_sequence + 1
        while before > after + 1 and not (full and before <= bounds.turn_sequence):
            items = await self._page(bounds.session_id, before, after)
            for item in reversed(items):
                message, turn_id = item.message, item.turn_id
                if turn_id in bounds.exclude_turns or not (bounds.internal or message["visibility"] == "visible"):
                    continue
                pinned = message["role"] == "user" and turn_id is not None and turn_id == bounds.turn_id
                for unit in reversed(item.units(self._rules(bounds.turn_id))):
                    room -= bytes_of(unit)
                    full = full or (room < 0 and bool(newest_first))
                    if pinned or not full:
                        newest_first.append(_Entry(item.sequence, turn_id, unit))
            before = items[0].sequence
            if full and bounds.turn_id is None:
                break
        return newest_first[::-1], full

    def _rules(self, running_turn: str | None) -> Rules:
        return Rules(running_turn=running_turn, value_characters=self._value_characters)

    async def _page(self, session_id: str, before: int, after: int) -> list[_Read]:
        """The newest Messages below `before` and above `after`, at least one: sequences have no holes (M5)."""
        page = await self._context.page(
            session_id, before_sequence=before, limit=min(MAX_PAGE, before - 1 - after), include_internal=True
        )
        messages = [(item.sequence, _plain(item)) for item in page.items]
        cancelled = await self._cancelled([message for _, message in messages])
        return [_Read(sequence, message, message.get("turn_id") in cancelled) for sequence, message in messages]

    async def _cancelled(self, messages: list[dict[str, Any]]) -> frozenset[str]:
        """Those Turns that never began. One of which an Agent Message is at hand has, and need not be asked about."""
        turns = {role: {m["turn_id"] for m in messages if m["role"] == role and "turn_id" in m} for role in _ROLES}
        silent = turns["user"] - turns["agent"]
        return await self._context.cancelled_turns(silent) if silent else frozenset()

    # --------------------------------------------------------------------------------------------------- compacting

    def is_due(self, input_tokens: int) -> bool:
        """Whether a model call that read this many tokens was so long that the history is to be compacted."""
        return input_tokens > self._due_tokens

    async def advance_context(
        self, bounds: HistoryBounds, ask: Ask, *, now: int, input_tokens: int | None = None, force: bool = False
    ) -> Compacted | None:
        """Summarises the oldest part of the history, when the last call was too long for more, or when forced (C2).

        `ask` puts a request to a model, in the background. None when nothing is to be done or nothing can be: what
        belongs to an open Turn is never summarised. History is as it was before, byte for byte.

        Raises ModelError when no summary could be made, and StoreUnavailable, NotFound; then nothing has changed.
        """
        if not force and (input_tokens is None or not self.is_due(input_tokens)):
            return None
        summary = await self._context.summary(bounds.session_id)
        after = 0 if summary is None else summary.through_sequence
        places = await self._places(bounds, after)
        open_turns = bounds.exclude_turns | ({bounds.turn_id} if bounds.turn_id is not None else set())
        through = boundary(places, open_turns, self._window_bytes)
        if through is None:
            return None
        async with aclosing(self._transcript(bounds.session_id, after, through)) as texts:
            text, requests = await summarise(
                None if summary is None else summary.text,
                texts,
                ask,
                piece_bytes=int(self._window_bytes * _PIECE_SHARE),
                summary_characters=int(self._window_bytes * _SUMMARY_SHARE),
            )
        await self._context.save_summary(
            Summary(session_id=bounds.session_id, through_sequence=through, text=text, created_at=now)
        )
        return Compacted(through_sequence=through, messages=through - after, requests=requests)

    async def _places(self, bounds: HistoryBounds, after: int) -> list[Place]:
        newest_first: list[Place] = []
        before = bounds.through_sequence + 1
        while before > after + 1:
            items = await self._page(bounds.session_id, before, after)
            for item in reversed(items):
                size = sum(map(bytes_of, item.units(self._rules(None))))
                newest_first.append(Place(item.sequence, item.turn_id, size))
            before = items[0].sequence
        return newest_first[::-1]

    async def _transcript(self, session_id: str, after: int, through: int) -> AsyncGenerator[str]:
        """The Messages of a range as text, oldest first; a page of them is in memory at a time."""
        while after < through:
            end = min(after + MAX_PAGE, through)
            newest_first: list[_Read] = []
            while end - len(newest_first) > after:
                items = await self._page(session_id, end + 1 - len(newest_first), after)
                newest_first.extend(reversed(items))
            for item in reversed(newest_first):
                for unit in item.units(self._rules(None)):
                    for line in lines_of(unit):
                        yield line
            after = end


def _told(summary: Summary) -> Unit:
    return (ModelMessage("user", (TextContent(tagged("summary", summary.text)),)),)


def _order(entries: Iterable[_Entry], running_turn: str | None) -> Any:
    """A key that keeps each Turn together, at the place of its first Message, and the running one at the end.

    A prompt that had to wait stands in history amid the answer to the one before.
    """
    first: dict[str, int] = {}
    for entry in entries:
        if entry.turn_id is not None:
            first.setdefault(entry.turn_id, entry.sequence)

    def key(entry: _Entry) -> tuple[bool, int]:
        if entry.turn_id is None:
            return (False, entry.sequence)
        return (entry.turn_id == running_turn, first[entry.turn_id])

    return key


def _plain(stored: StoredMessage) -> dict[str, Any]:
    message: dict[str, Any] = msgspec.json.decode(stored.json.text)
    return message
