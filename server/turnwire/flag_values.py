"""What the flags of `turnwire serve` take: each makes a value of a text, or raises ValueError with a sentence."""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path

from turnwire.gateway.tokens import Key, read_key
from turnwire.logs import LOG_FORMATS, LogFormat

HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
HOST = re.compile(rf"{HOST_NAME.pattern}|\[?[0-9A-Fa-f:.]+\]?")
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s,]+/?", re.IGNORECASE)


def host(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        if not HOST_NAME.fullmatch(text):
            raise ValueError(f"expected an address or the name of this machine, got {text!r}") from None
    return text


def key_file(text: str) -> Key:
    return read_key(Path(text))


def audience(text: str) -> str:
    if not 1 <= len(text) <= 200:
        raise ValueError(f"expected a name of 1 to 200 characters, got {text[:20]!r}")
    return text


def readable(text: str) -> Path:
    path = Path(text)
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"cannot read {text!r}: {error.strerror}") from None
    return path


def list_of(pattern: re.Pattern[str], what: str) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        for item in items:
            if not pattern.fullmatch(item):
                raise ValueError(f"expected {what}, got {item!r}")
        return items

    return parse


def integer(lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not lowest <= int(text) <= highest:
            raise ValueError(f"expected an integer from {lowest} to {highest}, got {text!r}")
        return int(text)

    return parse


COUNT = integer(1, 100_000_000)


def rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"expected a number, got {text!r}") from None
    if not 0.001 <= value <= 1_000_000:
        raise ValueError(f"expected 0.001 to 1000000, got {text!r}")
    return value


def networks(text: str) -> tuple[str, ...]:
    items = tuple(item.strip() for item in text.split(",") if item.strip())
    for item in items:
        try:
            ipaddress.ip_network(item)
        except ValueError as error:
            raise ValueError(f"expected a network such as 10.1.0.0/16: {error}") from None
    return items


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"expected a number of seconds, got {text!r}") from None
    if not 0 <= value <= 86_400:
        raise ValueError(f"expected 0 to 86400 seconds, got {text!r}")
    return value


def data(text: str) -> Path:
    path = Path(text)
    if not text or path.is_dir():
        raise ValueError(f"expected the path of a file, got {text!r}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {path.absolute().parent}")
    return path


def folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise ValueError(f"there is no folder {text!r}")
    return path


def switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError(f"expected on or off, got {text!r}")
    return text == "on"


def model(text: str) -> str:
    kind, _, name = text.partition(":")
    if text == "scripted" or (kind in ("openai", "anthropic") and name.strip()):
        return text
    raise ValueError(f"expected scripted, openai:NAME or anthropic:NAME, got {text!r}")


def url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError(f"expected an http:// or https:// address, got {text!r}")
    return text


def log_format(text: str) -> LogFormat:
    if text not in LOG_FORMATS:
        raise ValueError(f"expected console or json, got {text!r}")
    return LOG_FORMATS[text]


def log_level(text: str) -> str:
    if text not in ("debug", "info", "warning", "error"):
        raise ValueError(f"expected debug, info, warning or error, got {text!r}")
    return text
