"""Calls of tools as compatible servers number them, or fail to: the same calls come out (E5, P5)."""

from typing import Any

import msgspec
import pytest

from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelError, ModelEvent, StepEnd
from turnwire.models.openai_stream import ChunkReader

Map = dict[str, Any]
Call = tuple[str | None, str | None, str]
"""Id, name and input."""

PARIS, ROME = '{"city": "Paris"}', '{"city": "Rome"}'


def fragment(arguments: Any = None, *, name: str | None = None, **fields: Any) -> Map:
    """One entry of `tool_calls`; what is None is left out."""
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    return {**fields, "function": function} if function else fields


def chunk(*fragments: Map, finish: str | None = None, **delta: Any) -> Map:
    calls = {"tool_calls": list(fragments)} if fragments else {}
    return {"choices": [{"index": 0, "delta": {**delta, **calls}, "finish_reason": finish}]}


FINISH = chunk(finish="tool_calls")


def read(*chunks: Map) -> list[ModelEvent]:
    reader = ChunkReader()
    events = [event for each in chunks for event in reader.feed(msgspec.json.encode(each))]
    return events + reader.end()


def calls_of(events: list[ModelEvent]) -> list[Call]:
    """(id, name, input) of every call, in the order of their starts."""
    starts = [event for event in events if isinstance(event, BlockStart)]
    return [
        (
            start.tool_call_id,
            start.tool_name,
            "".join(event.text for event in events if isinstance(event, BlockDelta) and event.block == start.block),
        )
        for start in starts
    ]


TWO: list[Call] = [("a", "weather", PARIS), ("b", "weather", ROME)]
NO_IDS: list[Call] = [(None, "weather", PARIS), (None, "weather", ROME)]
SERVERS: dict[str, tuple[list[Map], list[Call]]] = {
    "as OpenAI does it": (
        [
            chunk(fragment("", index=0, id="a", type="function", name="weather")),
            chunk(fragment(PARIS[:5], index=0)),
            chunk(fragment(PARIS[5:], index=0)),
            chunk(fragment("", index=1, id="b", type="function", name="weather")),
            chunk(fragment(ROME, index=1)),
        ],
        TWO,
    ),
    "all in one chunk": (
        [chunk(fragment(PARIS, index=0, id="a", name="weather"), fragment(ROME, index=1, id="b", name="weather"))],
        TWO,
    ),
    "whole calls, every index 0": (
        [
            chunk(fragment(PARIS, index=0, id="a", name="weather")),
            chunk(fragment(ROME, index=0, id="b", name="weather")),
        ],
        TWO,
    ),
    "whole calls without index": (
        [chunk(fragment(PARIS, id="a", name="weather"), fragment(ROME, id="b", name="weather"))],
        TWO,
    ),
    "whole calls without id": (
        [chunk(fragment(PARIS, index=0, name="weather"), fragment(ROME, index=1, name="weather"))],
        NO_IDS,
    ),
    "whole calls without id, every index 0": (
        [chunk(fragment(PARIS, index=0, name="weather")), chunk(fragment(ROME, index=0, name="weather"))],
        NO_IDS,
    ),
    "whole calls without id and index": (
        [chunk(fragment(PARIS, name="weather")), chunk(fragment(ROME, name="weather"))],
        NO_IDS,
    ),
    "one id for all, every index 0": (
        [
            chunk(fragment(PARIS, index=0, id="x", name="weather")),
            chunk(fragment(ROME, index=0, id="x", name="weather")),
        ],
        [("x", "weather", PARIS), ("x", "weather", ROME)],
    ),
    "null and nothing for what is not there": (
        [
            chunk({"index": 0, "id": "a", "type": None, "function": {"name": "weather", "arguments": None}}),
            chunk({"index": 0, "id": None, "function": {"name": None, "arguments": PARIS}}),
            chunk({"index": 0, "id": "", "function": {"name": "", "arguments": ""}}),
            chunk({"index": 0}),
            chunk({"index": 0, "function": None}),
        ],
        [("a", "weather", PARIS)],
    ),
    "id and name in every fragment": (
        [
            chunk(fragment(PARIS[:5], index=0, id="a", name="weather")),
            chunk(fragment(PARIS[5:], index=0, id="a", name="weather")),
            chunk(fragment("", index=0, id="a", name="weather")),
        ],
        [("a", "weather", PARIS)],
    ),
    "the name in every fragment, no ids": (
        [
            chunk(fragment('{"a": {"b": 1}', index=0, name="weather")),
            chunk(fragment(', "c": {"d": 2}', index=0, name="weather")),
            chunk(fragment("}", index=0, name="weather")),
            chunk(fragment("", index=0, name="weather")),
        ],
        [(None, "weather", '{"a": {"b": 1}, "c": {"d": 2}}')],
    ),
    "the name in every fragment, and one that begins like a new input": (
        [
            chunk(fragment('{"a": ', index=0, name="weather")),
            chunk(fragment('{"b": 1}', index=0, name="weather")),
            chunk(fragment("}", index=0, name="weather")),
        ],
        [(None, "weather", '{"a": {"b": 1}}')],
    ),
    "calls without input, every index 0": (
        [chunk(fragment("", index=0, id="a", name="now")), chunk(fragment("", index=0, id="b", name="now"))],
        [("a", "now", "{}"), ("b", "now", "{}")],
    ),
    "a new id for every fragment": (
        [
            chunk(fragment("", index=0, id="r1", name="weather")),
            chunk(fragment(PARIS[:5], index=0, id="r2")),
            chunk(fragment(PARIS[5:], index=0, id="r3")),
        ],
        [("r1", "weather", PARIS)],
    ),
    "neither index nor id after the first fragment": (
        [
            chunk(fragment("", id="a", name="weather")),
            chunk(fragment(PARIS[:5])),
            chunk(fragment(PARIS[5:])),
            chunk(fragment("", id="b", name="weather")),
            chunk(fragment(ROME)),
        ],
        TWO,
    ),
    "by id alone, interleaved": (
        [
            chunk(fragment("", id="a", name="weather"), fragment("", id="b", name="weather")),
            chunk(fragment(PARIS[:5], id="a"), fragment(ROME[:5], id="b")),
            chunk(fragment(ROME[5:], id="b"), fragment(PARIS[5:], id="a")),
        ],
        TWO,
    ),
    "the name comes late": (
        [
            chunk(fragment(index=0, id="a")),
            chunk(fragment(PARIS[:5], index=0)),
            chunk(fragment(PARIS[5:10], index=0, name="weather")),
            chunk(fragment(PARIS[10:], index=0)),
        ],
        [("a", "weather", PARIS)],
    ),
    "the id comes late": (
        [chunk(fragment(PARIS[:5], index=0, name="weather")), chunk(fragment(PARIS[5:], index=0, id="a"))],
        [(None, "weather", PARIS)],
    ),
    "arguments as an object": (
        [chunk(fragment({"city": "Paris"}, id="a", name="weather"))],
        [("a", "weather", PARIS)],
    ),
    "two tools without ids and arguments": (
        [chunk(fragment(name="now"), fragment(name="today"))],
        [(None, "now", "{}"), (None, "today", "{}")],
    ),
    "one tool twice, without ids and arguments at first": (
        [
            chunk(fragment(name="weather")),
            chunk(fragment(PARIS)),
            chunk(fragment(name="weather")),
            chunk(fragment(ROME)),
        ],
        NO_IDS,
    ),
}


