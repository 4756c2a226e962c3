"""Settings of `turnwire serve`: one table of flags, their environment variables, defaults and checks."""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnwire.gateway.auth import is_loopback
from turnwire.gateway.tokens import Key, read_key
from turnwire.logs import LOG_FORMATS, LogFormat

ENVIRONMENT_PREFIX = "TURNWIRE_"

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_HOST = re.compile(rf"{_HOST_NAME.pattern}|\[?[0-9A-Fa-f:.]+\]?")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s,]+/?", re.IGNORECASE)


class SettingError(Exception):
    """A flag or environment variable with a wrong value; the sentence names it."""


class Settings(Struct, kw_only=True, frozen=True):
    """What one server runs with. Seconds and ms as the names say."""

    host: str
    port: int
    key_file: Key | None
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
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
    metrics_host: str
    metrics_port: int | None
    log_level: str
    log_format: LogFormat | None


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
    sources: dict[str, str] = {}
    for flag in FLAGS:
        text, source = given.get(flag.field), f"--{flag.name}"
        if text is None and flag.variable in environment:
            text, source = environment[flag.variable], flag.variable
        if text is None:
            text = flag.default
        sources[flag.field] = source
        try:
            values[flag.field] = None if text is None else flag.parse(text)
        except ValueError as error:
            raise SettingError(f"{source}: {error}") from None
    settings = Settings(**values)
    if settings.key_file is None and not is_loopback(settings.host):
        reason = "can be reached from other machines, so --key-file is needed"
        raise SettingError(f"{sources['host']}: {settings.host} {reason}")
    return settings


def _host(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        if not _HOST_NAME.fullmatch(text):
            raise ValueError(f"expected an address or the name of this machine, got {text!r}") from None
    return text


def _key_file(text: str) -> Key:
    return read_key(Path(text))


def _list_of(pattern: re.Pattern[str], what: str) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        for item in items:
            if not pattern.fullmatch(item):
                raise ValueError(f"expected {what}, got {item!r}")
        return items

    return parse


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


def _log_format(text: str) -> LogFormat:
    if text not in LOG_FORMATS:
        raise ValueError(f"expected console or json, got {text!r}")
    return LOG_FORMATS[text]


def _log_level(text: str) -> str:
    if text not in ("debug", "info", "warning", "error"):
        raise ValueError(f"expected debug, info, warning or error, got {text!r}")
    return text


FLAGS = (
    Flag(
        name="host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="address to listen on; any but a loopback one needs --key-file",
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
        name="key-file",
        metavar="PATH",
        default=None,
        help="key that tokens are checked with: an Ed25519 key in PEM, or a secret; without one everyone may come in",
        parse=_key_file,
    ),
    Flag(
        name="allowed-hosts",
        metavar="NAMES",
        default="",
        help="host names, separated by commas, under which the server may be asked besides those of this machine",
        parse=_list_of(_HOST, "a host name without a port"),
    ),
    Flag(
        name="allowed-origins",
        metavar="ORIGINS",
        default="",
        help="origins such as https://chat.example, separated by commas, whose pages may connect besides the own one",
        parse=_list_of(_ORIGIN, "an origin such as https://chat.example"),
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
        name="metrics-port",
        metavar="PORT",
        default=None,
        help="port for Prometheus metrics, at /metrics; none without it; 0 takes a free one, which is printed",
        parse=_integer(0, 65_535),
    ),
    Flag(
        name="metrics-host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="address for the metrics, which anyone may read who reaches it",
        parse=_host,
    ),
    Flag(
        name="log-level",
        metavar="LEVEL",
        default="info",
        help="debug, info, warning or error",
        parse=_log_level,
    ),
    Flag(
        name="log-format",
        metavar="FORMAT",
        default=None,
        help="console or json; without it console on a terminal, else json",
        parse=_log_format,
    ),
)
