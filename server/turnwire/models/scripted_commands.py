"""The commands of the scripted model, as a table: name, parameters, sentence and what is played.

Every command that speaks opens a block of its own, which becomes a Part of its own. A command that fails the call
raises the ModelError. Commands that call tools are `scripted_tools`.
"""

from collections.abc import Iterator
from typing import Final, get_args

from turnwire.models.base import BlockEnd, ErrorCode, ModelError, clean_text
from turnwire.models.scripted_parameters import Choice, Command, Integer, Rest, Seconds
from turnwire.models.scripted_speech import WORD_MS, Cut, Move, Pause, Speech
from turnwire.models.scripted_texts import MARKDOWN, UNICODE, filler
from turnwire.models.scripted_tools import TOOL_COMMANDS

DELTA_MS: Final = 20
"""Default pause between counted deltas, in ms."""

MAX_DELTAS: Final = 1_000_000
MAX_MS: Final = 60_000
MAX_TEXT_BYTES: Final = 64 * 1024 * 1024
MAX_TOKENS: Final = 100_000_000
"""Bounds of the arguments, so that a slip of the keyboard does not occupy a server."""


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


def _title(speech: Speech, text: str) -> Iterator[Move]:
    return speech.say([f"Asked for a title, I will say: {clean_text(text)}"], 0)


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


def _usage(speech: Speech, tokens: int) -> Iterator[Move]:
    speech.input_tokens = tokens
    return speech.words(f"I report {tokens:,} tokens of input.\n")


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
        Command("title", (Rest("TEXT"),), "Gives TEXT as the conversation's title when it is asked for one.", _title),
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
        Command("usage", (Integer("TOKENS", 0, MAX_TOKENS),), "Reports TOKENS of used input.", _usage),
        *TOOL_COMMANDS,
    )
}
"""All commands by name, in the order of `/help`."""
