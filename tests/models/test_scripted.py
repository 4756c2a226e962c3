"""The scripted model: what each command plays, when, and how it answers mistakes."""

import unicodedata
from contextlib import aclosing
from typing import Literal, get_args

import pytest
import trio
from trio.testing import MockClock

from turnwire.models.base import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    ErrorCode,
    ModelError,
    ModelMessage,
    ModelRequest,
    StepEnd,
    TextContent,
)
from turnwire.models.scripted import ScriptedProvider, play
from turnwire.models.scripted_commands import COMMANDS
from turnwire.models.scripted_texts import MARKDOWN, filler, words_of

from .conftest import Collect, MakeRequest, TextsOf

model = ScriptedProvider()


async def test_S1_stream_gives_n_deltas_at_exact_times(
    make_request: MakeRequest, collect: Collect, autojump_clock: MockClock
) -> None:
    events = await collect(model.stream(make_request("/stream 3 100")))
    assert [(round(at, 6), event) for at, event in events] == [
        (0.0, BlockStart(0, "text")),
        (0.0, BlockDelta(0, "w1 ")),
        (0.1, BlockDelta(0, "w2 ")),
        (0.2, BlockDelta(0, "w3 ")),
        (0.2, BlockEnd(0)),
        (0.2, StepEnd((0,), usage=events[-1][1].usage)),  # type: ignore[union-attr]
    ]


async def test_S1_the_default_pause_is_20_ms(
    make_request: MakeRequest, collect: Collect, autojump_clock: MockClock
) -> None:
    events = await collect(model.stream(make_request("/stream 51")))
    assert events[-1][0] == pytest.approx(1.0)


async def test_S1_a_slow_reader_does_not_stretch_the_pauses(
    make_request: MakeRequest, autojump_clock: MockClock
) -> None:
    start = trio.current_time()
    async with aclosing(model.stream(make_request("/stream 11 100"))) as events:
        async for event in events:
            if event == BlockDelta(0, "w1 "):
                await trio.sleep(0.55)
    assert trio.current_time() - start == pytest.approx(1.0)


async def test_S8_every_delta_is_a_checkpoint_even_as_fast_as_it_goes(make_request: MakeRequest) -> None:
    seen = 0
    with trio.CancelScope() as scope:
        async with aclosing(model.stream(make_request("/stream 1000 0"))) as events:
            async for event in events:
                seen += isinstance(event, BlockDelta)
                if seen == 10:
                    scope.cancel()
    assert scope.cancelled_caught
    assert seen == 10


async def test_E5_interleaved_blocks(make_request: MakeRequest, collect: Collect, texts_of: TextsOf) -> None:
    events = await collect(model.stream(make_request("/interleave 2 0")))
    assert [event for _, event in events[:-1]] == [
        BlockStart(0, "reasoning"),
        BlockStart(1, "text"),
        BlockDelta(0, "w1 "),
        BlockDelta(1, "w1 "),
        BlockDelta(0, "w2 "),
        BlockDelta(1, "w2 "),
        BlockEnd(1),
        BlockEnd(0),
    ]
    assert texts_of(events) == [("reasoning", "w1 w2 "), ("text", "w1 w2 ")]


async def test_S2_commands_play_in_order_and_step_end_names_their_blocks(
    make_request: MakeRequest, collect: Collect, texts_of: TextsOf
) -> None:
    prompt = "Please do this:\n/reason 2 0\n /echo  two  words \n/stream 1 0\nthank you"
    events = await collect(model.stream(make_request("/echo an older prompt", prompt)))
    assert texts_of(events) == [("reasoning", "w1 w2 "), ("text", "two  words"), ("text", "w1 ")]
    end = events[-1][1]
    assert isinstance(end, StepEnd)
    assert end.blocks == (0, 1, 2)
    assert end.usage is not None
    assert end.usage.output_tokens == 4


async def test_K7_silence_says_nothing_for_its_seconds(
    make_request: MakeRequest, collect: Collect, autojump_clock: MockClock
) -> None:
    events = await collect(model.stream(make_request("/silence 2.5\n/echo done")))
    assert [at for at, _ in events] == pytest.approx([2.5] * len(events))


async def test_S8_cut_ends_without_a_step_end(make_request: MakeRequest, collect: Collect) -> None:
    events = await collect(model.stream(make_request("/cut 2\n/echo never")))
    assert [event for _, event in events] == [BlockStart(0, "text"), BlockDelta(0, "w1 "), BlockDelta(0, "w2 ")]


