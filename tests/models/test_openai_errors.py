"""How OpenAI-compatible services say what goes wrong, over real HTTP; what all share is `test_service_failures`.

Each failure gets its code, and says nothing secret (T5).
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from model_dialects import KEY
from model_service import Exchange, Service
from turnwire.models.openai import OpenAIProvider

from .conftest import Failure

CONTEXT = {"error": {"message": "This model's maximum context length is 8 tokens.", "code": "context_length_exceeded"}}
LLAMA_CONTEXT = {"error": {"code": 400, "message": "request exceeds it", "type": "exceed_context_size_error"}}
FILTER = {"error": {"message": "The response was filtered", "code": "content_filter"}}
QUOTA = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
BAD_KEY = {"error": {"message": "Incorrect API key provided: sk-secret-1234", "code": "invalid_api_key"}}


@pytest.fixture
async def provider(service: Service) -> AsyncIterator[OpenAIProvider]:
    model = OpenAIProvider("test-model", base_url=service.url, api_key=KEY, environ={})
    yield model
    await model.aclose()


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
        (401, BAD_KEY, "auth", False),
        (403, BAD_KEY, "auth", False),
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
async def test_T5_bodies_of_failed_requests_are_read_in_any_shape(
    status: int, body: Any, code: str, retryable: bool, failure: Failure
) -> None:
    error = await failure(lambda exchange: exchange.respond(status, body))
    assert (error.code, error.retryable) == (code, retryable)


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
        ('{"choices": 5}', "malformed_stream", True),
        ('{"choices": [{"delta": {"content": 5}}]}', "malformed_stream", True),
        ('{"choices": [{"delta": {"content": "\\ud800"', "malformed_stream", True),
        ('{"choices": [{"delta": {"tool_calls": [{"index": 0}]}, "finish_reason": "stop"}]}', "malformed_stream", True),
        ('{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}', "malformed_stream", True),
        ('{"choices": [{"delta": {}, "finish_reason": "error"}]}', "internal", True),
    ],
)
async def test_T5_failures_in_mid_stream_are_classified(
    event: Any, code: str, retryable: bool, failure: Failure
) -> None:
    async def fail(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.event({"choices": [{"index": 0, "delta": {"content": "half"}}]})
        await exchange.event(event)
        await exchange.hung_up()

    error = await failure(fail)
    assert (error.code, error.retryable) == (code, retryable)
