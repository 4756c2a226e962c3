"""Model input as plain text, for requests about a conversation instead of in it: summaries and titles."""

from collections.abc import Iterable, Iterator
from typing import Final

from turnwire.context.sizes import shortened
from turnwire.models.base import Content, FileContent, ModelMessage, ReasoningContent, TextContent, ToolCallContent

VALUE_CHARACTERS: Final = 2_000
"""How much of a tool's input or output a transcript holds."""

_SPEAKERS: Final = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}


def lines_of(messages: Iterable[ModelMessage]) -> Iterator[str]:
    """Who said and did what, one paragraph each; reasoning is nobody's business."""
    for message in messages:
        for part in message.content:
            if not isinstance(part, ReasoningContent):
                yield f"{_SPEAKERS[message.role]}: {_told(part)}\n"


def _told(part: Content) -> str:
    match part:
        case TextContent() | ReasoningContent():
            return part.text
        case FileContent():
            return f"[file: {part.filename or 'file'} ({part.media_type})]"
        case ToolCallContent():
            return f"calls {part.tool_name} with {shortened(part.input_json, VALUE_CHARACTERS)}"
        case _:
            outcome = "failed" if part.failed else "gave"
            return f"{part.tool_name} {outcome}: {shortened(part.output, VALUE_CHARACTERS)}"
