"""One Message of history as a model reads it (C1, P3).

A Message becomes units, which must stay together: what the model said and called in one Step, with one result for
each call right after it. Which Messages are read, and in what order, is `composer`.

Left out, and only kept in history, is what a Turn changed in files, since its calls and results say so, and Part types
and fields of a newer writer.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from turnwire.context.sizes import shortened
from turnwire.context.tags import tagged
from turnwire.models.base import (
    Content,
    FileContent,
    ModelMessage,
    ReasoningContent,
    TextContent,
    ToolCallContent,
    ToolResultContent,
)
from turnwire_protocol.codec import check_json
from turnwire_protocol.codes import RequestError
from turnwire_protocol.parts import FILE_DIFF

Unit: TypeAlias = tuple[ModelMessage, ...]
"""Messages that must stay together."""

Map: TypeAlias = Mapping[str, Any]

_UNCALLABLE: Final = re.compile(r"[^A-Za-z0-9_-]")
TOOL_NAME_CHARACTERS: Final = 64
"""How long a tool's name may be for every provider; the model itself may have made up anything."""

NOTICES: Final = {
    "stopped": "The user stopped the answer above before it was complete.",
    "runtime_interrupted": "The answer above was interrupted by a restart of the server and is not complete.",
    "length": "The answer above reached its greatest length and is not complete.",
    "server_shutdown": "The answer above was interrupted by a restart of the server and is not complete.",
}
"""What the model is told of stored stops and failures, by the code of the `error` Part."""

FAILED: Final = "The answer above failed and may not be complete."
UNFINISHED: Final = "The call was interrupted before it finished."


class Rules(Struct, kw_only=True, frozen=True):
    """What of a Message a model may read."""

    running_turn: str | None = None
    """The Turn that the input is made for."""
    reasoning: Literal["running-turn", "always", "never"] = "running-turn"
    """Whose reasoning is read: providers want that of the Steps before in a tool loop, and ignore older."""
    value_characters: int = 64_000
    """How long one tool's input or output, or one `data` Part, may be before it is shortened."""


def units_of(message: Map, rules: Rules) -> list[Unit]:
    """What a model reads of one Message; nothing for one that only holds Actions."""
    if message["role"] == "user":
        content = tuple(piece for part in message["parts"] if (piece := _user_content(part, rules)) is not None)
        return [(ModelMessage("user", content),)] if content else []
    running = rules.running_turn is not None and message.get("turn_id") == rules.running_turn
    keeps_reasoning = rules.reasoning == "always" or (rules.reasoning == "running-turn" and running)
    read = _STEP_PARTS | {"error"} if keeps_reasoning else (_STEP_PARTS | {"error"}) - {"reasoning"}
    parts = [part for part in message["parts"] if part["type"] in read and part.get("data_type") != FILE_DIFF]
    units: list[Unit] = []
    for (is_error, _), group in groupby(parts, key=lambda part: (part["type"] == "error", part.get("step_id"))):
        step = list(group)
        units.extend([notice(NOTICES.get(part["code"], FAILED)) for part in step] if is_error else _step(step, rules))
    return units


def notice(sentence: str) -> Unit:
    """Something that nobody said, but the model should know."""
    return (ModelMessage("user", (TextContent(tagged("notice", sentence)),)),)


_STEP_PARTS: Final = frozenset({"text", "reasoning", "tool", "file", "data"})


def _step(parts: Sequence[Map], rules: Rules) -> list[Unit]:
    said = tuple(piece for part in parts if (piece := _agent_content(part, rules)) is not None)
    results = tuple(_result(part, rules) for part in parts if part["type"] == "tool")
    if all(isinstance(piece, ReasoningContent) for piece in said):
        return []  # thought only: no provider takes a message that says nothing
    assistant = ModelMessage("assistant", said)
    return [(assistant, ModelMessage("tool", results)) if results else (assistant,)]


def _user_content(part: Map, rules: Rules) -> Content | None:
    match part["type"]:
        case "text":
            return TextContent(part["text"]) if part["text"] else None
        case "context":
            return TextContent(_context(part["tag"], part["context"]))
        case "file":
            return FileContent(part["url"], part["media_type"], part.get("filename"))
        case "data":
            return _data(part, rules)
        case _:
            return None


def _agent_content(part: Map, rules: Rules) -> Content | None:
    match part["type"]:
        case "text":
            return TextContent(part["text"]) if part["text"] else None
        case "reasoning":
            return ReasoningContent(part["text"]) if part["text"] else None
        case "tool":
            return ToolCallContent(part["tool_call_id"], _name(part), _input(part, rules))
        case "file":
            # What the model made is told by name: no provider takes files from its own side of the conversation.
            return TextContent(f"[file: {part.get('filename') or 'file'} ({part['media_type']})]")
        case _:
            return _data(part, rules)


def _context(tag: str, content: str) -> str:
    try:
        return tagged(tag, content)
    except ValueError:  # a tag that a newer writer allows
        return tagged("context", content)


def _data(part: Map, rules: Rules) -> TextContent:
    json = _json({"data_type": part["data_type"], "data": part["data"]})
    return TextContent(tagged("data", shortened(json, rules.value_characters)))


def _name(part: Map) -> str:
    return _UNCALLABLE.sub("_", part["tool_name"])[:TOOL_NAME_CHARACTERS] or "_"


def _input(part: Map, rules: Rules) -> str:
    """What the model wrote, always as a JSON object: some services take nothing else, and fail every later request."""
    value = part["input"] if "input" in part else _written(part.get("input_text", ""))
    json = _json(value if isinstance(value, dict) else {"input": value})
    if len(json) <= rules.value_characters:
        return json
    return _json({"shortened": shortened(json, rules.value_characters)})


def _written(text: str) -> Any:
    """The input of a call that never became ready. The model sees its mistake; the call's result names it (P5)."""
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
        check_json(value)
    except (msgspec.DecodeError, RecursionError, RequestError):
        return {"invalid_json": text}
    return value


def _result(part: Map, rules: Rules) -> ToolResultContent:
    failed = part["state"] != "completed"
    output = _json(part.get("output")) if not failed or part.get("output") is not None else ""
    if failed:
        output = "\n".join(filter(None, (part.get("error") or UNFINISHED, output)))
    return ToolResultContent(
        part["tool_call_id"], _name(part), shortened(output, rules.value_characters), failed=failed
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