@pytest.mark.parametrize(("chunks", "calls"), SERVERS.values(), ids=SERVERS)
@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
def test_E5_however_a_server_numbers_its_calls(finish: str, chunks: list[Map], calls: list[Call]) -> None:
    events = read(*chunks, chunk(finish=finish))
    assert calls_of(events) == calls
    assert events[-1] == StepEnd(tuple(range(len(calls))), "tool_calls")
    assert [event.block for event in events if isinstance(event, BlockEnd)] == list(range(len(calls)))


def test_E5_text_between_fragments_stays_in_order() -> None:
    events = read(
        chunk(content="Let me "),
        chunk(content="see."),
        chunk(fragment("", index=0, id="a", name="weather")),
        chunk(fragment(PARIS[:5], index=0), content="And "),
        chunk(fragment(PARIS[5:], index=0), content="so."),
        FINISH,
    )
    assert [event for event in events if not isinstance(event, BlockDelta)] == [
        BlockStart(0, "text"),
        BlockEnd(0),
        BlockStart(1, "tool", tool_call_id="a", tool_name="weather"),
        BlockStart(2, "text"),
        BlockEnd(1),
        BlockEnd(2),
        StepEnd((0, 1, 2), "tool_calls"),
    ]
    assert [text for *_, text in calls_of(events)] == ["Let me see.", PARIS, "And so."]


def test_P5_calls_may_come_with_the_reason_to_stop() -> None:
    events = read(chunk(fragment(PARIS, index=0, id="a", name="weather"), finish="tool_calls"))
    assert calls_of(events) == [("a", "weather", PARIS)]


def test_S2_nothing_ends_before_the_model_has_stopped() -> None:
    assert BlockEnd(0) not in read(chunk(fragment(PARIS, index=0, id="a", name="weather")))


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(fragment(PARIS, index=0, id="a")), FINISH],
        [chunk(fragment(PARIS, index=0, id="a", name="")), FINISH],
        [chunk({"index": 0}), FINISH],
        [chunk(finish="tool_calls")],
        [chunk(finish="function_call")],
        [chunk(function_call={"name": "weather", "arguments": PARIS})],
        [chunk({"index": "0"})],
        [chunk({"index": 0, "id": 7})],
        [chunk({"index": 0, "function": "weather"})],
        [chunk({"index": 0, "function": {"name": 5}})],
        [chunk({"index": 0, "function": {"name": "weather", "arguments": 5}})],
        [{"choices": [{"delta": {"tool_calls": {}}}]}],
        [{"choices": [{"delta": {"tool_calls": ["weather"]}}]}],
    ],
)
def test_T5_what_is_no_call_is_a_malformed_stream(chunks: list[Map]) -> None:
    with pytest.raises(ModelError) as caught:
        read(*chunks)
    assert caught.value.code == "malformed_stream"
    assert caught.value.retryable
