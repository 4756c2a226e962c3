"""The contract of every provider for calls of tools, over real HTTP: blocks, inputs and their limits (P4, P5, Z2)."""

import json
from time import process_time

import pytest

from model_dialects import USAGE, Dialect, Provider, Script, calling
from model_service import Service
from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelEvent, StepEnd, Usage

from .conftest import Collect, MakeRequest, TextsOf


async def test_P4_a_call_of_a_tool_is_a_block_whose_deltas_are_its_input(
    dialect: Dialect, service: Service, provider: Provider, make_request: MakeRequest, collect: Collect
) -> None:
    def look_up(script: Script) -> None:
        script.text("Let me see.")
        script.call(0, "id_1", "weather")
        script.input(0, '{"city": ')
        script.input(0, '"Paris"}')
        script.finish("tool_calls")

    service.will(dialect.answer(look_up))
    assert [event for _, event in await collect(provider.stream(make_request("hi")))] == [
        BlockStart(0, "text"),
        BlockDelta(0, "Let me see."),
        BlockEnd(0),
        BlockStart(1, "tool", tool_call_id="id_1", tool_name="weather"),
        BlockDelta(1, '{"city": '),
        BlockDelta(1, '"Paris"}'),
        BlockEnd(1),
        StepEnd((0, 1), "tool_calls", Usage(*USAGE)),
    ]


async def test_E5_fragments_of_parallel_calls_may_come_in_any_order(
    dialect: Dialect,
    service: Service,
    provider: Provider,
    make_request: MakeRequest,
    collect: Collect,
    texts_of: TextsOf,
) -> None:
    inputs = ['{"n": [1, 1, 1]}', '{"n": "zwei 🚀"}', '{"n": 3}']

    def interleave(script: Script) -> None:
        for key in range(3):
            script.call(key, f"id_{key}", f"tool_{key}")
        for at in range(0, 16, 4):
            for key in (2, 0, 1):
                script.input(key, inputs[key][at : at + 4])
        script.finish("tool_calls")

    service.will(dialect.answer(interleave))
    events = await collect(provider.stream(make_request("hi")))
    assert texts_of(events) == [("tool", text) for text in inputs]
    starts = [(event.tool_call_id, event.tool_name) for _, event in events if isinstance(event, BlockStart)]
    assert starts == [(f"id_{key}", f"tool_{key}") for key in range(3)]


@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
async def test_P5_a_call_without_input_has_an_empty_object(
    reason: str,
    dialect: Dialect,
    service: Service,
    provider: Provider,
    make_request: MakeRequest,
    collect: Collect,
    texts_of: TextsOf,
) -> None:
    def call_plainly(script: Script) -> None:
        script.call(0, "id_0", "now")
        script.call(1, "id_1", "today")
        script.finish(reason)

    service.will(dialect.answer(call_plainly))
    events = await collect(provider.stream(make_request("hi")))
    assert texts_of(events) == [("tool", "{}"), ("tool", "{}")]
    end = events[-1][1]
    assert isinstance(end, StepEnd)
    assert end.reason == "tool_calls"


async def test_P5_an_input_that_was_cut_before_it_began_is_not_an_empty_object(
    dialect: Dialect,
    service: Service,
    provider: Provider,
    make_request: MakeRequest,
    collect: Collect,
    texts_of: TextsOf,
) -> None:
    def run_out(script: Script) -> None:
        script.call(0, "id_0", "delete_all")
        script.finish("length")

    service.will(dialect.answer(run_out))
    events = await collect(provider.stream(make_request("hi")))
    assert texts_of(events) == [("tool", "")]
    assert events[-1][1] == StepEnd((0,), "length", Usage(*USAGE))


@pytest.mark.parametrize("text", ['{"a": ', "[1, 2]", "nonsense", '{"a": 1}}', "\x00"])
async def test_P5_an_input_that_is_not_json_is_passed_on_as_it_is(
    text: str,
    dialect: Dialect,
    service: Service,
    provider: Provider,
    make_request: MakeRequest,
    collect: Collect,
    texts_of: TextsOf,
) -> None:
    service.will(dialect.answer(calling(("id_0", "t", text))))
    assert texts_of(await collect(provider.stream(make_request("hi")))) == [("tool", text)]


async def test_Z2_a_megabyte_of_input_arrives_whole(
    dialect: Dialect,
    service: Service,
    provider: Provider,
    make_request: MakeRequest,
    collect: Collect,
    texts_of: TextsOf,
) -> None:
    text = json.dumps({"text": "x" * 1_000_000})

    def write(script: Script) -> None:
        script.call(0, "id_0", "write")
        for start in range(0, len(text), 1000):
            script.input(0, text[start : start + 1000])
        script.finish("tool_calls")

    service.will(dialect.answer(write))
    assert texts_of(await collect(provider.stream(make_request("hi")))) == [("tool", text)]


def test_Z2_the_cost_of_an_input_is_linear(dialect: Dialect) -> None:
    def cost(fragments: int) -> float:
        script = dialect.script()
        script.begin()
        script.call(0, "id_0", "write")
        for _ in range(fragments):
            script.input(0, "some twenty letters ")
        script.finish("tool_calls")
        payloads = [json.dumps(payload).encode() for payload in script.take()]
        costs = []
        for _ in range(3):
            reader = dialect.reader()
            events: list[ModelEvent] = []
            start = process_time()
            for payload in payloads:
                events += reader.feed(payload)
            events += reader.end()
            costs.append(process_time() - start)
            assert len(events) == fragments + 3
        return min(costs)

    assert cost(40_000) < 4 * 2.5 * cost(10_000)  # quadratic would be 16 times
