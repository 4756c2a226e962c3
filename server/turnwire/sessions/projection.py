"""The projection: the streaming Agent Message in memory, ahead of its row (S1, S5).

Plain and synchronous. Whoever changes it publishes the change under the revision that the change was given. What is
about to be committed is built as a candidate at the next revision and becomes the projection only after its commit.
"""

from collections.abc import Iterable
from typing import Literal

from msgspec import UNSET, structs

from turnwire_protocol.codec import encode_json
from turnwire_protocol.messages import AgentMessage
from turnwire_protocol.parts import AgentPart, ReasoningPart, TextPart, TextState

TextKind = Literal["text", "reasoning"]

PART_BYTES = 200
"""What a Part costs in its Message's JSON besides its text, rounded up.

With the bound on a Message's size it keeps the revisions and Part sequences between two commits far below the strides
that recovery skips (S6).
"""


class LiveText:
    """A text or reasoning Part that grows: chunks are joined only when somebody looks, so that growth is linear."""

    __slots__ = ("_chunks", "kind", "part_id", "sequence", "state", "step_id")

    def __init__(self, *, part_id: str, sequence: int, step_id: str, kind: TextKind, text: str) -> None:
        self.part_id = part_id
        self.sequence = sequence
        self.step_id = step_id
        self.kind: TextKind = kind
        self.state: TextState = "streaming"
        self._chunks = [text]

    @property
    def text(self) -> str:
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0]

    def append(self, text: str) -> None:
        self._chunks.append(text)

    def finish(self) -> None:
        self.state = "done"

    def part(self, *, done: bool = False) -> TextPart | ReasoningPart:
        """The Part as it is now, or as it will be when it is done."""
        make = TextPart if self.kind == "text" else ReasoningPart
        return make(
            part_id=self.part_id,
            sequence=self.sequence,
            step_id=self.step_id,
            text=self.text,
            state="done" if done else self.state,
        )


class Projection:
    """One Agent Message that is still open. `revision` is the one that was published last (S5)."""

    def __init__(self, *, message_id: str, session_id: str, turn_id: str, sequence: int, created_at: int) -> None:
        self.message_id = message_id
        self.session_id = session_id
        self.turn_id = turn_id
        self.sequence = sequence
        self.created_at = created_at
        self.updated_at = created_at
        """Of the last commit: deltas do not move it, so that joining late and watching all along give the same."""
        self.revision = 0
        self.json_bytes = 0
        """About how long the Message is as JSON: what decides when it is full (W10)."""
        self._parts: list[LiveText | AgentPart] = []
        self._next_part = 1
        self._stand_in = False

    def begin_text(self, *, part_id: str, step_id: str, kind: TextKind, text: str) -> LiveText:
        """A new growing Part at the end. Part sequences are never used again, also after `drop_step` (S6)."""
        part = LiveText(part_id=part_id, sequence=self._next_part, step_id=step_id, kind=kind, text=text)
        self._next_part += 1
        if self._stand_in:
            self._parts.clear()
            self._stand_in = False
        self._parts.append(part)
        self.json_bytes += PART_BYTES + json_bytes(text)
        return part

    def append(self, part: LiveText, text: str) -> None:
        part.append(text)
        self.json_bytes += json_bytes(text)

    def committed(self, message: AgentMessage) -> None:
        """The candidate was stored: from now on it is what subscribers have."""
        self.revision, self.updated_at = message.revision, message.updated_at

    def bump(self) -> int:
        """The revision of the change that was just made."""
        self.revision += 1
        return self.revision

    @property
    def stand_in(self) -> bool:
        """Whether the only Part is the emptied one that a rolled-back Step left behind (M10, T6)."""
        return self._stand_in

    def message(self) -> AgentMessage:
        """The Message as subscribers have it."""
        return self._build((live_part(part) for part in self._parts), self.revision, "streaming", self.updated_at)

    def candidate(self, *, updated_at: int) -> AgentMessage:
        """The open Message as the next commit stores it, at the next revision."""
        return structs.replace(self.message(), revision=self.revision + 1, updated_at=updated_at)

    def closed(self, *, updated_at: int, extra: Iterable[AgentPart] = ()) -> AgentMessage:
        """The Message as its closure stores it: Parts terminal, `extra` Parts at the end (S8)."""
        kept = [] if self._stand_in else [_terminal(part) for part in self._parts]
        extra = [structs.replace(part, sequence=number) for number, part in enumerate(extra, start=self._next_part)]
        parts = kept + extra or [_terminal(part) for part in self._parts]
        return self._build(parts, self.revision + 1, "done", updated_at)

    def has_step(self, step_id: str) -> bool:
        """Whether subscribers see anything of this Step."""
        return not self._stand_in and any(part.step_id == step_id for part in self._parts)

    def without_step(self, step_id: str) -> "Projection":
        """A copy from which the Parts of a failed attempt are gone (T6).

        A Message is never empty (M10): where nothing else is left, the first Part stays, emptied, until the next
        attempt's first Part takes its place.
        """
        copy = Projection(
            message_id=self.message_id,
            session_id=self.session_id,
            turn_id=self.turn_id,
            sequence=self.sequence,
            created_at=self.created_at,
        )
        copy.revision, copy.updated_at = self.revision, self.updated_at
        copy._next_part = self._next_part
        copy._parts = [part for part in self._parts if part.step_id != step_id]
        if not copy._parts and self._parts:
            first = self._parts[0]
            assert isinstance(first, LiveText)
            copy._parts = [structs.replace(first.part(done=True), text="")]
            copy._stand_in = True
        copy.json_bytes = sum(len(encode_json(live_part(part)).text) for part in copy._parts)
        return copy

    def _build(
        self, parts: Iterable[AgentPart], revision: int, state: Literal["streaming", "done"], updated_at: int
    ) -> AgentMessage:
        return AgentMessage(
            message_id=self.message_id,
            session_id=self.session_id,
            turn_id=self.turn_id or UNSET,
            sequence=self.sequence,
            revision=revision,
            state=state,
            created_at=self.created_at,
            updated_at=updated_at,
            parts=tuple(parts),
        )


def live_part(part: LiveText | AgentPart) -> AgentPart:
    return part.part() if isinstance(part, LiveText) else part


def json_bytes(text: str) -> int:
    """How many bytes the text takes inside a JSON string."""
    return len(encode_json(text).text) - 2


def _terminal(part: LiveText | AgentPart) -> AgentPart:
    return part.part(done=True) if isinstance(part, LiveText) else part
