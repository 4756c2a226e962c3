"""The commands of the scripted model, as a table: name, parameters, sentence and what is played.

A command is played as an iterator of moves (events, pauses, a cut), so nothing here knows clocks or tasks. Every
command that speaks opens a block of its own, which becomes a Part of its own. A command that fails the call raises
the ModelError.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from turnwire.models.base import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    ErrorCode,
    ModelError,
    ModelEvent,
    ModelRequest,
    clean_text,
)
from turnwire.models.scripted_texts import MARKDOWN, UNICODE, filler, words_of

WORD_MS: Final = 15
"""Pause between the words of prose, in ms: about as fast as a hosted model speaks."""

DELTA_MS: Final = 20
"""Default pause between counted deltas, in ms."""

MAX_DELTAS: Final = 1_000_000
MAX_MS: Final = 60_000
MAX_SECONDS: Final = 3_600
MAX_TEXT_BYTES: Final = 64 * 1024 * 1024
"""Bounds of the arguments, so that a slip of the keyboard does not occupy a server."""


# ------------------------------------------------------------------------------------------------------------ moves


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is said for this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cut:
    """The stream breaks off here."""


Move: TypeAlias = ModelEvent | Pause | Cut


class Speech:
    """One answer being spoken: counts its blocks and deltas, and says text in blocks."""

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.blocks = 0
        self.deltas = 0

    def start(self, kind: Literal["text", "reasoning"]) -> BlockStart:
        """Opens the next block."""
        self.blocks += 1
        return BlockStart(block=self.blocks - 1, kind=kind)

    def delta(self, block: int, text: str) -> BlockDelta:
        self.deltas += 1
        return BlockDelta(block=block, text=text)

    def say(
        self, fragments: Iterable[str], pause_ms: int, kind: Literal["text", "reasoning"] = "text"
    ) -> Iterator[Move]:
        """One whole block: a delta for each fragment, `pause_ms` between them."""
        start = self.start(kind)
        yield start
        yield from self.spaced(start.block, fragments, pause_ms)
        yield BlockEnd(block=start.block)

    def spaced(self, block: int, fragments: Iterable[str], pause_ms: int) -> Iterator[Move]:
        """A delta for each fragment in an open block, `pause_ms` between them."""
        for index, fragment in enumerate(fragments):
            if pause_ms and index:
                yield Pause(pause_ms / 1000)
            yield self.delta(block, fragment)

    def words(self, text: str) -> Iterator[Move]:
        """One text block, word by word."""
        return self.say(words_of(text), WORD_MS)


# ------------------------------------------------------------------------------------------------------- parameters


class BadArguments(ValueError):
    """A command's arguments do not fit; the text is a clause for the user."""


class Parameter(Protocol):
    """One argument of a command; `default` None means that it must be given."""

    @property
    def name(self) -> str: ...

    @property
    def default(self) -> int | None: ...

    def parse(self, word: str) -> Any:
        """The argument's value. Raises BadArguments."""


@dataclass(frozen=True)
class Integer:
    name: str
    least: int
    most: int
    default: int | None = None

    def parse(self, word: str) -> int:
        if word.isascii() and word.isdigit() and len(word) <= len(str(self.most)):
            value = int(word)
            if self.least <= value <= self.most:
                return value
        raise BadArguments(f"{self.name} is a whole number from {self.least:,} to {self.most:,}")