@pytest.mark.parametrize("code", get_args(ErrorCode))
async def test_T5_fail_raises_every_code(code: ErrorCode, make_request: MakeRequest, collect: Collect) -> None:
    with pytest.raises(ModelError) as caught:
        await collect(model.stream(make_request(f"/fail {code}", attempt=99)))
    assert caught.value.code == code


async def test_T6_fail_after_text_fails_only_the_first_attempts(
    make_request: MakeRequest, collect: Collect, texts_of: TextsOf
) -> None:
    prompt = "/echo half\n/fail overloaded 2\n/echo whole"
    for attempt in (1, 2):
        with pytest.raises(ModelError, match="overloaded"):
            await collect(model.stream(make_request(prompt, attempt=attempt)))
    events = await collect(model.stream(make_request(prompt, attempt=3)))
    assert texts_of(events) == [("text", "half"), ("text", "whole")]


async def test_L4_unicode_splits_what_looks_like_one_character(
    make_request: MakeRequest, collect: Collect, texts_of: TextsOf, autojump_clock: MockClock
) -> None:
    events = await collect(model.stream(make_request("/unicode")))
    deltas = [event.text for _, event in events if isinstance(event, BlockDelta)]
    assert all(len(delta) == 1 for delta in deltas)
    assert any(unicodedata.combining(delta) for delta in deltas)
    assert "\u200d" in deltas
    assert any(ord(delta) > 0xFFFF for delta in deltas)
    texts_of(events)[0][1].encode()


async def test_X5_markdown_holds_hostile_html_as_text(
    make_request: MakeRequest, collect: Collect, texts_of: TextsOf, autojump_clock: MockClock
) -> None:
    (block,) = texts_of(await collect(model.stream(make_request("/markdown"))))
    assert block == ("text", MARKDOWN)
    assert "<script>" in MARKDOWN
    assert "![a remote image](https://" in MARKDOWN


@pytest.mark.parametrize(("size", "chunk"), [(1, 1), (1000, 1024), (1025, 1024), (5000, 7), (3000, 1000)])
def test_Z2_text_gives_exactly_its_bytes(size: int, chunk: int) -> None:
    pieces = list(filler(size, chunk))
    assert sum(len(piece.encode()) for piece in pieces) == size
    assert {len(piece) for piece in pieces[:-1]} <= {chunk}
    assert "".join(pieces) == "".join(filler(size, size))


async def test_Z2_a_megabyte_streams_at_once(make_request: MakeRequest, collect: Collect, texts_of: TextsOf) -> None:
    events = await collect(model.stream(make_request("/text 1000000")))
    assert len(texts_of(events)[0][1]) == 1_000_000
    assert sum(isinstance(event, BlockDelta) for _, event in events) == 977


@pytest.mark.parametrize(
    ("line", "clause"),
    [
        ("/stream", "N is missing"),
        ("/stream 0", "N is a whole number from 1 to"),
        ("/stream -1", "N is a whole number from 1 to"),
        ("/stream ٣", "N is a whole number from 1 to"),
        ("/stream 1e3", "N is a whole number from 1 to"),
        ("/stream 99999999999999999999", "N is a whole number from 1 to"),
        ("/stream 5 60001", "MS is a whole number from 0 to 60,000"),
        ("/stream 5 1 1", "too many arguments"),
        ("/help me", "too many arguments"),
        ("/silence nan", "SECONDS is a number from 0 to"),
        ("/silence soon", "SECONDS is a number from 0 to"),
        ("/silence -0.1", "SECONDS is a number from 0 to"),
        ("/fail fire", "CODE is one of timeout, connection"),
        ("/fail timeout 0", "TIMES is a whole number from 1"),
        ("/echo", "TEXT is missing"),
    ],
)
def test_T2_a_mistake_is_answered_with_the_usage(
    line: str, clause: str, make_request: MakeRequest, texts_of: TextsOf
) -> None:
    name = line.split()[0][1:]
    (block,) = texts_of(_events(make_request(line)))
    assert clause in block[1]
    assert f"`{COMMANDS[name].usage}`" in block[1]


