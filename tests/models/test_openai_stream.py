"""Chunks to events: blocks, choices, surrogates and what servers leave out."""

from typing import Any

import msgspec
import pytest

from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelEvent, StepEnd, Usage
from turnwire.models.openai_stream import ChunkReader

STOP = {"finish_reason": "stop", "delta": {}}


def read(*chunks: dict[str, Any] | str) -> list[ModelEvent]:
    reader = ChunkReader()
    events: list[ModelEvent] = []
    for chunk in chunks:
        events += reader.feed(chunk.encode() if isinstance(chunk, str) else msgspec.json.encode(chunk))
    return events + reader.end()


def choices(*deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_E5_reasoning_is_a_block_of_its_own_each_time(name: str) -> None:
    deltas = choices({name: "a"}, {name: "b"}, {"content": "c"}, {name: "d", "content": "e"})
    assert read(*deltas, {"choices": [STOP]}) == [
        BlockStart(0, "reasoning"),
        BlockDelta(0, "a"),
        BlockDelta(0, "b"),
        BlockEnd(0),
        BlockStart(1, "text"),
        BlockDelta(1, "c"),
        BlockEnd(1),
        BlockStart(2, "reasoning"),
        BlockDelta(2, "d"),
        BlockEnd(2),
        BlockStart(3, "text"),
        BlockDelta(3, "e"),
        BlockEnd(3),
        StepEnd((0, 1, 2, 3)),
    ]


def test_S1_reasoning_under_both_names_counts_once() -> None:
    assert BlockDelta(0, "a") in read(*choices({"reasoning": "a", "reasoning_content": "a"}))
    assert len(read(*choices({"reasoning": "a", "reasoning_content": "a"}))) == 2


def test_S1_a_refusal_is_text() -> None:
    assert read(*choices({"content": "", "refusal": "No."})) == [BlockStart(0, "text"), BlockDelta(0, "No.")]


def test_S1_only_the_first_choice_counts() -> None:
    chunk = {
        "choices": [
            {"index": 1, "delta": {"content": "other"}, "finish_reason": "length"},
            {"index": 0, "delta": {"content": "mine"}},
        ]
    }
    assert read(chunk, {"choices": [{"index": 1, **STOP}]}) == [BlockStart(0, "text"), BlockDelta(0, "mine")]


@pytest.mark.parametrize(
    "nothing",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [{}]},
        {"choices": [{"index": None, "delta": None, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"content": None, "tool_calls": [], "function_call": None}}]},
        {"choices": [], "usage": None, "error": None, "x_new": [1]},
        "[DONE]",
    ],
)
def test_S1_nothing_in_any_shape_is_no_event(nothing: dict[str, Any] | str) -> None:
    assert read(nothing) == []


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("model_length", "length"),
        ("model_context_window_exceeded", "length"),
        ("sensitive", "content_filter"),
        ("content_filter", "content_filter"),
    ],
)
def test_S2_finish_reasons(said: str, reason: str) -> None:
    (end,) = read({"choices": [{"finish_reason": said}]})
    assert isinstance(end, StepEnd)
    assert end.reason == reason


def test_S2_usage_may_come_at_any_time_and_the_last_counts() -> None:
    chunks: list[dict[str, Any]] = [
        {"usage": {"prompt_tokens": 3, "completion_tokens": None}},
        {"choices": [STOP], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "details": {}}},
    ]
    assert read(*chunks) == [StepEnd((), usage=Usage(3, 4))]


def escaped(text: str) -> str:
    return '{"choices":[{"delta":{"content":"%s"}}]}' % "".join(f"\\u{ord(c):04x}" for c in text)  # noqa: UP031


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["\ud83d", "\ude80"], "🚀"),
        (["a\ud83d", "\ude80b"], "a🚀b"),
        (["\ud83d\ude80"], "🚀"),
        (["\ud83d", "\ud83d", "\ude80"], "\ufffd🚀"),
        (["\ud83d", "x"], "\ufffdx"),
        (["\ude80"], "\ufffd"),
        (["a", "\ud83d"], "a\ufffd"),
    ],
)
def test_L4_surrogates_split_between_chunks_are_joined_and_lone_ones_replaced(pieces: list[str], expected: str) -> None:
    events = read(*[escaped(piece) for piece in pieces], {"choices": [STOP]})
    deltas = [event.text for event in events if isinstance(event, BlockDelta)]
    assert "".join(deltas) == expected
    assert all(deltas)
    for delta in deltas:
        delta.encode()
