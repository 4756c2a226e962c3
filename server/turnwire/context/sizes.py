"""How much a model has to read, and how long texts are shortened for it. Estimates only: the truth is a provider's."""

from collections.abc import Iterable, Iterator
from typing import Final

from turnwire.models.base import Content, FileContent, ModelMessage, ReasoningContent, TextContent, ToolCallContent

BYTES_PER_TOKEN: Final = 4
"""UTF-8 bytes of one token, about; in scripts of three bytes a character tokens are larger, too."""

FILE_BYTES: Final = 8_000
"""What a file counts at most: the bytes of an image are not read as text."""

MESSAGE_BYTES: Final = 16
"""What every message costs besides its text."""


def bytes_of(messages: Iterable[ModelMessage]) -> int:
    """How many bytes of text these are to a model."""
    return sum(MESSAGE_BYTES + sum(map(_content_bytes, message.content)) for message in messages)


def estimated_tokens(messages: Iterable[ModelMessage]) -> int:
    """About how many tokens these are, where the provider does not say."""
    return bytes_of(messages) // BYTES_PER_TOKEN


def _content_bytes(part: Content) -> int:
    match part:
        case TextContent() | ReasoningContent():
            return utf8_length(part.text)
        case ToolCallContent():
            return utf8_length(part.tool_name) + utf8_length(part.input_json)
        case FileContent():
            return min(utf8_length(part.url), FILE_BYTES)
        case _:
            return utf8_length(part.output)


def utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and end with a marker that says how much is missing; about `limit` characters."""
    if len(text) <= limit:
        return text
    end = limit // 4
    start = limit - end
    return f"{text[:start]}\n[... {len(text) - limit} characters left out ...]\n{text[len(text) - end :]}"


def cut(text: str, limit: int) -> Iterator[str]:
    """The text in pieces of at most `limit` UTF-8 bytes (4 or more); joined they are the text."""
    data = text.encode()
    start = 0
    while start < len(data):
        end = min(start + limit, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:  # never within a character
            end -= 1
        yield data[start:end].decode()
        start = end
