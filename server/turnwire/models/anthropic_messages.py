"""Model input as the Messages API wants it: turns of user and assistant that alternate, files, and tools. No I/O.

The model's reasoning is left out: the API takes it back with its own signature only, and history has none.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

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
from turnwire.models.files import data_of, file_name, media_type_of, notice, text_of

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF: Final = "application/pdf"

BEGINNING: Final = "(Earlier messages are left out here.)"
"""Said by the user where the input begins in mid-conversation: the API wants the user to begin."""

GO_ON: Final = "(Go on.)"
"""Said by the user where the assistant has spoken last: what it said would be a half answer to be completed."""

Map = dict[str, Any]


def wire_input(messages: Sequence[ModelMessage], tools: Sequence[ToolSpec]) -> Map:
    """`system`, `messages`, `tools` and `tool_choice` of a request, those that it needs.

    System messages at the beginning are the `system` prompt; a later one stands where it is, in a turn of the user.
    """
    leading = next((n for n, message in enumerate(messages) if message.role != "system"), len(messages))
    system = [block for message in messages[:leading] for block in _blocks(message.content)]
    turns = _turns(messages[leading:])
    request: Map = {"messages": turns}
    if system:
        request["system"] = system
    if tools:
        request["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools
        ]
    elif names := _called(turns):
        # Calls in the history are refused without tools; they are named, and none may be called.
        request["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        request["tool_choice"] = {"type": "none"}
    return request


def _turns(messages: Iterable[ModelMessage]) -> list[Map]:
    """The messages as turns that alternate, begin and end with the user, and are never empty."""
    turns: list[Map] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message.content)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [_text(BEGINNING)]})
    if turns and turns[-1]["role"] == "assistant":
        turns.append({"role": "user", "content": [_text(GO_ON)]})
    for turn in turns:
        turn["content"].sort(key=_place)
    return turns


def _place(block: Map) -> int:
    """Results come first in a turn of the user, as the API demands, and calls last in one of the assistant."""
    return {"tool_result": 0, "tool_use": 2}.get(block["type"], 1)


def _called(turns: list[Map]) -> list[str]:
    """The names of all tools that were called, each once."""
    blocks = [block for turn in turns for block in turn["content"]]
    return list(dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use"))


def _blocks(content: tuple[Content, ...]) -> list[Map]:
    return [block for part in content if (block := _block(part)) is not None]


def _block(part: Content) -> Map | None:
    match part:
        case TextContent():
            return _text(part.text) if part.text.strip() else None  # the API refuses white space alone
        case FileContent():
            return _file(part)
        case ToolCallContent():
            name = wire_name(part.tool_name)
            return {"type": "tool_use", "id": wire_id(part.tool_call_id), "name": name, "input": _input(part)}
        case ToolResultContent():
            output = clean_text(part.output)
            result: Map = {"type": "tool_result", "tool_use_id": wire_id(part.tool_call_id), "content": output}
            return {**result, "is_error": True} if part.failed else result
        case _:
            return None


def _text(text: str) -> Map:
    return {"type": "text", "text": clean_text(text)}


def _input(part: ToolCallContent) -> Map:
    """The input as an object, which it must be: anything else stands in one."""
    try:
        value = msgspec.json.decode(clean_text(part.input_json))
    except (msgspec.DecodeError, RecursionError):
        value = clean_text(part.input_json)
    return value if isinstance(value, dict) else {"input": value}


def _file(part: FileContent) -> Map:
    kind, held = media_type_of(part), data_of(part)
    if (text := text_of(part)) is not None:
        source = {"type": "text", "media_type": "text/plain", "data": text}
        return {"type": "document", "source": source, "title": file_name(part)} if text.strip() else _text(notice(part))
    if kind not in (*_IMAGES, _PDF) or (held is None and not part.url.startswith("https://")):
        return _text(notice(part))
    source = (
        {"type": "url", "url": clean_text(part.url)}
        if held is None
        else {"type": "base64", "media_type": kind, "data": held.encoded}
    )
    if kind == _PDF:
        return {"type": "document", "source": source, "title": file_name(part)}
    return {"type": "image", "source": source}