@dataclass(frozen=True)
class Seconds:
    name: str
    default: None = None

    def parse(self, word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = -1.0
        if not 0 <= value <= MAX_SECONDS:
            raise BadArguments(f"{self.name} is a number from 0 to {MAX_SECONDS:,}")
        return value


@dataclass(frozen=True)
class Choice:
    name: str
    choices: tuple[str, ...]
    default: None = None

    def parse(self, word: str) -> str:
        if word not in self.choices:
            raise BadArguments(f"{self.name} is one of {', '.join(self.choices)}")
        return word


@dataclass(frozen=True)
class Rest:
    """All that is left of the line; only as the last parameter."""

    name: str
    default: None = None

    def parse(self, word: str) -> str:
        return word


@dataclass(frozen=True)
class Command:
    """`run` takes the Speech and one value for each parameter."""

    name: str
    parameters: tuple[Parameter, ...]
    sentence: str
    run: Callable[..., Iterator[Move]]

    @property
    def usage(self) -> str:
        """How the command is written, such as `/stream N [MS]`."""
        names = [each.name if each.default is None else f"[{each.name}]" for each in self.parameters]
        return " ".join([f"/{self.name}", *names])

    def parse(self, text: str) -> list[Any]:
        """One value for each parameter. Raises BadArguments."""
        takes_rest = bool(self.parameters) and isinstance(self.parameters[-1], Rest)
        words = text.split(maxsplit=len(self.parameters) - 1 if takes_rest else -1)
        if len(words) > len(self.parameters):
            raise BadArguments("there are too many arguments")
        values: list[Any] = []
        for index, parameter in enumerate(self.parameters):
            if index < len(words):
                values.append(parameter.parse(words[index]))
            elif parameter.default is None:
                raise BadArguments(f"{parameter.name} is missing")
            else:
                values.append(parameter.default)
        return values


# --------------------------------------------------------------------------------------------------------- commands


def _numbered(count: int) -> Iterator[str]:
    return (f"w{number} " for number in range(1, count + 1))


def _help(speech: Speech) -> Iterator[Move]:
    rows = "".join(f"| `{each.usage}` | {each.sentence} |\n" for each in COMMANDS.values())
    intro = "One command a line, played in order:\n\n| command | what I do |\n|---|---|\n"
    return speech.say((intro + rows).splitlines(keepends=True), WORD_MS)


def _stream(speech: Speech, count: int, pause_ms: int) -> Iterator[Move]:
    return speech.say(_numbered(count), pause_ms)


def _echo(speech: Speech, text: str) -> Iterator[Move]:
    return speech.say([clean_text(text)], 0)


def _reason(speech: Speech, count: int, pause_ms: int) -> Iterator[Move]:
    return speech.say(_numbered(count), pause_ms, "reasoning")


def _interleave(speech: Speech, count: int, pause_ms: int) -> Iterator[Move]:
    thought, answer = speech.start("reasoning"), speech.start("text")
    yield thought
    yield answer
    for index, fragment in enumerate(_numbered(count)):
        if index:
            yield Pause(pause_ms / 1000)
        yield speech.delta(thought.block, fragment)
        yield speech.delta(answer.block, fragment)
    yield BlockEnd(block=answer.block)
    yield BlockEnd(block=thought.block)


def _silence(speech: Speech, seconds: float) -> Iterator[Move]:
    yield Pause(seconds)


def _cut(speech: Speech, count: int) -> Iterator[Move]:
    start = speech.start("text")
    yield start
    yield from speech.spaced(start.block, _numbered(count), DELTA_MS)
    yield Cut()


def _fail(speech: Speech, code: ErrorCode, times: int) -> Iterator[Move]:
    if times == ALWAYS or speech.request.attempt <= times:
        raise ModelError(code, f"the scripted model failed with {code}, as it was told to")
    yield from ()


def _unicode(speech: Speech) -> Iterator[Move]:
    return speech.say(UNICODE, DELTA_MS)


def _markdown(speech: Speech) -> Iterator[Move]:
    return speech.words(MARKDOWN)


def _text(speech: Speech, size: int, chunk: int) -> Iterator[Move]:
    return speech.say(filler(size, chunk), 0)


ALWAYS: Final = 0
"""TIMES of `/fail` when it is not given: every attempt fails."""

_DELTAS: Final = Integer("N", 1, MAX_DELTAS)
_PAUSE: Final = Integer("MS", 0, MAX_MS, default=DELTA_MS)

COMMANDS: Final[dict[str, Command]] = {
    command.name: command
    for command in (
        Command("help", (), "Lists all commands.", _help),
        Command("stream", (_DELTAS, _PAUSE), f"Streams N words, one every MS ms (default {DELTA_MS}).", _stream),
        Command("echo", (Rest("TEXT"),), "Says TEXT.", _echo),
        Command("reason", (_DELTAS, _PAUSE), "Reasons in N words, one every MS ms.", _reason),
        Command(
            "interleave",
            (_DELTAS, _PAUSE),
            "Reasons and speaks at once: N words each, in two open blocks.",
            _interleave,
        ),
        Command("silence", (Seconds("SECONDS"),), "Says nothing for SECONDS.", _silence),
        Command("cut", (Integer("N", 0, MAX_DELTAS),), "Breaks the stream off after N words.", _cut),
        Command(
            "fail",
            (Choice("CODE", get_args(ErrorCode)), Integer("TIMES", 1, MAX_DELTAS, default=ALWAYS)),
            "Fails the model call with CODE; with TIMES only the first attempts, then goes on.",
            _fail,
        ),
        Command("unicode", (), "Says emoji, combining marks and joined sequences, one code point at a time.", _unicode),
        Command("markdown", (), "Shows every kind of Markdown, and some hostile HTML as text.", _markdown),
        Command(
            "text",
            (Integer("BYTES", 1, MAX_TEXT_BYTES), Integer("CHUNK", 1, MAX_TEXT_BYTES, default=1024)),
            "Says BYTES of text in deltas of CHUNK bytes (default 1024), as fast as it goes.",
            _text,
        ),
    )
}
"""All commands by name, in the order of `/help`."""
