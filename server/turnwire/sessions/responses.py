"""Responses to Interactions: whether one fits what the user was asked, and what it means (P7).

Plain functions. Whether a response still counts is `interactions`.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from turnwire_protocol.codec import convert
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import ApprovalResponse, QuestionResponse
from turnwire_protocol.parts import InteractionPart, InteractionStatus


def checked(part: InteractionPart, response: Any) -> tuple[InteractionStatus, dict[str, Any]]:
    """What the response means, and its plain form. Raises RequestError `invalid_argument` naming the field."""
    if part.interaction_type == "approval":
        approval: ApprovalResponse = convert(response, ApprovalResponse, path="response")
        return ("denied" if approval.decision == "denied" else "resolved"), msgspec.to_builtins(approval)
    answers: QuestionResponse = convert(response, QuestionResponse, path="response")
    asked = {question["question_id"]: question for question in part.request["questions"]}
    for question_id in sorted(asked.keys() ^ answers.answers.keys()):
        raise _refused(f".{question_id}", "is required" if question_id in asked else "was not asked")
    for question_id, answer in answers.answers.items():
        for where, fault in _faults(asked[question_id], answer):
            raise _refused(f".{question_id}{where}", fault)
    return "resolved", msgspec.to_builtins(answers)


def _faults(question: dict[str, Any], answer: str | list[str]) -> Iterator[tuple[str, str]]:
    """Where and why the answer is none to this question."""
    options = question.get("options")
    multiple = bool(options) and bool(question.get("multiple"))
    if isinstance(answer, list) is not multiple:
        yield "", "expected a list of options" if multiple else "expected one answer"
        return
    if not options:
        return
    values = {option["value"] for option in options}
    for place, value in enumerate(answer) if isinstance(answer, list) else [(None, answer)]:
        where = "" if place is None else f"[{place}]"
        if value not in values:
            yield where, "is not one of the options, or was named before"
        values.discard(value)


def _refused(where: str, fault: str) -> RequestError:
    field = f"response.answers{where}"
    return RequestError("invalid_argument", f"{field}: {fault}", field=field)
