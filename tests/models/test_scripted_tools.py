"""The scripted model with tools: what it calls, how it goes on with the results, and when it ends."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from trio.testing import MockClock

from turnwire.models.base import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    Content,
    ModelMessage,
    ModelRequest,
    StepEnd,
    TextContent,
    ToolCallContent,
    ToolResultContent,
)
from turnwire.models.scripted import ScriptedProvider, play
from turnwire.models.scripted_tools import NO_JSON, QUESTION
from turnwire.tools.base import ToolInputError
from turnwire.tools.calculator import calculator
from turnwire.tools.questions import ask_user

from .conftest import Collect

Event = BlockStart | BlockDelta | BlockEnd | StepEnd
Call = tuple[str, str]


class Step:
    """One answer, put together: its texts, its calls with their inputs, its end."""

    def __init__(self, events: Sequence[Event]) -> None:
        blocks: dict[int, tuple[BlockStart, list[str]]] = {}
        for event in events:
            if isinstance(event, BlockStart):
                blocks[event.block] = (event, [])
            elif isinstance(event, BlockDelta):
                blocks[event.block][1].append(event.text)
        (self.end,) = [event for event in events if isinstance(event, StepEnd)]
        assert events[-1] is self.end
        assert self.end.blocks == tuple(blocks)
        self.texts = ["".join(text) for start, text in blocks.values() if start.kind == "text"]
        self.calls: list[Call] = [
            (start.tool_name or "", "".join(text)) for start, text in blocks.values() if start.kind == "tool"
        ]
        self.call_ids = [start.tool_call_id for start, _ in blocks.values() if start.kind == "tool"]


class Talk:
    """A conversation in which every call gets a result, as the session loop would give it."""

    def __init__(self, *prompts: str) -> None:
        self.messages = [ModelMessage("user", (TextContent(prompt),)) for prompt in prompts]
        self.steps = 0

    def step(self, *, failed: bool = False) -> Step:
        self.steps += 1
        request = ModelRequest(model=None, messages=tuple(self.messages), key=f"step-{self.steps}")
        step = Step([move for move in play(request) if isinstance(move, Event)])
        if step.calls:
            called: list[Content] = []
            results: list[Content] = []
            for call_id, (name, text) in zip(step.call_ids, step.calls, strict=True):
                assert call_id is not None
                called.append(ToolCallContent(call_id, name, text))
                results.append(ToolResultContent(call_id, name, "no" if failed else f"of {text}", failed))
            self.messages += [ModelMessage("assistant", tuple(called)), ModelMessage("tool", tuple(results))]
        return step

    def all_steps(self) -> list[Step]:
        steps = [self.step()]
        while steps[-1].end.reason == "tool_calls":
            steps.append(self.step())
        return steps


def test_P5_tool_calls_one_tool_with_the_input_as_it_is() -> None:
    step = Talk('/tool read_file {"path":  "a b"} ').step()
    assert step.calls == [("read_file", '{"path":  "a b"}')]
    assert step.end.reason == "tool_calls"
    assert Talk("/tool clock").step().calls == [("clock", "{}")]
    assert Talk("/tool clock nonsense{").step().calls == [("clock", "nonsense{")]


async def test_P5_an_input_is_streamed_in_pieces(collect: Collect, autojump_clock: MockClock) -> None:
    request = ModelRequest(
        model=None, messages=(ModelMessage("user", (TextContent('/tool t {"a": "0123456789"}'),)),), key="k"
    )
    events = await collect(ScriptedProvider().stream(request))
    assert [(round(at, 3), event) for at, event in events[:-1]] == [
        (0.0, BlockStart(0, "tool", tool_call_id="call-k-1", tool_name="t")),
        (0.0, BlockDelta(0, '{"a": "01234')),
        (0.015, BlockDelta(0, '56789"}')),
        (0.015, BlockEnd(0)),
    ]


def test_P4_tools_are_called_at_once_with_different_inputs() -> None:
    talk = Talk("/tools 3")
    request = ModelRequest(model=None, messages=tuple(talk.messages), key="k")
    events = [move for move in play(request) if isinstance(move, Event)]
    assert [type(event) for event in events[:3]] == [BlockStart] * 3
    assert [type(event) for event in events[-4:]] == [BlockEnd] * 3 + [StepEnd]
    step = talk.step()
    assert [json.loads(text) for _, text in step.calls] == [{"expression": f"{n} * {n}"} for n in (1, 2, 3)]
    assert len(set(step.call_ids)) == 3
    (last,) = talk.all_steps()
    assert last.texts[0].startswith("That was 3 tool calls, all of them well: `calculator` gave `of {")


def test_P5_badjson_is_no_input() -> None:
    step = Talk("/badjson").step()
    assert step.calls == [("calculator", NO_JSON)]
    with pytest.raises(ToolInputError, match="not JSON"):
        calculator.parse(NO_JSON)


def test_P7_ask_asks_a_question_that_the_tool_takes() -> None:
    ((name, text),) = Talk("/ask").step().calls
    assert name == ask_user.name
    assert ask_user.parse(text) == QUESTION


@pytest.mark.parametrize("kilobytes", [1, 3, 1024])
def test_Z2_big_has_an_input_of_exactly_its_size(kilobytes: int) -> None:
    ((name, text),) = Talk(f"/big {kilobytes}").step().calls
    assert name == "write_file"
    assert len(text.encode()) == kilobytes * 1024
    assert set(json.loads(text)) == {"path", "text"}


def test_M8_step_takes_its_steps_one_by_one() -> None:
    steps = Talk("/step 3").all_steps()
    assert [step.texts for step in steps[:3]] == [[f"Step {n} of 3.\n"] for n in (1, 2, 3)]
    assert [json.loads(step.calls[0][1])["expression"] for step in steps[:3]] == ["1 + 1", "2 + 2", "3 + 3"]
    assert [step.end.reason for step in steps] == ["tool_calls"] * 3 + ["stop"]
    ids = [call_id for step in steps for call_id in step.call_ids]
    assert len(set(ids)) == 3


def test_M8_a_tool_command_ends_the_step_and_the_next_call_goes_on_after_it() -> None:
    script = "/echo one\n/tool a\n/echo two\n/echo three\n/step 2\n/tools 2\n/nothing\n/tools none\n/echo four"
    seen = [(step.texts, [name for name, _ in step.calls]) for step in Talk(script).all_steps()]
    assert seen[:4] == [
        (["one"], ["a"]),
        (["two", "three", "Step 1 of 2.\n"], ["calculator"]),
        (["Step 2 of 2.\n"], ["calculator"]),
        ([], ["calculator", "calculator"]),
    ]
    (texts, calls) = seen[4]
    assert len(seen) == 5
    assert calls == []
    assert texts[-1] == "four"
    assert "I do not know the command `/nothing`" in texts[0]
    assert "I cannot play `/tools`" in texts[1]


def test_P5_failed_results_are_spoken_of() -> None:
    talk = Talk("/tool a\n/tool `b`\n/tool c\n/tool d")
    for _ in range(3):
        talk.step(failed=True)
    talk.step()
    assert talk.step().texts == [
        "That was 4 tool calls, 3 of them failed: `a` failed with `no`; `'b'` failed with `no`; `c` failed with `no`; "
        "and 1 more.\n"
    ]


def test_P5_a_long_result_is_shortened_to_one_line() -> None:
    talk = Talk("/tool a")
    talk.step()
    result = ToolResultContent("call-step-1-1", "a", "x\n`y`\ud800" * 1_000)
    talk.messages[-1] = ModelMessage("tool", (result,))
    (text,) = talk.step().texts
    assert text.startswith("That was 1 tool call, all of them well: `a` gave `x 'y'\ufffdx ")
    assert len(text) < 120
    text.encode()


def test_T1_a_new_prompt_begins_a_new_script() -> None:
    talk = Talk("/tool a\n/tool b")
    talk.step()
    talk.messages.append(ModelMessage("user", (TextContent("/echo new\n/tool c"),)))
    step = talk.step()
    assert (step.texts, step.calls) == (["new"], [("c", "{}")])
    talk.messages.append(ModelMessage("user", (TextContent("hello"),)))
    (text,) = talk.step().texts
    assert text.startswith("Hello!")


def test_T1_results_without_a_script_change_nothing() -> None:
    talk = Talk("/echo hi")
    talk.messages.append(ModelMessage("tool", (ToolResultContent("x", "x", "x"),)))
    assert talk.step().texts == ["hi"]


def test_C2_usage_is_reported_as_told() -> None:
    step = Talk("/usage 123456").step()
    assert step.end.usage is not None
    assert step.end.usage.input_tokens == 123456
    assert step.texts == ["I report 123,456 tokens of input.\n"]


def test_T6_the_same_request_is_answered_in_the_same_way() -> None:
    def played(attempt: int) -> list[Any]:
        messages = (ModelMessage("user", (TextContent("/tools 2"),)),)
        return list(play(ModelRequest(model=None, messages=messages, key="k", attempt=attempt)))

    assert played(1) == played(2)
