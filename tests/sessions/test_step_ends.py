"""Why a Step ended: what becomes of the reasons that providers give at the end of an answer (M7, T2, T5, S8)."""

from typing import Literal

import pytest
import trio

from sessions_world import Kinds, MakeWorld, Map, exchange, model_warnings, text_answer
from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelEvent, StepEnd
from turnwire.models.timeline import Timeline, TimelineProvider
from turnwire.tools.functions import tool
from turnwire.tools.registry import ToolRegistry


@tool
async def echo(text: str) -> str:
    """Says it again."""
    return text


Reason = Literal["stop", "length", "content_filter", "tool_calls"]


def ended(reason: Reason, *events: ModelEvent) -> Timeline:
    """A call that produces these events, and ends for this reason."""
    blocks = tuple(event.block for event in events if isinstance(event, BlockStart))
    return [(0.01 * n, event) for n, event in enumerate((*events, StepEnd(blocks, reason)), start=1)]


def text(block: int, *deltas: str) -> tuple[ModelEvent, ...]:
    return (BlockStart(block, "text"), *(BlockDelta(block, delta) for delta in deltas), BlockEnd(block))


def call(block: int, input_text: str) -> tuple[ModelEvent, ...]:
    return (BlockStart(block, "tool", tool_name="echo"), BlockDelta(block, input_text), BlockEnd(block))


def told(message: Map) -> list[tuple[str, str]]:
    """Of each Part its type, and its text, state or code."""
    names = {"text": "text", "tool": "state", "error": "code"}
    return [(part["type"], part[names[part["type"]]]) for part in message["parts"]]


async def test_T5_an_answer_that_a_filter_withheld_fails_the_turn_and_keeps_what_was_shown(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(ended("content_filter", *text(0, "I will ", "tell"))) as w:
        await w.session()
        watcher = await w.watch()
        assert await exchange(w, "x") == "failed"
        (finish,) = [each for each in watcher.mutations("turn") if each["type"] == "finish"]
        assert finish["error"]["code"] == "content_filter"
        assert [(each["code"], each["will_retry"]) for each in model_warnings(watcher)] == [("content_filter", False)]
        assert told((await w.stored())[1]) == [("text", "I will tell"), ("error", "content_filter")]
        assert watcher.view.messages == await w.stored()


async def test_T5_no_tool_of_a_filtered_answer_runs(autojump_clock: object, world: MakeWorld) -> None:
    step = ended("content_filter", *call(0, '{"text":"x"}'))
    async with world(step, tools=ToolRegistry((echo,))) as w:
        await w.session()
        assert await exchange(w, "x") == "failed"
        assert told((await w.stored())[1]) == [("tool", "failed"), ("error", "content_filter")]


async def test_M7_an_answer_that_reached_the_models_limit_says_so_to_users_and_to_the_model(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(ended("length", *text(0, "once upon")), text_answer("a time")) as w:
        await w.session()
        watcher = await w.watch()
        assert await exchange(w, "x") == "completed"
        message = (await w.stored())[1]
        assert told(message) == [("text", "once upon"), ("error", "length")]
        assert message["parts"][-1]["recoverable"]
        assert watcher.view.messages == await w.stored()
        assert await exchange(w, "go on") == "completed"
        assert isinstance(w.env.provider, TimelineProvider)
        assert "not complete" in w.env.provider.requests[-1].messages[2].text
        assert watcher.effects.count("reload") == 0


async def test_M7_an_answer_cut_before_its_first_word_is_not_silence(autojump_clock: object, world: MakeWorld) -> None:
    async with world(ended("length")) as w:
        await w.session()
        assert await exchange(w, "x") == "completed"
        assert told((await w.stored())[1]) == [("error", "length")]


async def test_P5_a_call_cut_at_the_models_limit_fails_and_whole_ones_of_the_step_run(
    autojump_clock: object, world: MakeWorld
) -> None:
    step = ended("length", *text(0, "Both."), *call(1, '{"text":"x"}'), *call(2, '{"text":"y'))
    async with world(step, text_answer("ok"), tools=ToolRegistry((echo,))) as w:
        await w.session()
        watcher = await w.watch()
        assert await exchange(w, "x") == "completed"
        (_, message) = await w.stored()
        assert told(message) == [
            ("text", "Both."),
            ("tool", "completed"),
            ("tool", "failed"),
            ("error", "length"),
            ("text", "ok"),
        ]
        assert watcher.view.messages == await w.stored()


@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
async def test_M7_an_ordinary_end_leaves_no_error(reason: Reason, autojump_clock: object, world: MakeWorld) -> None:
    async with world(ended(reason, *text(0, "done"))) as w:
        await w.session()
        assert await exchange(w, "x") == "completed"
        assert told((await w.stored())[1]) == [("text", "done")]


async def test_T5_a_title_that_a_filter_withheld_is_none(autojump_clock: object, world: MakeWorld) -> None:
    provider = Kinds(text_answer("one"), title=(ended("content_filter", *text(0, "A title that is")),))
    async with world(provider=provider, titles=True) as w:
        await w.session()
        watcher = await w.watch()
        assert await exchange(w, "x") == "completed"
        with trio.fail_after(60):
            await watcher.until(lambda: bool(watcher.mutations("warning")))
        assert [each["code"] for each in model_warnings(watcher)] == ["content_filter"]
        await trio.sleep(60)
        assert (await w.store.session("s1")).title is None
