"""The commands of the scripted model that call tools (P4, P5). Each ends its Step; how it goes on is `scripted`.

The model does not look at what tools it was offered: calling one that does not exist is a fault worth playing too.
"""

import json
from collections.abc import Iterator
from typing import Final

from turnwire.models.base import BlockEnd, clean_text
from turnwire.models.scripted_parameters import Command, Integer, Rest, Word
from turnwire.models.scripted_speech import WORD_MS, Move, Pause, Speech
from turnwire.models.scripted_texts import filler, pieces

INPUT_CHARACTERS: Final = 12
"""How many characters of input one delta carries, but for `/big`."""

BIG_DELTA_CHARACTERS: Final = 1024

MAX_CALLS: Final = 100
MAX_STEPS: Final = 1_000
MAX_INPUT_KB: Final = 16 * 1024
"""Bounds of the arguments, so that a slip of the keyboard does not occupy a server."""

NO_JSON: Final = '{"expression": "1 + '
"""What `/badjson` gives for an input: it ends within a string."""


def calculation(expression: str) -> str:
    return json.dumps({"expression": expression})


def _tool(speech: Speech, tool_name: str, input_json: str) -> Iterator[Move]:
    return speech.call(clean_text(tool_name), clean_text(input_json), INPUT_CHARACTERS, WORD_MS)


def _tools(speech: Speech, count: int) -> Iterator[Move]:
    starts = [speech.start_call("calculator") for _ in range(count)]
    yield from starts
    inputs = [list(pieces(calculation(f"{number} * {number}"), INPUT_CHARACTERS)) for number in range(1, count + 1)]
    for index in range(max(map(len, inputs))):
        if index:
            yield Pause(WORD_MS / 1000)
        for start, fragments in zip(starts, inputs, strict=True):
            if index < len(fragments):
                yield speech.delta(start.block, fragments[index])
    for start in starts:
        yield BlockEnd(block=start.block)


def _badjson(speech: Speech) -> Iterator[Move]:
    return speech.call("calculator", NO_JSON, INPUT_CHARACTERS, WORD_MS)


QUESTION: Final = {
    "questions": [
        {
            "question_id": "colour",
            "question": "Which colour shall it be?",
            "options": [
                {"value": "red", "label": "Red"},
                {"value": "green", "label": "Green"},
                {"value": "blue", "label": "Blue"},
            ],
        }
    ]
}
"""What `/ask` asks."""


def _ask(speech: Speech) -> Iterator[Move]:
    return speech.call("ask_user", json.dumps(QUESTION), INPUT_CHARACTERS, WORD_MS)


def _step(speech: Speech, count: int) -> Iterator[Move]:
    number = speech.answered + 1
    yield from speech.words(f"Step {number} of {count}.\n")
    yield from speech.call("calculator", calculation(f"{number} + {number}"), INPUT_CHARACTERS, WORD_MS)


def _big(speech: Speech, kilobytes: int) -> Iterator[Move]:
    head, tail = '{"path": "big.txt", "text": "', '"}'
    size = kilobytes * 1024 - len(head) - len(tail)
    text = "".join(filler(size, size)).replace("\n", " ")
    return speech.call("write_file", head + text + tail, BIG_DELTA_CHARACTERS, 0)


def _one(*_: object) -> int:
    return 1


def _itself(count: int) -> int:
    return count


TOOL_COMMANDS: Final = (
    Command(
        "tool",
        (Word("NAME"), Rest("JSON", default="{}")),
        "Calls tool NAME with the input JSON, which goes out as it is.",
        _tool,
        results=_one,
    ),
    Command(
        "tools", (Integer("N", 1, MAX_CALLS),), "Calls the calculator N times in one Step.", _tools, results=_itself
    ),
    Command("badjson", (), "Calls the calculator with an input that is not JSON.", _badjson, results=_one),
    Command("ask", (), "Asks the user a question with options.", _ask, results=_one),
    Command(
        "step", (Integer("N", 1, MAX_STEPS),), "Takes N Steps, each with one call of the calculator.", _step, _itself
    ),
    Command(
        "big",
        (Integer("KB", 1, MAX_INPUT_KB),),
        "Writes big.txt by a call whose input is KB kilobytes of JSON, as fast as it goes.",
        _big,
        results=_one,
    ),
)
"""In the order of `/help`."""
