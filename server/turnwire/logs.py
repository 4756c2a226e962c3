"""The log of a served process: one line for each event, as JSON for machines or coloured for people.

All code logs through `logging`; here stands only what becomes of it. A sentence with named fields, such as
`"turn %(turn_id)s ..."`, shows these fields beside it. Neither tokens nor what users and models write get into the log:
nothing logs them, libraries below WARNING are not heard, and of exceptions only the type and the way are shown, unless
their sentences are known to quote nothing.
"""

import logging
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from typing import Any, Final, Literal, TextIO, TypeAlias

import apsw
import structlog
import trio

from turnwire.store.base import StoreIncompatible, StoreLocked, StoreUnavailable

LogFormat: TypeAlias = Literal["console", "json"]

LOG_FORMATS: Final[dict[str, LogFormat]] = {"console": "console", "json": "json"}

QUOTING_NOTHING: Final = (
    StoreUnavailable,
    StoreLocked,
    StoreIncompatible,
    apsw.Error,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.TrioInternalError,
)
"""Exceptions whose sentences are shown. Any other may quote what a user or a model wrote, such as a tool's."""

OWN: Final = ("turnwire", "turnwire_protocol")

_CAUSE: Final = "The above exception was the direct cause of the following exception:\n"
_CONTEXT: Final = "During handling of the above exception, another exception occurred:\n"


def configure(level: str, format: LogFormat | None, stream: TextIO) -> None:
    """Sends the log of this process to `stream`; without a format, `console` on a terminal and `json` elsewhere.

    `level` is debug, info, warning or error, and holds for Turnwire itself.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter(format or ("console" if stream.isatty() else "json"), colors=stream.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in OWN:
        logging.getLogger(name).setLevel(level.upper())
    logging.captureWarnings(True)


def formatter(format: LogFormat, *, colors: bool = False) -> logging.Formatter:
    """What makes a line of an event."""
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if format == "json"
        else structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0)
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_fields,
            _add_exception,
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        pass_foreign_args=True,
    )


def _add_fields(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    fields = event.pop("positional_args", None)
    if isinstance(fields, dict):
        for name, value in fields.items():
            event.setdefault(name, value if isinstance(value, int | float | str | None) else str(value))
    return event


def _add_exception(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    info = event.pop("exc_info", None)
    error = info[1] if isinstance(info, tuple) else sys.exception() if info is True else info
    if isinstance(error, BaseException):
        event["exception"] = described(error)
    return event


def described(error: BaseException) -> str:
    """The way to an exception and its causes, with the sentences that quote nothing."""
    return "".join(_lines(error, set())).rstrip()


def sentence_of(error: BaseException) -> str:
    """The exception's type, and its sentence if that quotes nothing."""
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    if isinstance(error, QUOTING_NOTHING):
        return f"{name}: {error}"
    if isinstance(error, OSError) and error.strerror:  # the rest of its sentence may be a path that a model chose
        return f"{name}: {error.strerror}"
    return name


def _lines(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    if error.__cause__ is not None and id(error.__cause__) not in seen:
        yield from _lines(error.__cause__, seen)
        yield _CAUSE
    elif error.__context__ is not None and not error.__suppress_context__ and id(error.__context__) not in seen:
        yield from _lines(error.__context__, seen)
        yield _CONTEXT
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    yield sentence_of(error) + "\n"
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from ("  | " + line for text in _lines(inner, seen) for line in text.splitlines(keepends=True))
