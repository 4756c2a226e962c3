"""Settings of `turnwire serve`: one table of flags, their environment variables, defaults and checks."""

import ipaddress
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

ENVIRONMENT_PREFIX = "TURNWIRE_"


class SettingError(Exception):
    """A flag or environment variable with a wrong value; the sentence names it."""


class Settings(Struct, kw_only=True, frozen=True):
    """What one server runs with. Seconds and ms as the names say."""

    host: str
    port: int
    data: Path
    model: str
    base_url: str | None
    workspace: Path | None
    context_window_tokens: int
    titles: bool
    grace_seconds: float
    close_seconds: float
    tick_ms: int
    write_timeout_seconds: float
    log_level: str


class Flag(Struct, kw_only=True, frozen=True):
    """One setting: `--name`, `TURNWIRE_NAME`, what it takes and what it means."""

    name: str
    metavar: str
    default: str | None
    help: str
    parse: Callable[[str], Any]

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper().replace("-", "_")

    @property
    def field(self) -> str:
        return self.name.replace("-", "_")


def settings_from(given: Mapping[str, str | None], environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings from flags (by `Flag.field`), else from the environment, else the defaults.

    Raises SettingError that names the flag or variable.
    """
    values: dict[str, Any] = {}
    for flag in FLAGS:
        text, source = given.get(flag.field), f"--{flag.name}"
        if text is None and flag.variable in environment:
            text, source = environment[flag.variable], flag.variable
        if text is None:
            text = flag.default
        try:
            values[flag.field] = None if text is None else flag.parse(text)
        except ValueError as error:
            raise SettingError(f"{source}: {error}") from None
    return Settings(**values)


def _host(text: str) -> str:
    if text == "localhost":
        return text
    try:
        loopback = ipaddress.ip_address(text).is_loopback
    except ValueError:
        raise ValueError(f"expected localhost or a loopback address, got {text!r}") from None
    if not loopback:
        raise ValueError(f"{text} is not a loopback address, and without authentication nothing else is served")
    return text


def _integer(lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not lowest <= int(text) <= highest:
            raise ValueError(f"expected an integer from {lowest} to {highest}, got {text!r}")
        return int(text)

    return parse


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"expected a number of seconds, got {text!r}") from None
    if not 0 <= value <= 86_400:
        raise ValueError(f"expected 0 to 86400 seconds, got {text!r}")
    return value


def _data(text: str) -> Path:
    path = Path(text)
    if not text or path.is_dir():
        raise ValueError(f"expected the path of a file, got {text!r}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {path.absolute().parent}")
    return path


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise ValueError(f"there is no folder {text!r}")
    return path


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError(f"expected on or off, got {text!r}")
    return text == "on"


def _model(text: str) -> str:
    kind, _, name = text.partition(":")
    if text == "scripted" or (kind in ("openai", "anthropic") and name.strip()):
        return text
    raise ValueError(f"expected scripted, openai:NAME or anthropic:NAME, got {text!r}")


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError(f"expected an http:// or https:// address, got {text!r}")
    return text


def _log_level(text: str) -> str:
    if text not in ("debug", "info", "warning", "error"):
        raise ValueError(f"expected debug, info, warning or error, got {text!r}")
    return text


FLAGS = (
    Flag(
        name="host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="address to listen on; a loopback one, since there is no authentication yet",
        parse=_host,
    ),
    Flag(
        name="port",
        metavar="PORT",
        default="8787",
        help="port to listen on; 0 takes a free one, which is printed",
        parse=_integer(0, 65_535),
    ),
    Flag(
        name="data",
        metavar="PATH",
        default="turnwire.db",
        help="SQLite file that holds all sessions; made if it is missing",
        parse=_data,
    ),
    Flag(
        name="model",
        metavar="MODEL",
        default="scripted",
        help="scripted (built in, offline), openai:NAME or anthropic:NAME (or any service that speaks like them)",
        parse=_model,
    ),
    Flag(
        name="base-url",
        metavar="URL",
        default=None,
        help="address of another service for openai:NAME or anthropic:NAME; keys: OPENAI_API_KEY, ANTHROPIC_API_KEY",
        parse=_url,
    ),
    Flag(
        name="workspace",
        metavar="FOLDER",
        default=None,
        help="folder whose files the model's tools may list and read, and change with the user's approval",
        parse=_folder,
    ),
    Flag(
        name="context-window-tokens",
        metavar="TOKENS",
        default="128000",
        help="how many tokens the model reads at most; a history that grows near it is summarised for the model",
        parse=_integer(1_000, 100_000_000),
    ),
    Flag(
        name="titles",
        metavar="ON|OFF",
        default="on",
        help="on: a session that nobody named gets a title from the model after its first answer",
        parse=_switch,
    ),
    Flag(
        name="grace-seconds",
        metavar="SECONDS",
        default="10",
        help="how long running turns may go on after SIGTERM before they are stopped",
        parse=_seconds,
    ),
    Flag(
        name="close-seconds",
        metavar="SECONDS",
        default="10",
        help="how long clients may take after that to close their connections before they are cut off",
        parse=_seconds,
    ),
    Flag(
        name="tick-ms",
        metavar="MS",
        default="15000",
        help="interval of the sign of life that every client gets",
        parse=_integer(50, 600_000),
    ),
    Flag(
        name="write-timeout-seconds",
        metavar="SECONDS",
        default="30",
        help="how long a client may take no byte of what waits for it before it is given up",
        parse=_seconds,
    ),
    Flag(
        name="log-level",
        metavar="LEVEL",
        default="info",
        help="debug, info, warning or error",
        parse=_log_level,
    ),
)
