"""The projection: the streaming Agent Message in memory, ahead of its row (S1, S5).

Plain and synchronous. Whoever changes it publishes the change under the revision that the change was given. What a
commit is to store is made on a `draft`, which becomes the projection only after its commit.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import UNSET, structs

from turnwire.sessions.growing import Growing, GrowingText, GrowingTool, TextKind, json_bytes
from turnwire_protocol import lifecycle
from turnwire_protocol.codec import encode_json
from turnwire_protocol.messages import AgentMessage
from turnwire_protocol.parts import ActionPart, AgentPart, InteractionPart, ReasoningPart, TextPart, ToolPart

PART_BYTES = 200
"""What a Part costs in its Message's JSON besides its text, rounded up.

With the bound on a Message's size it keeps the revisions and Part sequences between two commits far below the strides
that recovery skips (S6).
"""


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
        self._parts: list[Growing | AgentPart] = []
        self._next_part = 1
        self._stand_in = False

    # -------------------------------------------------------------------------------------------------- what it holds

    @property
    def stand_in(self) -> bool:
        """Whether the only Part is the emptied one that a rolled-back Step left behind (M10, T6)."""
        return self._stand_in

    def tools(self, step_id: str) -> Iterator[ToolPart]:
        """The Tools of one Step whose input is finished, in order."""
        return (part for part in self._parts if isinstance(part, ToolPart) and part.step_id == step_id)

    def tool(self, tool_call_id: str) -> ToolPart | None:
        found = (part for part in self._parts if isinstance(part, ToolPart) and part.tool_call_id == tool_call_id)
        return next(found, None)

    def interactions(self) -> Iterator[InteractionPart]:
        return (part for part in self._parts if isinstance(part, InteractionPart))

    @property
    def has_open_tool(self) -> bool:
        """Whether some Tool is not yet finished: the Message cannot be closed before it is."""
        return any(
            isinstance(part, GrowingTool) or (isinstance(part, ToolPart) and part.state not in lifecycle.TOOL.terminal)
            for part in self._parts
        )

    def exceeds(self, size: int) -> bool:
        """Whether the Message is longer than that as JSON. Only one that may be is encoded to find out."""
        # A Part that moved on was counted in each of its states: `json_bytes` is never less than what there is.
        return self.json_bytes > size and len(encode_json(self.message()).text) > size

    def has_step(self, step_id: str) -> bool:
        """Whether subscribers see anything of this Step."""
        return not self._stand_in and any(part.step_id == step_id for part in self._parts)

    # ------------------------------------------------------------------------------------------------------- changes

    def begin_text(self, *, part_id: str, step_id: str, kind: TextKind, text: str) -> GrowingText:
        """A new growing Part at the end."""
        part = GrowingText(kind=kind, part_id=part_id, sequence=self._take_place(), step_id=step_id, text=text)
        self._parts.append(part)
        self.json_bytes += PART_BYTES + json_bytes(text)
        return part

    def begin_tool(self, *, part_id: str, step_id: str, tool_call_id: str, tool_name: str) -> GrowingTool:
        """A new Tool at the end, whose input will grow."""
        part = GrowingTool(
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            part_id=part_id,
            sequence=self._take_place(),
            step_id=step_id,
        )
        self._parts.append(part)
        self.json_bytes += PART_BYTES + json_bytes(tool_name)
        return part

    def append(self, part: Growing, text: str) -> None:
        part.append(text)
        self.json_bytes += json_bytes(text)

    def add(self, part: AgentPart) -> AgentPart:
        """A finished Part at the end; gives it with its place."""
        part = structs.replace(part, sequence=self._take_place())
        self._parts.append(part)
        self.json_bytes += len(encode_json(part).text)
        return part

    def replace(self, part: AgentPart) -> None:
        """The next state of a Part, in its place."""
        (place,) = [number for number, old in enumerate(self._parts) if old.part_id == part.part_id]
        self._parts[place] = part
        self.json_bytes += len(encode_json(part).text)

    def _take_place(self) -> int:
        """The next Part sequence; one is never used again, also after a Step was rolled back (S6)."""
        if self._stand_in:
            self._parts.clear()
            self._stand_in = False
        self._next_part += 1
        return self._next_part - 1

    def bump(self) -> int:
        """The revision of the change that was just made."""
        self.revision += 1
        return self.revision

    # ------------------------------------------------------------------------------------------------------- commits

    def draft(self) -> "Projection":
        """A copy to change for a commit. Growing Parts are shared: none grows while a commit is under way."""
        copy = Projection(
            message_id=self.message_id,
            session_id=self.session_id,
            turn_id=self.turn_id,
            sequence=self.sequence,
            created_at=self.created_at,
        )
        copy.revision, copy.updated_at = self.revision, self.updated_at
        copy.json_bytes, copy._next_part = self.json_bytes, self._next_part
        copy._parts, copy._stand_in = list(self._parts), self._stand_in
        return copy

    def without_step(self, step_id: str) -> "Projection":
        """A draft from which the Parts of a failed attempt are gone (T6).

        A Message is never empty (M10): where nothing else is left, the first Part stays, emptied, until the next
        attempt's first Part takes its place.
        """
        copy = self.draft()
        copy._parts = [part for part in self._parts if part.step_id != step_id]
        if not copy._parts and self._parts:
            copy._parts = [_emptied(self._parts[0])]
            copy._stand_in = True
        copy.json_bytes = sum(len(encode_json(_as_part(part)).text) for part in copy._parts)
        return copy

    def with_texts_done(self) -> "Projection":
        """This draft, with every text finished: what the end of a Step stores (S2)."""
        self._parts = [part.terminal("") if isinstance(part, GrowingText) else part for part in self._parts]
        return self

    def message(self) -> AgentMessage:
        """The Message as subscribers have it."""
        return self._build((_as_part(part) for part in self._parts), self.revision, "streaming", self.updated_at)

    def candidate(self, *, updated_at: int) -> AgentMessage:
        """The open Message as the next commit stores it, at the next revision."""
        return structs.replace(self.message(), revision=self.revision + 1, updated_at=updated_at)

    def committed(self, message: AgentMessage) -> None:
        """The candidate was stored: from now on it is what subscribers have."""
        self.revision, self.updated_at = message.revision, message.updated_at

    def closed(self, *, updated_at: int, reason: str = "", extra: Iterable[AgentPart] = ()) -> AgentMessage:
        """The Message as its closure stores it: every Part terminal, `extra` Parts at the end (S8, T3).

        `reason` says to Tools that had not finished why they never will.
        """
        revision = self.revision + 1
        parts = [_terminal(part, reason, revision, updated_at) for part in self._parts]
        added = [structs.replace(part, sequence=number) for number, part in enumerate(extra, start=self._next_part)]
        if added and self._stand_in:
            parts = []
        return self._build(parts + added, revision, "done", updated_at)

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


def _as_part(part: Growing | AgentPart) -> AgentPart:
    return part.part() if isinstance(part, Growing) else part


def _emptied(part: Growing | AgentPart) -> AgentPart:
    terminal = _terminal(part, "the model's answer is tried again", 0, 0)
    if isinstance(terminal, TextPart | ReasoningPart):
        return structs.replace(terminal, text="")
    return structs.replace(terminal, input_text=UNSET) if isinstance(terminal, ToolPart) else terminal


def _terminal(part: Growing | AgentPart, reason: str, revision: int, now: int) -> AgentPart:
    """The state in which a Part stays for ever."""
    match part:
        case Growing():
            return part.terminal(reason)
        case ToolPart() if part.state not in lifecycle.TOOL.terminal:
            return structs.replace(part, state=lifecycle.advance(lifecycle.TOOL, part.state, "failed"), error=reason)
        case InteractionPart() if part.status not in lifecycle.INTERACTION.terminal:
            status = lifecycle.advance(lifecycle.INTERACTION, part.status, "cancelled")
            return structs.replace(part, status=status, revision=revision, resolved_at=now)
        case ActionPart() if part.state not in lifecycle.ACTION.terminal:
            return structs.replace(part, state=lifecycle.advance(lifecycle.ACTION, part.state, "failed"))
        case _:
            return part
