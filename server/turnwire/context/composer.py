"""The Composer: canonical history becomes model input (C1, C3).

It reads committed Messages and changes nothing. What a Message of a newer writer holds that is not known here is left
out of the model's input, and stays in history.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from turnwire.context.tags import tagged
from turnwire.models.base import Content, FileContent, ModelMessage, TextContent
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
                message = _model_message(item, bounds.exclude_turns)
                if message is None:
                    continue
                room -= len(message.text)
                if room < 0 and newest_first:
                    return tuple(reversed(newest_first))
                newest_first.append(message)
            if not page.has_more or not page.items:
                return tuple(reversed(newest_first))
            before = page.items[0].sequence


def _model_message(stored: StoredMessage, exclude_turns: frozenset[str]) -> ModelMessage | None:
    message: dict[str, Any] = msgspec.json.decode(stored.json.text)
    if message.get("turn_id") in exclude_turns:
        return None
    content = tuple(piece for part in message["parts"] if (piece := _content(part)) is not None)
    if not content:
        return None
    return ModelMessage("user" if message["role"] == "user" else "assistant", content)


def _content(part: Mapping[str, Any]) -> Content | None:
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
