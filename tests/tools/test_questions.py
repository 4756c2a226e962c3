"""The tool that asks the user: what may be asked, and what clients are shown."""

import json
from typing import Any

import pytest

from turnwire.tools.base import Question, ToolInputError
from turnwire.tools.questions import OPTIONS, QUESTION_CHARACTERS, QUESTIONS, ask_user


def one(**changes: Any) -> dict[str, Any]:
    return {"question_id": "q1", "question": "Which?", **changes}


def options(*values: str) -> list[dict[str, str]]:
    return [{"value": value, "label": value.title()} for value in values]


def asked(*questions: Any) -> Question:
    assert ask_user.question is not None
    return ask_user.question(ask_user.parse(json.dumps({"questions": questions})))


def test_P7_questions_become_a_request_for_clients() -> None:
    assert asked(
        one(options=options("a", "b"), multiple=True), one(question_id="q2", options=None), one(question_id="q3")
    ) == Question(
        questions=(
            {"question_id": "q1", "question": "Which?", "options": options("a", "b"), "multiple": True},
            {"question_id": "q2", "question": "Which?"},
            {"question_id": "q3", "question": "Which?"},
        )
    )


@pytest.mark.parametrize(
    ("questions", "error"),
    [
        ([], "questions: expected a list of length >= 1"),
        (
            [one(question_id=f"q{number}") for number in range(QUESTIONS + 1)],
            "questions: expected a list of length <= 10",
        ),
        ([{"question": "Which?"}], "questions[0].question_id: is required"),
        ([{"question_id": "q1"}], "questions[0].question: is required"),
        ([one(question="")], "questions[0].question: expected a string of length >= 1"),
        ([one(question="x" * (QUESTION_CHARACTERS + 1))], "questions[0].question: expected a string of length <= 2000"),
        ([one(question_id="a b")], "questions[0].question_id: expected a string matching regex"),
        ([one(options=[])], "questions[0].options: expected a list of length >= 1"),
        (
            [one(options=options(*map(str, range(OPTIONS + 1))))],
            "questions[0].options: expected a list of length <= 20",
        ),
        ([one(options=["a"])], "questions[0].options[0]: expected a map, got a string"),
        ([one(options=[{"value": "a"}])], "questions[0].options[0].label: is required"),
        ([one(secret=True)], "questions[0].secret: unknown field"),
        ([one(), one()], "questions[1].question_id: 'q1' names an earlier question"),
        ([one(multiple=True)], "questions[0].multiple: there are no options"),
        ([one(options=options("a", "a"))], "questions[0].options[1].value: 'a' is an earlier option"),
    ],
)
def test_P7_a_bad_question_is_refused_with_its_place(questions: list[Any], error: str) -> None:
    with pytest.raises(ToolInputError) as caught:
        asked(*questions)
    assert error in str(caught.value)


def test_P7_the_model_is_told_what_a_question_is() -> None:
    schema = ask_user.input_schema
    assert schema["required"] == ["questions"]
    assert set(schema["$defs"]) == {"OneQuestion", "Option"}
    assert ask_user.run is None
