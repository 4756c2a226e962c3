"""Events of the Messages API: what is skipped, what is counted, and what is refused."""

from typing import Any

import msgspec
import pytest

from turnwire.models.anthropic_stream import EventReader
from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelError, ModelEvent, StepEnd, Usage

Map = dict[str, Any]


def read(*events: Map) -> list[ModelEvent]:
    reader = EventReader()
    read = [each for event in events for each in reader.feed(msgspec.json.encode(event))]
    return read + reader.end()


def start(index: int, **block: Any) -> Map:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **delta: Any) -> Map:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: int) -> Map:
    return {"type": "content_block_stop", "index": index}


def finish(reason: str | None, **usage: int) -> Map:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage or None}


def test_S1_what_is_not_known_is_skipped() -> None:
    events = read(
        {"type": "message_start", "message": {"id": "m", "usage": None, "new": [1]}},
        {"type": "ping"},
        {"type": "a_new_event", "index": 0, "delta": {"type": "text_delta", "text": "x"}},
        start(0, type="server_tool_use", id="s", name="web_search", input={}),
        delta(0, type="input_json_delta", partial_json="{}"),
        stop(0),
        start(1, type="web_search_tool_result", tool_use_id="s", content=[]),
        stop(1),
        start(2, type="redacted_thinking", data="abc"),
        stop(2),
        start(3, type="thinking", thinking="", signature=""),
        delta(3, type="signature_delta", signature="abc"),
        stop(3),
        start(4, type="text", text=""),
        delta(4, type="citations_delta", citation={"type": "char_location"}),
        delta(4, type="text_delta", text="Yes"),
        delta(4, type="a_new_delta", text="x"),
        stop(4),
        finish("end_turn"),
        {"type": "message_stop"},
    )
    assert events == [BlockStart(0, "text"), BlockDelta(0, "Yes"), BlockEnd(0), StepEnd((0,))]


def test_S1_text_may_come_with_the_start_of_its_block() -> None:
    events = read(start(0, type="text", text="a"), delta(0, type="text_delta", text="b"), finish("end_turn"))
    assert [event.text for event in events if isinstance(event, BlockDelta)] == ["a", "b"]
    assert BlockDelta(0, "why") in read(start(0, type="thinking", thinking="why"))


def test_P5_an_input_may_come_with_the_start_of_its_block() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}
    events = read(start(0, **block), stop(0), finish("tool_use"))
    assert events[1:] == [BlockDelta(0, '{"a": 1}'), BlockEnd(0), StepEnd((0,), "tool_calls")]


def test_P5_a_call_ends_with_its_block() -> None:
    call = start(0, type="tool_use", id="t1", name="add", input={})
    assert read(call, delta(0, type="input_json_delta", partial_json="{}"), stop(0)) == [
        BlockStart(0, "tool", tool_call_id="t1", tool_name="add"),
        BlockDelta(0, "{}"),
        BlockEnd(0),
    ]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("something_new", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
    ],
)
def test_S2_reasons_to_stop(said: str, reason: str) -> None:
    (end,) = read(finish(said))
    assert isinstance(end, StepEnd)
    assert end.reason == reason


def test_S2_a_message_delta_without_a_reason_is_no_end() -> None:
    assert read(finish(None), {"type": "message_delta", "delta": None}, {"type": "message_stop"}) == []


def test_S2_counts_are_cumulative_and_the_cache_counts_as_input() -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 10, "cache_creation_input_tokens": None, "output_tokens": 1}
    begin = {"type": "message_start", "message": {"usage": usage}}
    assert read(begin, finish("end_turn", output_tokens=7)) == [StepEnd((), usage=Usage(13, 7))]
    assert read(begin, finish("end_turn", input_tokens=4, output_tokens=7)) == [StepEnd((), usage=Usage(14, 7))]
    assert read(finish("end_turn")) == [StepEnd(())]


@pytest.mark.parametrize(
    "events",
    [
        [{}],
        [{"type": None}],
        [{"type": "content_block_start", "index": 0}],
        [{"type": "content_block_start", "content_block": {"type": "text", "text": ""}}],
        [start(0, text="")],
        [start(0, type="text", text=5)],
        [start(0, type="text", text=""), start(0, type="text", text="")],
        [start(0, type="tool_use", id="t", input={})],
        [start("0", type="text")],  # type: ignore[arg-type]
        [delta(0, type="text_delta", text="a")],
        [start(0, type="text", text=""), delta(1, type="text_delta", text="a")],
        [start(0, type="text", text=""), stop(0), delta(0, type="text_delta", text="a")],
        [start(0, type="text", text=""), delta(0, type="text_delta", text=["a"])],
        [start(0, type="tool_use", id="t", name="n"), delta(0, type="input_json_delta", partial_json={})],
        [stop(0)],
        [{"type": "content_block_stop"}],
        [finish("tool_use")],
    ],
)
def test_T5_what_contradicts_the_format_is_a_malformed_stream(events: list[Map]) -> None:
    with pytest.raises(ModelError) as caught:
        read(*events)
    assert caught.value.code == "malformed_stream"
    assert caught.value.retryable


@pytest.mark.parametrize("error", [{"type": "overloaded_error", "message": "Overloaded"}, "words", None])
def test_T5_an_error_event_ends_the_stream(error: Any) -> None:
    with pytest.raises(ModelError) as caught:
        read({"type": "error", "error": error})
    assert caught.value.code == ("overloaded" if isinstance(error, dict) else "internal")
