"""A Step: one model call's blocks as Parts of the projection, and the check that nothing was lost (S2).

Plain and synchronous. A block becomes a Part with its first text; a block without text leaves none. When a Message is
full, its Part ends and the block goes on in a Part of the next Message.
"""

from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelError, StepEnd
from turnwire.sessions.projection import LiveText, TextKind


class Step:
    """What one attempt at one Step has produced so far."""

    def __init__(self, step_id: str, attempt: int) -> None:
        self.step_id = step_id
        self.attempt = attempt
        self.rolled_over = False
        """Whether a Message of this Step was closed because it was full: it can no longer be rolled back (T6)."""
        self._kinds: dict[int, TextKind] = {}
        self._parts: dict[int, LiveText] = {}
        self._ended: set[int] = set()
        self._just_ended: list[LiveText] = []
        self._end: StepEnd | None = None

    @property
    def complete(self) -> bool:
        """Whether the model said that it has finished."""
        return self._end is not None

    def start(self, event: BlockStart) -> None:
        """Raises ModelError `malformed_stream` when the block is known or the Step has ended."""
        if event.block in self._kinds or self.complete:
            raise _malformed(f"block {event.block} started twice or after the end")
        self._kinds[event.block] = event.kind

    def kind(self, event: BlockDelta) -> TextKind:
        """The kind of the open block that this delta belongs to. Raises ModelError `malformed_stream`."""
        kind = self._kinds.get(event.block)
        if kind is None or event.block in self._ended or self.complete:
            raise _malformed(f"text for block {event.block}, which is not open")
        return kind

    def part(self, block: int) -> LiveText | None:
        """The Part that the block's text goes to at present."""
        return self._parts.get(block)

    def bind(self, block: int, part: LiveText) -> None:
        self._parts[block] = part

    def end(self, event: BlockEnd) -> None:
        """Raises ModelError `malformed_stream` when the block is not open."""
        if event.block not in self._kinds or event.block in self._ended:
            raise _malformed(f"block {event.block} ended without being open")
        self._ended.add(event.block)
        part = self._parts.get(event.block)
        if part is not None:
            self._just_ended.append(part)

    def take_ended(self) -> list[LiveText]:
        """The Parts that have ended since the last time, in that order."""
        parts, self._just_ended = self._just_ended, []
        return parts

    def finish(self, event: StepEnd) -> None:
        """Checks count, identity and order of the blocks (S2). Raises ModelError `malformed_stream`."""
        if self.complete:
            raise _malformed("the step ended twice")
        if event.blocks != tuple(self._kinds):
            raise _malformed(f"the step names the blocks {list(event.blocks)}, but {list(self._kinds)} were streamed")
        if self._ended != set(self._kinds):
            raise _malformed(f"blocks {sorted(set(self._kinds) - self._ended)} never ended")
        self._end = event

    def roll_over(self) -> None:
        """The Message with the current Parts was closed; the next text of a block begins a new Part."""
        self.rolled_over = True
        self._parts.clear()
        self._just_ended.clear()


def _malformed(sentence: str) -> ModelError:
    # Another attempt is no cure: what the provider says of its own stream is wrong, so the Turn fails (S2).
    return ModelError("malformed_stream", f"the model's stream contradicts itself: {sentence}", retryable=False)
