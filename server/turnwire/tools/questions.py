"""The tool that asks the user: what a model may ask, and how that becomes a question request (P7).

Waiting for the answer, and what becomes of it, is the session loop's.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from turnwire.tools.base import Question, Tool, ToolInputError
from turnwire.tools.functions import input_parser, input_schema
from turnwire_protocol.parts import Id

ANSWER_SECONDS: Final = 24 * 3600.0
"""How long a question waits for the user before it is `expired`."""

QUESTIONS: Final = 10
OPTIONS: Final = 20
QUESTION_CHARACTERS: Final = 2_000
LABEL_CHARACTERS: Final = 200
"""What fits on one card."""


class Option(Struct, frozen=True, forbid_unknown_fields=True):
    value: Annotated[str, Meta(min_length=1, max_length=LABEL_CHARACTERS, description="What the answer will say")]
    label: Annotated[str, Meta(min_length=1, max_length=LABEL_CHARACTERS, description="What the user reads")]


class OneQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """One question; without options the user answers in free text."""

    question_id: Annotated[Id, Meta(description="Names the answer; unique among the questions")]
    question: Annotated[str, Meta(min_length=1, max_length=QUESTION_CHARACTERS)]
    options: Annotated[tuple[Option, ...], Meta(min_length=1, max_length=OPTIONS)] | None = None
    multiple: Annotated[bool, Meta(description="Whether several options may be chosen")] = False


class _Questions(Struct, frozen=True, forbid_unknown_fields=True):
    questions: Annotated[tuple[OneQuestion, ...], Meta(min_length=1, max_length=QUESTIONS)]


_parse_shape = input_parser(_Questions)


def _parse(input_text: str) -> Any:
    """The questions, checked also for what a schema cannot say. Raises ToolInputError."""
    value = _parse_shape(input_text)
    for fault in _faults(value["questions"]):
        raise ToolInputError(fault)
    return value


def _faults(questions: list[dict[str, Any]]) -> Iterator[str]:
    seen: set[str] = set()
    for index, each in enumerate(questions):
        where = f"questions[{index}]"
        if each["question_id"] in seen:
            yield f"{where}.question_id: {each['question_id']!r} names an earlier question"
        seen.add(each["question_id"])
        options = each.get("options")
        if each.get("multiple") and not options:
            yield f"{where}.multiple: there are no options to choose from"
        values: set[str] = set()
        for number, option in enumerate(options or ()):
            if option["value"] in values:
                yield f"{where}.options[{number}].value: {option['value']!r} is an earlier option"
            values.add(option["value"])


def _question(input: Any) -> Question:
    """The request as it goes to clients: fields without content are left out, never null."""
    return Question(
        questions=tuple(
            {name: value for name, value in each.items() if value is not None} for each in input["questions"]
        )
    )


ask_user: Final = Tool(
    name="ask_user",
    description="Asks the user one or more questions, with options to choose from or for free text, and waits for the "
    "answers. Use it when only the user can decide.",
    input_schema=input_schema(_Questions),
    approval="never",
    timeout_seconds=ANSWER_SECONDS,
    parse=_parse,
    question=_question,
)
