"""Files in model input: what a `data:` URL holds, and what a model is told of a file that it cannot be shown."""

import base64
import binascii
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from turnwire.models.base import FileContent, clean_text

QUOTED_URL_CHARACTERS: Final = 2_000
"""How much of the address of a file that cannot be shown is given to the model."""

_TEXT_TYPES: Final = ("application/json", "application/xml", "application/yaml", "application/toml")


class DataUrl(Struct, frozen=True):
    """What a `data:` URL holds."""

    media_type: str
    data: bytes

    @property
    def encoded(self) -> str:
        return base64.b64encode(self.data).decode()


def media_type_of(file: FileContent) -> str:
    """The bare media type, in lower case."""
    return file.media_type.partition(";")[0].strip().lower()


def file_name(file: FileContent) -> str:
    return clean_text(file.filename or "file")


def data_of(file: FileContent) -> DataUrl | None:
    """What the file's `data:` URL holds, or None when it has another URL or one that cannot be read."""
    if file.url[:5].lower() != "data:":
        return None
    head, comma, body = file.url[5:].partition(",")
    if not comma:
        return None
    data = unquote_to_bytes(body)
    if head.lower().endswith(";base64"):
        try:
            data = base64.b64decode(b"".join(data.split()), validate=True)
        except binascii.Error:
            return None
    return DataUrl(media_type_of(file), data)


def text_of(file: FileContent) -> str | None:
    """The text of a text file in a `data:` URL, or None for anything else."""
    kind = media_type_of(file)
    if not kind.startswith("text/") and not kind.endswith(("+json", "+xml")) and kind not in _TEXT_TYPES:
        return None
    held = data_of(file)
    return None if held is None else held.data.decode(errors="replace")


def notice(file: FileContent) -> str:
    """What a model is told of a file that it cannot see, such as its address."""
    where = ": its content cannot be shown" if file.url[:5].lower() == "data:" else f": {clean_text(file.url)}"
    return f"[{file_name(file)} ({clean_text(file.media_type)}){where[:QUOTED_URL_CHARACTERS]}]"
