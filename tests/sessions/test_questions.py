"""Answers to questions: what counts as one (P7)."""

from typing import Any

import msgspec
import pytest

from sessions_world import MakeWorld, text_answer, tool_calls
from turnwire.tools.questions import ask_user
from turnwire.tools.registry import ToolRegistry
from turnwire_protocol.codes import RequestError

OPTIONS = [{"value": "r", "label": "Red"}, {"value": "g", "label": "Green"}]
QUESTIONS = {
    "questions": [
        {"question_id": "one", "question": "Which?", "options": OPTIONS},
        {"question_id": "some", "question": "Which ones?", "options": OPTIONS, "multiple": True},
        {"question_id": "free", "question": "Why?"},
    ]
}
GOOD: dict[str, Any] = {"one": "g", "some": ["g", "r"], "free": "Because."}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"one": "blue"}, "response.answers.one"),
        ({"one": "Red"}, "response.answers.one"),
        ({"one": ["r"]}, "response.answers.one"),
        ({"one": ""}, "response.answers.one"),
        ({"some": ["g", "blue"]}, "response.answers.some[1]"),
        ({"some": ["g", "g"]}, "response.answers.some[1]"),
        ({"some": "g"}, "response.answers.some"),
        ({"free": ["a", "b"]}, "response.answers.free"),
    ],
)
async def test_P7_an_answer_that_was_no_option_is_refused_and_changes_nothing(
    wrong: dict[str, Any], field: str, autojump_clock: object, world: MakeWorld
) -> None:
    step = tool_calls(("ask_user", msgspec.json.encode(QUESTIONS).decode()))
    async with world(step, text_answer("ok"), tools=ToolRegistry((ask_user,))) as w:
        await w.session()
        watcher = await w.watch()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            await watcher.until(lambda: bool(watcher.view.interactions))
            (card,) = watcher.view.interactions
            before = await w.stored()
            with pytest.raises(RequestError) as refused:
                await session.respond(
                    card["interaction_id"], revision=card["revision"], response={"answers": {**GOOD, **wrong}}
                )
            assert (refused.value.code, refused.value.field) == ("invalid_argument", field)
            assert await w.stored() == before
            await session.respond(card["interaction_id"], revision=card["revision"], response={"answers": GOOD})
            assert (await turn.finished()).status == "completed"
        (tool,) = [part for part in (await w.stored())[1]["parts"] if part["type"] == "tool"]
        assert (tool["state"], tool["output"]) == ("completed", GOOD)


async def test_P7_of_several_options_none_may_be_right(autojump_clock: object, world: MakeWorld) -> None:
    step = tool_calls(("ask_user", msgspec.json.encode(QUESTIONS).decode()))
    async with world(step, text_answer("ok"), tools=ToolRegistry((ask_user,))) as w:
        await w.session()
        watcher = await w.watch()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            await watcher.until(lambda: bool(watcher.view.interactions))
            (card,) = watcher.view.interactions
            answers = {**GOOD, "some": []}
            await session.respond(card["interaction_id"], revision=card["revision"], response={"answers": answers})
            assert (await turn.finished()).status == "completed"
