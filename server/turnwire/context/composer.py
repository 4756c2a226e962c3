"""The Composer: canonical history becomes model input (C1, C3).

It reads committed Messages and changes nothing. What a Message of a newer writer holds that is not known here is left
out of the model's input, and stays in history.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct

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
from turnwire.store.base import MAX_PAGE, Store, StoredMessage


class HistoryBounds(Struct, kw_only=True, frozen=True):
    """Which Messages a model call may see: those up to a point, without Turns that still wait."""

    session_id: str
    through_sequence: int
    exclude_turns: frozenset[str]


class Composer:
    """Makes model input from a Session's history, newest first up to a size, in the order of `sequence`."""

    def __init__(self, store: Store, *, history_characters: int = 200_000) -> None:
        self._store = store
        self._history_characters = history_characters

    async def compose(self, bounds: HistoryBounds) -> tuple[ModelMessage, ...]:
        """The model's input. The newest Message is always in it, whatever its size.

        Raises StoreUnavailable, NotFound.
        """
        newest_first: list[ModelMessage] = []
        room = self._history_characters
        before = bounds.through_sequence + 1
        while True:
            page = await self._store.page(
                bounds.session_id, before_sequence=before, limit=MAX_PAGE, include_internal=True
            )
            for item in reversed(page.items):
                messages = _model_messages(item, bounds.exclude_turns)
                room -= sum(size_of(message) for message in messages)
                if room < 0 and newest_first:
                    return tuple(reversed(newest_first))
                newest_first.extend(reversed(messages))
            if not page.has_more or not page.items:
                return tuple(reversed(newest_first))
            before = page.items[0].sequence


def size_of(message: ModelMessage) -> int:
    """How many characters the model has to read."""
    return sum(
        len(part.text)
        if isinstance(part, TextContent | ReasoningContent)
        else len(part.input_json)
        if isinstance(part, ToolCallContent)
        else len(part.output)
        if isinstance(part, ToolResultContent)
        else len(part.url)
        for part in message.content
    )


def _model_messages(stored: StoredMessage, exclude_turns: frozenset[str]) -> list[ModelMessage]:
    """One Message of history as the model reads it: an Agent's Steps are told apart, each with its tool results."""
    message: dict[str, Any] = msgspec.json.decode(stored.json.text)
    if message.get("turn_id") in exclude_turns:
        return []
    if message["role"] == "user":
        content = tuple(piece for part in message["parts"] if (piece := _user_content(part)) is not None)
        return [ModelMessage("user", content)] if content else []
    messages: list[ModelMessage] = []
    for _, parts in groupby(message["parts"], key=lambda part: part.get("step_id")):
        messages.extend(_step(list(parts)))
    return messages


def _step(parts: list[dict[str, Any]]) -> list[ModelMessage]:
    said = tuple(piece for part in parts if (piece := _agent_content(part)) is not None)
    results = tuple(_result(part) for part in parts if part["type"] == "tool")
    messages = [ModelMessage("assistant", said)] if said else []
    return [*messages, ModelMessage("tool", results)] if results else messages


def _user_content(part: Mapping[str, Any]) -> Content | None:
    match part["type"]:
        case "text":
            return TextContent(part["text"]) if part["text"] else None
        case "context":
            return TextContent(tagged(part["tag"], part["context"]))
        case "file":
            return FileContent(part["url"], part["media_type"], part.get("filename"))
        case "data":
            return TextContent(tagged("data", msgspec.json.encode(part["data"]).decode()))
        case _:
            return None


def _agent_content(part: Mapping[str, Any]) -> Content | None:
    match part["type"]:
        case "text":
            return TextContent(part["text"]) if part["text"] else None
        case "reasoning":
            return ReasoningContent(part["text"]) if part["text"] else None
        case "tool":
            input_json = msgspec.json.encode(part.get("input", {})).decode()
            return ToolCallContent(part["tool_call_id"], part["tool_name"], input_json)
        case _:
            return None


def _result(part: Mapping[str, Any]) -> ToolResultContent:
    failed = part["state"] != "completed"
    output = part.get("error", "the call did not finish") if failed else msgspec.json.encode(part["output"]).decode()
    return ToolResultContent(part["tool_call_id"], part["tool_name"], output, failed=failed)
