"""The OpenAI-compatible provider against a real HTTP service: answers, cuts, silence, failures, and closing."""

import json
from contextlib import aclosing, suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from turnwire.models.base import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    FileContent,
    ModelError,
    ModelMessage,
    ModelRequest,
    StepEnd,
    TextContent,
    Usage,
)
from turnwire.models.openai import OpenAIProvider
from turnwire.models.timeouts import with_timeouts

from .conftest import Collect, MakeRequest, TextsOf
from .service import Exchange, Service

PATIENCE = 30.0
"""Seconds after which a test that waits for the other side has failed."""


async def answer(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.delta(role="assistant", content="")
    await exchange.delta(content="Hello ")
    await exchange.send(b": keep-alive\n\n")
    await exchange.delta(content="world")
    await exchange.delta(finish_reason="stop")
    await exchange.event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}})
    await exchange.event("[DONE]")
    await exchange.finish()


async def test_S1_an_answer_becomes_one_block(
    service: Service, provider: OpenAIProvider, make_request: MakeRequest, collect: Collect
) -> None:
    service.will(answer)
    assert [event for _, event in await collect(provider.stream(make_request("hi")))] == [
        BlockStart(0, "text"),
        BlockDelta(0, "Hello "),
        BlockDelta(0, "world"),
        BlockEnd(0),
        StepEnd((0,), "stop", Usage(7, 2)),
    ]


async def test_C1_the_request_says_what_was_asked(service: Service, provider: OpenAIProvider, collect: Collect) -> None:
    service.will(answer, answer)
    messages = (
        ModelMessage("system", (TextContent("Be brief."),)),
        ModelMessage("user", (TextContent("a"), TextContent("b \ud800"))),
        ModelMessage("assistant", (TextContent("c"),)),
        ModelMessage(
            "user",
            (
                TextContent("look"),
                FileContent("https://example.org/a.png", "image/png"),
                FileContent("data:application/pdf;base64,AAAA", "application/pdf", "a.pdf"),
                FileContent("https://example.org/b.pdf", "application/pdf", "b.pdf"),
            ),
        ),
    )
    await collect(provider.stream(ModelRequest(model=None, messages=messages, key="k")))
    await collect(provider.stream(ModelRequest(model="other", messages=messages[:1], key="k")))
    first, second = service.exchanges
    assert first.target == "/v1/chat/completions"
    assert first.headers["authorization"] == "Bearer sk-secret-1234"
    assert first.body == {
        "model": "test-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "a\nb \ufffd"},
            {"role": "assistant", "content": "c"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                    {
                        "type": "file",
                        "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
                    },
                    {"type": "text", "text": "[b.pdf (application/pdf): https://example.org/b.pdf]"},
                ],
            },
        ],
    }
    assert second.body["model"] == "other"


async def test_S1_calls_in_sequence_share_one_connection(
    service: Service, provider: OpenAIProvider, make_request: MakeRequest, collect: Collect
) -> None:
    service.will(answer, answer, answer)
    for _ in range(3):
        await collect(provider.stream(make_request("hi")))
    assert service.connections == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_L4_characters_split_between_network_packets_are_whole(
    size: int,
    service: Service,
    provider: OpenAIProvider,
    make_request: MakeRequest,
    collect: Collect,
    texts_of: TextsOf,
) -> None:
    text = "a🚀é👨‍👩‍👧\u2028ü"

    async def split(exchange: Exchange) -> None:
        await exchange.start()
        chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
        data = f"data: {json.dumps(chunk, ensure_ascii=False)}\r\n\r\ndata: [DONE]\r\n\r\n".encode()
        for start in range(0, len(data), size):
            await exchange.send(data[start : start + size])
            await wait_all_tasks_blocked()
        await exchange.finish()

    service.will(split)
    assert texts_of(await collect(provider.stream(make_request("hi")))) == [("text", text)]


