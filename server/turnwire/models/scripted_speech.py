"""One answer of the scripted model being spoken: moves in order, blocks and calls with their numbers (E5, S2).

A command is played as an iterator of moves (events, pauses, a cut), so nothing here knows clocks or tasks.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelEvent, ModelRequest, StepEnd, Usage
from turnwire.models.scripted_texts import pieces, words_of

WORD_MS: Final = 15
"""Pause between the words of prose, in ms: about as fast as a hosted model speaks."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is said for this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cut:
    """The stream breaks off here."""


Move: TypeAlias = ModelEvent | Pause | Cut


class Speech:
    """One answer being spoken: counts its blocks and deltas, says text in blocks, and calls tools.

    `answered` is how many results of the command that is played the model has been given by earlier Steps.
    """

    def __init__(self, request: ModelRequest, answered: int = 0) -> None:
        self.request = request
        self.answered = answered
        self.blocks = 0
        self.deltas = 0
        self.input_tokens: int | None = None
        """What is reported as used input; None for an honest count."""
        self._calls = 0

    @property
    def called(self) -> bool:
        """Whether this answer has called a tool: then it ends, to be given the result."""
        return self._calls > 0

    def start(self, kind: Literal["text", "reasoning"]) -> BlockStart:
        """Opens the next block."""
        self.blocks += 1
        return BlockStart(block=self.blocks - 1, kind=kind)

    def start_call(self, tool_name: str) -> BlockStart:
        """Opens the next block as a call, with an id that no other call of this conversation has."""
        self.blocks += 1
        self._calls += 1
        call_id = f"call-{self.request.key}-{self._calls}"
        return BlockStart(block=self.blocks - 1, kind="tool", tool_call_id=call_id, tool_name=tool_name)

    def delta(self, block: int, text: str) -> BlockDelta:
        self.deltas += 1
        return BlockDelta(block=block, text=text)

    def say(
        self, fragments: Iterable[str], pause_ms: int, kind: Literal["text", "reasoning"] = "text"
    ) -> Iterator[Move]:
        """One whole block: a delta for each fragment, `pause_ms` between them."""
        start = self.start(kind)
        yield start
        yield from self.spaced(start.block, fragments, pause_ms)
        yield BlockEnd(block=start.block)

    def spaced(self, block: int, fragments: Iterable[str], pause_ms: int) -> Iterator[Move]:
        """A delta for each fragment in an open block, `pause_ms` between them."""
        for index, fragment in enumerate(fragments):
            if pause_ms and index:
                yield Pause(pause_ms / 1000)
            yield self.delta(block, fragment)

    def words(self, text: str) -> Iterator[Move]:
        """One text block, word by word."""
        return self.say(words_of(text), WORD_MS)

    def call(self, tool_name: str, input_json: str, chunk: int, pause_ms: int) -> Iterator[Move]:
        """One call: its input in pieces of `chunk` characters, `pause_ms` between them."""
        start = self.start_call(tool_name)
        yield start
        yield from self.spaced(start.block, pieces(input_json, chunk), pause_ms)
        yield BlockEnd(block=start.block)

    def end(self) -> StepEnd:
        """The end of the answer, which names all of its blocks."""
        spoken = self.input_tokens
        if spoken is None:
            spoken = sum(len(message.text.split()) for message in self.request.messages)
        return StepEnd(
            blocks=tuple(range(self.blocks)),
            reason="tool_calls" if self.called else "stop",
            usage=Usage(input_tokens=spoken, output_tokens=self.deltas),
        )
