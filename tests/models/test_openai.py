"""What OpenAI-compatible services are asked over HTTP; what all providers have in common is `test_services`."""

from model_dialects import KEY, OpenAI, saying
from model_service import Service
from turnwire.models.base import ModelMessage, ModelRequest, TextContent, ToolSpec
from turnwire.models.openai import OpenAIProvider

from .conftest import Collect


async def test_C1_the_request_says_what_was_asked(service: Service, collect: Collect) -> None:
    provider = OpenAIProvider("test-model", base_url=service.url, api_key=KEY, environ={})
    service.will(*[OpenAI().answer(saying("a"))] * 2)
    messages = (ModelMessage("system", (TextContent("Be brief."),)), ModelMessage("user", (TextContent("hi"),)))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = (ToolSpec("weather", "Tells the weather.", schema),)
    await collect(provider.stream(ModelRequest(model=None, messages=messages, key="k", tools=tools)))
    await collect(provider.stream(ModelRequest(model="other", messages=messages[1:], key="k")))
    await provider.aclose()
    first, second = service.exchanges
    assert first.target == "/v1/chat/completions"
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.body == {
        "model": "test-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "description": "Tells the weather.", "parameters": schema},
            }
        ],
    }
    assert second.body == {
        "model": "other",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hi"}],
    }
