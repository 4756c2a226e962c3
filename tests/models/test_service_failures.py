"""The contract of every provider for failures: what a service answers, sends or fails to send, classified (T5)."""

from email.utils import formatdate

import pytest
import trio

from model_dialects import Dialect, Script
from model_service import Exchange
from turnwire.models.base import ModelError

from .conftest import Collect, Failure, MakeRequest


@pytest.mark.parametrize(
    ("status", "type_", "message", "code", "retryable"),
    [
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", "context_length", False),
        (400, "invalid_request_error", "max_tokens: must be greater", "invalid_request", False),
        (401, "authentication_error", "invalid key: my secret words", "auth", False),
        (402, "billing_error", "pay first", "invalid_request", False),
        (403, "permission_error", "not for sk-secret-1234", "auth", False),
        (404, "not_found_error", "model: nope", "invalid_request", False),
        (413, "request_too_large", "too large", "invalid_request", False),
        (429, "rate_limit_error", "slow down", "rate_limited", True),
        (500, "api_error", "Internal server error", "internal", True),
        (503, "overloaded_error", "busy", "overloaded", True),
        (504, "timeout_error", "too slow", "timeout", True),
        (529, "overloaded_error", "Overloaded", "overloaded", True),
    ],
)
async def test_T5_http_errors_are_classified(
    status: int,
    type_: str,
    message: str,
    code: str,
    retryable: bool,
    dialect: Dialect,
    failure: Failure,
) -> None:
    error = await failure(lambda exchange: exchange.respond(status, dialect.error(type_, message)))
    assert (error.code, error.retryable) == (code, retryable)
    assert code == "auth" or message in error.message


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
    failure: Failure,
) -> None:
    error = await failure(lambda exchange: exchange.respond(status, "later", **headers))
    assert error.retry_after_ms == expected


@pytest.mark.parametrize(
    ("type_", "message", "code", "retryable"),
    [
        ("overloaded_error", "Overloaded", "overloaded", True),
        ("api_error", "Internal server error", "internal", True),
        ("rate_limit_error", "slow down", "rate_limited", True),
        ("timeout_error", "too slow", "timeout", True),
        ("authentication_error", "sk-secret-1234 has expired", "auth", False),
        ("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", "context_length", False),
        ("something_new", "boom", "internal", True),
    ],
)
@pytest.mark.parametrize("calling", [True, False])
async def test_T5_error_events_in_mid_stream_are_classified(
    type_: str,
    message: str,
    code: str,
    retryable: bool,
    calling: bool,
    dialect: Dialect,
    failure: Failure,
) -> None:
    async def fail(exchange: Exchange) -> None:
        await exchange.start()
        await dialect.tell(exchange, lambda script: script.call(0, "id_0", "t") if calling else script.text("half"))
        await exchange.event(dialect.error(type_, message))
        await exchange.hung_up()

    error = await failure(fail)
    assert (error.code, error.retryable) == (code, retryable)


@pytest.mark.parametrize(
    "payload",
    ["not json", "[1, 2]", "5", '"words"', '{"choices": 5, "type": 5}', '{"a": "\\ud800"', "[" * 100_000, '{"type": '],
)
async def test_T5_what_is_no_event_is_a_malformed_stream(payload: str, dialect: Dialect, failure: Failure) -> None:
    async def babble(exchange: Exchange) -> None:
        await exchange.start()
        await dialect.tell(exchange, lambda script: script.text("half"))
        await exchange.event(payload)
        await exchange.hung_up()

    error = await failure(babble)
    assert (error.code, error.retryable) == ("malformed_stream", True)


async def test_T5_a_call_that_was_announced_must_come(dialect: Dialect, failure: Failure) -> None:
    error = await failure(dialect.answer(lambda script: script.finish("tool_calls")))
    assert error.code == "malformed_stream"
    assert "called none" in error.message


async def test_T5_a_call_must_have_a_name(dialect: Dialect, failure: Failure) -> None:
    def call(script: Script) -> None:
        script.call(0, "id_0", "")
        script.input(0, "{}")
        script.finish("tool_calls")

    error = await failure(dialect.answer(call))
    assert error.code == "malformed_stream"
    assert "without a name" in error.message


async def test_T5_an_answer_that_is_no_stream_is_malformed(failure: Failure) -> None:
    error = await failure(lambda exchange: exchange.respond(200, {"choices": []}))
    assert error.code == "malformed_stream"
    assert "instead of an event stream" in error.message


async def test_T5_no_one_listening_is_a_connection_failure(
    dialect: Dialect, make_request: MakeRequest, collect: Collect
) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    provider = dialect.provider(f"http://127.0.0.1:{port}/v1")
    with pytest.raises(ModelError) as caught:
        await collect(provider.stream(make_request("hi")))
    await provider.aclose()
    assert caught.value.code == "connection"
    assert caught.value.retryable


async def test_T5_hanging_up_before_the_answer_is_a_connection_failure(failure: Failure) -> None:
    assert (await failure(Exchange.cut)).code == "connection"