async def test_S8_a_cut_connection_keeps_the_text_so_far(
    service: Service, provider: OpenAIProvider, make_request: MakeRequest
) -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.delta(content="half")
        await exchange.cut()

    service.will(cut)
    async with aclosing(provider.stream(make_request("hi"))) as events:
        assert await anext(events) == BlockStart(0, "text")
        assert await anext(events) == BlockDelta(0, "half")
        with pytest.raises(ModelError) as caught:
            await anext(events)
    assert caught.value.code == "cut_stream"
    assert caught.value.retryable


@pytest.mark.parametrize("done", [True, False])
async def test_S8_an_answer_without_a_finish_reason_was_cut(
    done: bool, service: Service, provider: OpenAIProvider, make_request: MakeRequest, collect: Collect
) -> None:
    async def end_early(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.delta(content="half")
        if done:
            await exchange.event("[DONE]")
        await exchange.finish()

    service.will(end_early, end_early)
    events = await collect(provider.stream(make_request("hi")))
    assert [event for _, event in events] == [BlockStart(0, "text"), BlockDelta(0, "half")]
    with pytest.raises(ModelError, match="before the model had finished"):
        await collect(with_timeouts(provider.stream(make_request("hi"))))


async def test_S8_a_finished_answer_needs_nothing_more(
    service: Service, provider: OpenAIProvider, make_request: MakeRequest, collect: Collect
) -> None:
    async def hang_up(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.delta(content="all", finish_reason="length")
        await exchange.cut()

    async def linger(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.delta(content="all", finish_reason="length")
        await exchange.event("[DONE]")
        await exchange.hung_up()

    service.will(hang_up, linger)
    for _ in range(2):
        with trio.fail_after(PATIENCE):
            events = await collect(provider.stream(make_request("hi")))
        assert [event for _, event in events[-2:]] == [BlockEnd(0), StepEnd((0,), "length")]


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_T3_cancel_and_close_end_the_request_at_once(
    how: str, service: Service, provider: OpenAIProvider, make_request: MakeRequest
) -> None:
    hung_up = trio.Event()

    async def fall_silent(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.delta(content="a")
        await exchange.hung_up()
        hung_up.set()

    service.will(fall_silent)
    with trio.CancelScope() as scope:
        async with aclosing(provider.stream(make_request("hi"))) as events:
            assert await anext(events) == BlockStart(0, "text")
            assert await anext(events) == BlockDelta(0, "a")
            if how == "cancel":
                scope.cancel()
                await anext(events)
    assert scope.cancelled_caught == (how == "cancel")
    with trio.fail_after(PATIENCE):
        await hung_up.wait()


async def test_T3_a_service_that_never_answers_can_be_left(
    service: Service, provider: OpenAIProvider, make_request: MakeRequest
) -> None:
    asked, hung_up = trio.Event(), trio.Event()

    async def say_nothing(exchange: Exchange) -> None:
        asked.set()
        await exchange.hung_up()
        hung_up.set()

    async def ask() -> None:
        async with aclosing(provider.stream(make_request("hi"))) as events:
            await anext(events)

    service.will(say_nothing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await asked.wait()
        nursery.cancel_scope.cancel()
    with trio.fail_after(PATIENCE):
        await hung_up.wait()


async def test_K7_keep_alives_do_not_reset_the_idle_limit(
    service: Service, provider: OpenAIProvider, make_request: MakeRequest, collect: Collect
) -> None:
    kept_alive = 0

    async def keep_alive(exchange: Exchange) -> None:
        nonlocal kept_alive
        await exchange.start()
        await exchange.delta(content="a")
        with suppress(trio.BrokenResourceError):  # the client has hung up
            while True:
                await exchange.send(b": keep-alive\n\n")
                await exchange.delta(content="")
                kept_alive += 1
                await trio.sleep(0.01)

    service.will(keep_alive)
    with pytest.raises(ModelError, match="sent nothing more"), trio.fail_after(PATIENCE):
        await collect(with_timeouts(provider.stream(make_request("hi")), idle=0.2))
    assert kept_alive > 0
