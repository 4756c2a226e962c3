"""A Step: one model call's blocks as Parts of the projection, and the check that nothing was lost (S2).

Plain and synchronous. A text or reasoning block becomes a Part with its first text, a tool block at its start; a text
block without text leaves none. When a Message is full, its Part ends and the block goes on in a Part of the next
Message.
"""

from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelError, StepEnd
from turnwire.sessions.growing import Growing


class Step:
    """What one attempt at one Step has produced so far."""

    def __init__(self, step_id: str, attempt: int) -> None:
        self.step_id = step_id
        self.attempt = attempt
        self.rolled_over = False
        """Whether a Message of this Step was closed because it was full: it can no longer be rolled back (T6)."""
        self.input_bytes = 0
        """UTF-8 bytes of all tool inputs of this Step (Z2)."""
        self.beside_bytes = 0
        """JSON bytes of the text that went into a full Message (W10)."""
        self._blocks: dict[int, BlockStart] = {}
        self._parts: dict[int, Growing] = {}
        self._ended: set[int] = set()
        self._just_ended: list[Growing] = []
        self._end: StepEnd | None = None

    @property
    def complete(self) -> bool:
        """Whether the model said that it has finished."""
        return self._end is not None

    @property
    def reason(self) -> str | None:
        """Why the model ended the Step, as it says; None while it has not."""
        return None if self._end is None else self._end.reason

    @property
    def calls(self) -> int:
        """How many tools it calls."""
        return sum(block.kind == "tool" for block in self._blocks.values())

    def start(self, event: BlockStart) -> None:
        """Raises ModelError `malformed_stream` when the block is known, the Step has ended, or a tool has no name."""
        if event.block in self._blocks or self.complete:
            raise _malformed(f"block {event.block} started twice or after the end")
        if event.kind == "tool" and not event.tool_name:
            raise _malformed(f"block {event.block} calls a tool without a name")
        self._blocks[event.block] = event

    def block(self, event: BlockDelta | BlockEnd) -> BlockStart:
        """The start of the open block that this event belongs to. Raises ModelError `malformed_stream`."""
        start = self._blocks.get(event.block)
        if start is None or event.block in self._ended or self.complete:
            raise _malformed(f"an event of block {event.block}, which is not open")
        return start

    def part(self, block: int) -> Growing | None:
        """The Part that the block's text goes to at present."""
        return self._parts.get(block)

    def bind(self, block: int, part: Growing) -> None:
        self._parts[block] = part

    def end(self, event: BlockEnd) -> Growing | None:
        """Ends the block; gives its Part, if it has one. Raises ModelError `malformed_stream`."""
        self.block(event)
        self._ended.add(event.block)
        part = self._parts.get(event.block)
        if part is not None:
            self._just_ended.append(part)
        return part

    def take_ended(self) -> list[Growing]:
        """The Parts that have ended since the last time, in that order."""
        parts, self._just_ended = self._just_ended, []
        return parts

    def finish(self, event: StepEnd) -> None:
        """Checks count, identity and order of the blocks (S2). Raises ModelError `malformed_stream`."""
        if self.complete:
            raise _malformed("the step ended twice")
        if event.blocks != tuple(self._blocks):
            raise _malformed(f"the step names the blocks {list(event.blocks)}, but {list(self._blocks)} were streamed")
        if self._ended != set(self._blocks):
            raise _malformed(f"blocks {sorted(set(self._blocks) - self._ended)} never ended")
        self._end = event

    @property
    def input_tokens(self) -> int | None:
        """About what the next Step will read: what the provider says that this one has read and said, if it does."""
        usage = None if self._end is None else self._end.usage
        return None if usage is None else usage.input_tokens + usage.output_tokens

    def roll_over(self) -> None:
        """The Message with the current Parts was closed; the next text of a block begins a new Part."""
        self.rolled_over = True
        self._parts.clear()
        self._just_ended.clear()


def _malformed(sentence: str) -> ModelError:
    # Another attempt is no cure: what the provider says of its own stream is wrong, so the Turn fails (S2).
    return ModelError("malformed_stream", f"the model's stream contradicts itself: {sentence}", retryable=False)
