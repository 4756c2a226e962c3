"""Model input as Chat Completions wants it: messages, files and tools. No I/O.

The model's reasoning is its own and is not told again: the API has no place for it.
"""

from collections.abc import Sequence
from typing import Any

from turnwire.models.base import (
    Content,
    FileContent,
    ModelMessage,
    TextContent,
    ToolCallContent,
    ToolResultContent,
    ToolSpec,
    clean_text,
)
from turnwire.models.calls import wire_id, wire_name
from turnwire.models.files import file_name, media_type_of, notice, text_of


def wire_messages(messages: Sequence[ModelMessage]) -> list[Any]:
    """The messages of the API; every tool result is a message of its own there."""
    return [each for message in messages for each in _messages(message)]


def wire_tools(tools: Sequence[ToolSpec]) -> list[Any]:
    """The tools as functions of the API."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
        }
        for tool in tools
    ]


def _messages(message: ModelMessage) -> list[dict[str, Any]]:
    match message.role:
        case "tool":
            return [_result(part) for part in message.content if isinstance(part, ToolResultContent)]
        case "assistant":
            said = _assistant(message)
            return [said] if said["content"] or "tool_calls" in said else []
        case _:
            return [{"role": message.role, "content": _input(message.content)}]


def _result(part: ToolResultContent) -> dict[str, Any]:
    # The API has no field for a failure: words have to say it.
    output = f"The call failed: {part.output}" if part.failed else part.output
    return {"role": "tool", "tool_call_id": wire_id(part.tool_call_id), "content": clean_text(output)}


def _assistant(message: ModelMessage) -> dict[str, Any]:
    """What the model said and called."""
    calls = [
        {
            "id": wire_id(part.tool_call_id),
            "type": "function",
            "function": {"name": wire_name(part.tool_name), "arguments": clean_text(part.input_json)},
        }
        for part in message.content
        if isinstance(part, ToolCallContent)
    ]
    texts = [clean_text(part.text) for part in message.content if isinstance(part, TextContent)]
    said: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts)}
    return {**said, "tool_calls": calls} if calls else said


def _input(content: tuple[Content, ...]) -> str | list[dict[str, Any]]:
    pieces = [_piece(part) for part in content if isinstance(part, TextContent | FileContent)]
    if all(piece["type"] == "text" for piece in pieces):
        # A plain string is what every compatible server understands.
        return "\n".join(piece["text"] for piece in pieces)
    return pieces


def _piece(part: TextContent | FileContent) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return {"type": "text", "text": clean_text(part.text)}
    if media_type_of(part).startswith("image/"):
        return {"type": "image_url", "image_url": {"url": clean_text(part.url)}}
    if (text := text_of(part)) is not None:
        return {"type": "text", "text": f"[{file_name(part)}]\n{text}"}
    if part.url[:5].lower() == "data:":
        return {"type": "file", "file": {"filename": file_name(part), "file_data": clean_text(part.url)}}
    # Chat Completions fetches nothing but images: the model is told what it cannot see.
    return {"type": "text", "text": notice(part)}
