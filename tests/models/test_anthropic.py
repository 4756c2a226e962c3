"""What Anthropic's services are asked over HTTP; what all providers have in common is `test_services`."""

import pytest

from model_dialects import KEY, Anthropic, saying
from model_service import Service
from turnwire.models.anthropic import MAX_TOKENS, AnthropicProvider
from turnwire.models.base import ModelMessage, ModelRequest, TextContent, ToolSpec

from .conftest import Collect


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
async def test_C1_the_request_says_what_was_asked(ending: str, service: Service, collect: Collect) -> None:
    service.will(*[Anthropic().answer(saying("a"))] * 2)
    base_url = service.url.removesuffix("/v1") + ending
    provider = AnthropicProvider("test-model", base_url=base_url, api_key=KEY, environ={})
    messages = (ModelMessage("system", (TextContent("Be brief."),)), ModelMessage("user", (TextContent("hi"),)))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = (ToolSpec("weather", "Tells the weather.", schema),)
    await collect(provider.stream(ModelRequest(model=None, messages=messages, key="k", tools=tools)))
    await collect(provider.stream(ModelRequest(model="other", messages=messages[1:], key="k")))
    await provider.aclose()
    first, second = service.exchanges
    assert first.target == "/v1/messages"
    assert KEY in (first.headers.get("authorization", "").removeprefix("Bearer "), first.headers.get("x-api-key"))
    assert "anthropic-version" in first.headers
    assert first.body == {
        "model": "test-model",
        "max_tokens": MAX_TOKENS,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "tools": [{"name": "weather", "description": "Tells the weather.", "input_schema": schema}],
    }
    assert second.body == {
        "model": "other",
        "max_tokens": MAX_TOKENS,
        "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


async def test_C1_an_answer_may_be_as_long_as_it_was_allowed_to_be(service: Service, collect: Collect) -> None:
    service.will(Anthropic().answer(saying("a")))
    provider = AnthropicProvider("m", base_url=service.url, api_key=KEY, max_tokens=5, environ={})
    messages = (ModelMessage("user", (TextContent("hi"),)),)
    await collect(provider.stream(ModelRequest(model=None, messages=messages, key="k")))
    await provider.aclose()
    assert service.exchanges[0].body["max_tokens"] == 5
