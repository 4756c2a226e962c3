"""Services that speak Chat Completions each in its own way, over real HTTP: what they stream, and what is made of it.

The streams have the shape of what these services send; calls of tools are `test_openai_calls`.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from model_dialects import KEY
from model_service import Answer, Exchange, Service
from turnwire.models.base import StepEnd, Usage
from turnwire.models.openai import OpenAIProvider

from .conftest import Collect, Failure, MakeRequest, TextsOf

Map = dict[str, Any]


def chunk(delta: Map | None, finish: str | None = None, **more: Any) -> Map:
    """A chunk whose one choice says this; `more` stands beside the choices."""
    said = {} if delta is None else {"delta": delta}
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, **said, "finish_reason": finish}], **more}


def thinking(*pieces: Map) -> Map:
    return {"type": "thinking", "thinking": list(pieces)}


def text(text: str) -> Map:
    return {"type": "text", "text": text}


COUNTS = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
DONE = "[DONE]"
PLAIN, THOUGHTFUL = [("text", "Yes")], [("reasoning", "Hm"), ("text", "Yes")]
STREAMS: dict[str, tuple[list[Map | str], list[tuple[str, str]]]] = {
    "OpenAI": (
        [
            chunk({"role": "assistant", "content": "", "refusal": None}, usage=None),
            chunk({"content": "Yes"}, usage=None, obfuscation="x1"),
            chunk({}, "stop", usage=None),
            {"choices": [], "usage": {**COUNTS, "prompt_tokens_details": {"cached_tokens": 0}}},
            DONE,
        ],
        PLAIN,
    ),
    "Azure": (
        [
            {"choices": [], "id": "", "object": "", "prompt_filter_results": [{"prompt_index": 0}]},
            chunk({"content": "Yes"}),
            chunk(None),  # a filter has looked so far
            chunk({}, "stop"),
            {"choices": [], "usage": COUNTS},
            DONE,
        ],
        PLAIN,
    ),
    "DeepSeek": (
        [
            chunk({"role": "assistant", "content": None, "reasoning_content": "Hm"}),
            chunk({"content": "Yes", "reasoning_content": None}),
            chunk({"content": "", "reasoning_content": None}, "stop", usage=COUNTS),
            DONE,
        ],
        THOUGHTFUL,
    ),
    "OpenRouter": (
        [
            chunk({"content": "", "reasoning": "Hm", "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]}),
            chunk({"content": "Yes", "reasoning": None, "reasoning_details": []}, native_finish_reason=None),
            chunk({"content": ""}, "stop", native_finish_reason="end_turn"),
            chunk({"content": ""}, usage={**COUNTS, "cost": 0.1}),
            DONE,
        ],
        THOUGHTFUL,
    ),
    "Mistral": (
        [
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": [thinking(text("H"), {"type": "reference", "reference_ids": [1]})]}),
            chunk({"content": [thinking(text("m")), text("Y"), {"type": "reference"}]}),
            chunk({"content": "es"}),
            chunk({"content": ""}, "stop", usage=COUNTS),
            DONE,
        ],
        THOUGHTFUL,
    ),
    "Moonshot": (
        [
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": "Yes"}),
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": COUNTS}]},
            DONE,
        ],
        PLAIN,
    ),
}


@pytest.fixture
async def provider(service: Service) -> AsyncIterator[OpenAIProvider]:
    model = OpenAIProvider("test-model", base_url=service.url, api_key=KEY, environ={})
    yield model
    await model.aclose()


def streaming(*payloads: Map | str) -> Answer:
    """An answer of these payloads, with keep-alives between them."""

    async def answer(exchange: Exchange) -> None:
        await exchange.start()
        for payload in payloads:
            await exchange.send(b": still here\n\n")
            await exchange.event(payload)
        await exchange.finish()

    return answer


@pytest.mark.parametrize(("stream", "texts"), STREAMS.values(), ids=STREAMS)
async def test_S1_what_a_service_streams_is_understood(
    stream: list[Map | str],
    texts: list[tuple[str, str]],
    service: Service,
    provider: OpenAIProvider,
    make_request: MakeRequest,
    collect: Collect,
    texts_of: TextsOf,
) -> None:
    service.will(streaming(*stream))
    events = await collect(provider.stream(make_request("Is it?")))
    assert texts_of(events) == texts
    assert events[-1][1] == StepEnd(tuple(range(len(texts))), "stop", Usage(5, 1))


FAILURES: dict[str, tuple[Map, str]] = {
    "OpenAI": ({"error": {"message": "The server had an error", "type": "server_error", "code": None}}, "internal"),
    "OpenRouter": (chunk({}, "error", error={"code": 429, "message": "limited"}), "rate_limited"),
    "vLLM": ({"object": "error", "message": "busy", "type": "ServiceUnavailable", "code": 503}, "overloaded"),
    "DeepSeek": (chunk({"content": ""}, "insufficient_system_resource"), "overloaded"),
    "GLM": (chunk({"content": ""}, "network_error"), "internal"),
    "Mistral": (chunk({"content": ""}, "error"), "internal"),
}


@pytest.mark.parametrize(("event", "code"), FAILURES.values(), ids=FAILURES)
async def test_T5_what_a_service_says_when_it_fails_is_understood(event: Map, code: str, failure: Failure) -> None:
    error = await failure(streaming(chunk({"content": "half"}), event, DONE))
    assert (error.code, error.retryable) == (code, True)
