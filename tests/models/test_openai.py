"""The OpenAI-compatible provider against a real HTTP service: answers, cuts, silence, failures, and closing."""

import json
from contextlib import aclosing
from email.utils import formatdate
from typing import Any

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

PATIENCE = 5.0
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
        async with trio.open_nursery() as nursery:

            async def ping() -> None:
                nonlocal kept_alive
                while True:
                    await exchange.send(b": keep-alive\n\n")
                    await exchange.delta(content="")
                    kept_alive += 1
                    await trio.sleep(0.01)

            nursery.start_soon(ping)
            await exchange.hung_up()
            nursery.cancel_scope.cancel()

    service.will(keep_alive)
    with pytest.raises(ModelError, match="sent nothing more"), trio.fail_after(PATIENCE):
        await collect(with_timeouts(provider.stream(make_request("hi")), idle=0.2))
    assert kept_alive > 3


CONTEXT = {"error": {"message": "This model's maximum context length is 8 tokens.", "code": "context_length_exceeded"}}
LLAMA_CONTEXT = {"error": {"code": 400, "message": "request exceeds it", "type": "exceed_context_size_error"}}
FILTER = {"error": {"message": "The response was filtered", "code": "content_filter"}}
QUOTA = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
KEY = {"error": {"message": "Incorrect API key provided: sk-secret-1234", "code": "invalid_api_key"}}


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable"),
    [
        (400, CONTEXT, "context_length", False),
        (400, LLAMA_CONTEXT, "context_length", False),
        (500, LLAMA_CONTEXT, "context_length", False),
        (400, FILTER, "content_filter", False),
        (400, {"error": {"message": "unknown field"}}, "invalid_request", False),
        (400, {"detail": [1]}, "invalid_request", False),
        (404, {"error": {"message": "no such model", "code": "model_not_found"}}, "invalid_request", False),
        (413, "too large", "invalid_request", False),
        (422, "", "invalid_request", False),
        (401, KEY, "auth", False),
        (403, KEY, "auth", False),
        (408, "", "timeout", True),
        (429, {"error": "slow down"}, "rate_limited", True),
        (429, QUOTA, "rate_limited", False),
        (500, "<html>oops</html>", "internal", True),
        (502, "", "internal", True),
        (503, {"error": {"message": "Loading model", "code": 503}}, "overloaded", True),
        (504, "", "timeout", True),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded", True),
    ],
)
async def test_T5_http_errors_are_classified(
    status: int,
    body: Any,
    code: str,
    retryable: bool,
    service: Service,
    provider: OpenAIProvider,
    make_request: MakeRequest,
    collect: Collect,
) -> None:
    service.will(lambda exchange: exchange.respond(status, body))
    with pytest.raises(ModelError) as caught:
        await collect(provider.stream(make_request("hi")))
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert "secret" not in caught.value.message
    assert len(service.exchanges) == 1, "the SDK must not retry"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry_after": "3"}, 3000),
        ({"retry_after": "0.25"}, 250),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1500),
        ({"retry_after": formatdate(1_000_030, usegmt=True)}, 30_000),
        ({"retry_after": formatdate(999_000, usegmt=True)}, 0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-1"}, None),
        ({"retry_after": "nan"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_T5_the_wish_to_be_asked_later_is_passed_on(
    status: int,
    headers: dict[str, str],
    expected: int | None,
    service: Service,
    provider: OpenAIProvider,
    make_request: MakeRequest,
    collect: Collect,
) -> None:
    service.will(lambda exchange: exchange.respond(status, "later", **headers))
    with pytest.raises(ModelError) as caught:
        await collect(provider.stream(make_request("hi")))
    assert caught.value.retry_after_ms == expected


@pytest.mark.parametrize(
    ("event", "code", "retryable"),
    [
        ({"error": {"message": "boom", "type": "server_error"}}, "internal", True),
        ({"error": {"message": "slow", "code": "rate_limit_exceeded"}}, "rate_limited", True),
        ({"error": {"message": "Overloaded", "type": "overloaded_error"}}, "overloaded", True),
        ({"error": {"message": "bad gateway", "code": 502}}, "internal", True),
        ({"error": {"message": "full", "code": 503}}, "overloaded", True),
        ({"error": CONTEXT["error"]}, "context_length", False),
        ({"error": FILTER["error"]}, "content_filter", False),
        ({"error": "plain words"}, "internal", True),
        ("not json", "malformed_stream", True),
        ("[1, 2]", "malformed_stream", True),
        ('{"choices": 5}', "malformed_stream", True),
        ('{"choices": [{"delta": {"content": 5}}]}', "malformed_stream", True),
        ('{"choices": [{"delta": {"content": "\\ud800"', "malformed_stream", True),
        ("[" * 100_000, "malformed_stream", True),
        ('{"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}', "malformed_stream", True),
        ('{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}', "malformed_stream", True),
        ('{"choices": [{"delta": {}, "finish_reason": "error"}]}', "internal", True),
    ],
)
async def test_T5_failures_in_mid_stream_are_classified(
    event: Any,
    code: str,
    retryable: bool,
    service: Service,
    provider: OpenAIProvider,
    make_request: MakeRequest,
    collect: Collect,
) -> None:
    async def fail(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.delta(content="half")
        await exchange.event(event)
        await exchange.hung_up()

    service.will(fail)
    with pytest.raises(ModelError) as caught, trio.fail_after(PATIENCE):
        await collect(provider.stream(make_request("hi")))
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert len(caught.value.message) < 500


async def test_T5_an_answer_that_is_no_stream_is_malformed(
    service: Service, provider: OpenAIProvider, make_request: MakeRequest, collect: Collect
) -> None:
    service.will(lambda exchange: exchange.respond(200, {"choices": []}))
    with pytest.raises(ModelError, match="instead of an event stream") as caught:
        await collect(provider.stream(make_request("hi")))
    assert caught.value.code == "malformed_stream"


async def test_T5_no_one_listening_is_a_connection_failure(make_request: MakeRequest, collect: Collect) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    provider = OpenAIProvider("m", base_url=f"http://127.0.0.1:{port}/v1")
    with pytest.raises(ModelError) as caught:
        await collect(provider.stream(make_request("hi")))
    await provider.aclose()
    assert caught.value.code == "connection"
    assert caught.value.retryable


async def test_T5_hanging_up_before_the_answer_is_a_connection_failure(
    service: Service, provider: OpenAIProvider, make_request: MakeRequest, collect: Collect
) -> None:
    service.will(Exchange.cut)
    with pytest.raises(ModelError) as caught:
        await collect(provider.stream(make_request("hi")))
    assert caught.value.code == "connection"
