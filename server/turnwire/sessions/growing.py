"""Growing Parts: text, reasoning and tool input while the model streams them.

Chunks are joined only when somebody looks, so that growth is linear. Plain and synchronous.
"""

from typing import Any, Literal

from msgspec import UNSET

from turnwire_protocol.codec import encode_json
from turnwire_protocol.parts import AgentPart, ReasoningPart, TextPart, TextState, ToolPart

TextKind = Literal["text", "reasoning"]


class Growing:
    """What all growing Parts have in common."""

    def __init__(self, *, part_id: str, sequence: int, step_id: str, text: str) -> None:
        self.part_id = part_id
        self.sequence = sequence
        self.step_id = step_id
        self._chunks = [text]

    @property
    def text(self) -> str:
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0]

    def append(self, text: str) -> None:
        self._chunks.append(text)

    def identity(self) -> dict[str, Any]:
        return {"part_id": self.part_id, "sequence": self.sequence, "step_id": self.step_id}

    def part(self) -> AgentPart:
        """The Part as it is now."""
        raise NotImplementedError

    def terminal(self, reason: str) -> AgentPart:
        """The Part as it is when nothing more will come, `reason` saying why it was not finished (S7, S8)."""
        raise NotImplementedError


class GrowingText(Growing):
    """A text or reasoning Part."""

    def __init__(self, *, kind: TextKind, part_id: str, sequence: int, step_id: str, text: str) -> None:
        super().__init__(part_id=part_id, sequence=sequence, step_id=step_id, text=text)
        self.kind: TextKind = kind
        self.state: TextState = "streaming"

    def finish(self) -> None:
        self.state = "done"

    def part(self) -> TextPart | ReasoningPart:
        return self._part(self.state)

    def terminal(self, reason: str) -> TextPart | ReasoningPart:
        return self._part("done")

    def _part(self, state: TextState) -> TextPart | ReasoningPart:
        make = TextPart if self.kind == "text" else ReasoningPart
        return make(**self.identity(), text=self.text, state=state)


class GrowingTool(Growing):
    """A Tool whose input is still being produced (P4, P5)."""

    kind: Literal["tool"] = "tool"

    def __init__(self, *, tool_call_id: str, tool_name: str, part_id: str, sequence: int, step_id: str) -> None:
        super().__init__(part_id=part_id, sequence=sequence, step_id=step_id, text="")
        self.tool_call_id = tool_call_id
        self.tool_name = tool_name

    def part(self) -> ToolPart:
        return ToolPart(
            **self.identity(),
            tool_call_id=self.tool_call_id,
            tool_name=self.tool_name,
            state="input-streaming",
            input_text=self.text,
        )

    def ready(self, input: Any) -> ToolPart:
        """The Part with its parsed input, which takes the place of the text (P5)."""
        return ToolPart(
            **self.identity(),
            tool_call_id=self.tool_call_id,
            tool_name=self.tool_name,
            state="ready",
            input=input,
        )

    def terminal(self, reason: str) -> ToolPart:
        """Failed before it was ready; its text stays, so that one can see what went wrong."""
        return ToolPart(
            **self.identity(),
            tool_call_id=self.tool_call_id,
            tool_name=self.tool_name,
            state="failed",
            input_text=self.text or UNSET,
            error=reason,
        )


def json_bytes(text: str) -> int:
    """How many bytes the text takes inside a JSON string."""
    return len(encode_json(text).text) - 2