@pytest.mark.parametrize("line", ["/nothing", "/", "/ stream 3", "/Help", "/usr/bin/env python", "/`" + "x" * 500])
def test_T2_an_unknown_command_is_answered_with_a_pointer_to_help(
    line: str, make_request: MakeRequest, texts_of: TextsOf
) -> None:
    (block,) = texts_of(_events(make_request(line)))
    assert "/help" in block[1]
    assert block[1].count("`") == 4
    assert len(block[1]) < 200


def test_T2_help_lists_every_command(make_request: MakeRequest, texts_of: TextsOf) -> None:
    (block,) = texts_of(_events(make_request("/help")))
    for command in COMMANDS.values():
        assert f"| `{command.usage}` | {command.sentence} |" in block[1]
    assert "`/stream N [MS]`" in block[1]
    assert "`/fail CODE [TIMES]`" in block[1]


async def test_T2_a_prompt_without_commands_gets_a_deterministic_answer(
    make_request: MakeRequest, collect: Collect, texts_of: TextsOf, autojump_clock: MockClock
) -> None:
    first = await collect(model.stream(make_request("hi", "What is a turn, wonderfully?")))
    second = await collect(model.stream(make_request("hi", "What is a turn, wonderfully?")))
    assert [event for _, event in first] == [event for _, event in second]
    text = texts_of(first)[0][1]
    assert "answer 2 of" in text
    assert "**5 words**" in text
    assert "`wonderfully?`" in text
    deltas = sum(isinstance(event, BlockDelta) for _, event in first)
    assert first[-1][0] == pytest.approx((deltas - 1) * 0.015)


@pytest.mark.parametrize("prompt", ["", " \n ", "\ud800", "x" * 10_000, "`" * 50])
def test_T2_odd_prompts_get_an_answer_that_can_be_sent(
    prompt: str, make_request: MakeRequest, texts_of: TextsOf
) -> None:
    (block,) = texts_of(_events(make_request(prompt)))
    block[1].encode()
    assert len(block[1]) < 500


def test_T2_a_request_without_user_messages_gets_an_answer(texts_of: TextsOf) -> None:
    request = ModelRequest(model=None, messages=(ModelMessage("system", (TextContent("/echo no"),)),), key="k")
    assert "0 words" in texts_of(_events(request))[0][1]


def test_P3_a_command_counts_only_at_the_start_of_a_line_of_one_text(texts_of: TextsOf) -> None:
    content = (TextContent("see"), TextContent("/echo yes"), TextContent("and a /echo no"))
    request = ModelRequest(model=None, messages=(ModelMessage("user", content),), key="k")
    assert texts_of(_events(request)) == [("text", "yes")]


@pytest.mark.parametrize("text", ["", " ", "a", "a b", "\n\n a\t b  \n", MARKDOWN])
def test_L4_words_join_to_the_text(text: str) -> None:
    assert "".join(words_of(text)) == text


def _events(request: ModelRequest) -> list[tuple[float, BlockStart | BlockDelta | BlockEnd | StepEnd]]:
    return [(0.0, move) for move in play(request) if isinstance(move, BlockStart | BlockDelta | BlockEnd | StepEnd)]


@pytest.mark.parametrize(
    ("told", "title"),
    [
        ("<conversation>User: plan a trip to Rome in May please\nAssistant: yes\nUser: no", "Plan a trip to rome in"),
        ("<conversation>User: /stream 20\n", "Stream 20"),
        ("<conversation>Assistant: hm\n", "A conversation"),
        ("User: \ud800", "\ufffd"),
        ("<conversation>User: /echo hi\n/title Trip to Rome \nAssistant: hi", "Trip to Rome"),
        ("<conversation>User: /title A b", "A b"),
    ],
)
def test_L3_a_title_is_made_of_the_first_words(told: str, title: str, texts_of: TextsOf) -> None:
    assert texts_of(_events(_about("title", told))) == [("text", title)]


def test_C2_a_summary_is_made_of_the_first_and_last_words(texts_of: TextsOf) -> None:
    told = "<transcript>User: a\nAssistant: b\nUser: /fail auth\n</transcript>"
    (block,) = texts_of(_events(_about("compaction", told)))
    assert block[1] == "The user spoke 2 times, from `a` to `/fail auth`."
    assert texts_of(_events(_about("compaction", ""))) == [("text", "The user said nothing so far.")]


def _about(kind: Literal["title", "compaction"], told: str) -> ModelRequest:
    messages = (ModelMessage("user", (TextContent(told), TextContent("And?"))),)
    return ModelRequest(model=None, messages=messages, key="k", kind=kind)
