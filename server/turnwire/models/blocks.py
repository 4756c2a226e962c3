"""The blocks of one answer while a service streams them: what both dialects have in common of the events' grammar.

Here are numbers of blocks, their order, whole characters (L4) and inputs that nobody spelt out. What a service's chunks
mean, and which of its names a block has there, is its reader's.
"""

import re
from typing import Final, Literal, TypeAlias

from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelEvent, StepEnd, Usage, clean_text

BlockKind: TypeAlias = Literal["text", "reasoning", "tool"]
StopReason: TypeAlias = Literal["stop", "length", "content_filter"]

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class _Block:
    """An open block; `half` is the first half of a character whose second has not come yet."""

    def __init__(self, kind: BlockKind) -> None:
        self.kind: BlockKind = kind
        self.half = ""
        self.empty = True


class Blocks:
    """Collects the events of one answer; `take` gives those since the last time."""

    def __init__(self) -> None:
        self._events: list[ModelEvent] = []
        self._open: dict[int, _Block] = {}
        self._count = 0
        self._tools = False

    @property
    def tools(self) -> bool:
        """Whether any tool was called."""
        return self._tools

    def is_empty(self, block: int) -> bool:
        """Whether an open block has got no text yet."""
        return self._open[block].empty

    def start(self, kind: BlockKind, *, tool_call_id: str | None = None, tool_name: str | None = None) -> int:
        """Opens the next block and gives its number."""
        block, self._count = self._count, self._count + 1
        self._open[block] = _Block(kind)
        self._tools = self._tools or kind == "tool"
        name = None if tool_name is None else clean_text(tool_name)
        self._events.append(BlockStart(block, kind, tool_call_id=tool_call_id, tool_name=name))
        return block

    def append(self, block: int, text: str) -> None:
        """More text of an open block."""
        if not text:
            return
        state = self._open[block]
        state.empty = False
        if text := _whole(state, text):
            self._events.append(BlockDelta(block, text))

    def close(self, block: int) -> None:
        """Ends an open block. A tool that got no input is called with `{}`: services leave it out where it is that."""
        if self._open[block].kind == "tool" and self._open[block].empty:
            self.append(block, "{}")
        self._end(block)

    def finish(self, reason: StopReason, usage: Usage | None) -> None:
        """Ends what is open, and the answer.

        Where the answer was cut to its longest length, an input that has not begun is no empty one: it stays as it is,
        so that the call fails instead of running on defaults.
        """
        for block in list(self._open):
            if reason == "length":
                self._end(block)
            else:
                self.close(block)
        said = "tool_calls" if reason == "stop" and self._tools else reason
        self._events.append(StepEnd(tuple(range(self._count)), reason=said, usage=usage))

    def take(self) -> list[ModelEvent]:
        events, self._events = self._events, []
        return events

    def _end(self, block: int) -> None:
        state = self._open.pop(block)
        if state.half:
            self._events.append(BlockDelta(block, clean_text(state.half)))
        self._events.append(BlockEnd(block))


def _whole(block: _Block, text: str) -> str:
    """`text` without surrogates: a pair that was split between two chunks is joined, a half one waits for it."""
    if not block.half and not _SURROGATE.search(text):
        return text
    text = (block.half + text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    block.half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return clean_text(text[: len(text) - len(block.half)])
