"""What only Anthropic's services are told; what all providers have in common is `test_services`."""

import pytest

from model_dialects import KEY, Anthropic, saying
from model_service import Service
from turnwire.models.anthropic import AnthropicProvider

from .conftest import Collect, MakeRequest


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
async def test_C1_the_address_may_be_given_with_its_version_or_without(
    ending: str, service: Service, make_request: MakeRequest, collect: Collect
) -> None:
    service.will(Anthropic().answer(saying("a")))
    base_url = service.url.removesuffix("/v1") + ending
    provider = AnthropicProvider("m", base_url=base_url, api_key=KEY, environ={})
    await collect(provider.stream(make_request("hi")))
    await provider.aclose()
    (exchange,) = service.exchanges
    assert exchange.target == "/v1/messages"
    assert "anthropic-version" in exchange.headers


async def test_C1_an_answer_may_be_as_long_as_it_was_allowed_to_be(
    service: Service, make_request: MakeRequest, collect: Collect
) -> None:
    service.will(Anthropic().answer(saying("a")))
    provider = AnthropicProvider("m", base_url=service.url, api_key=KEY, max_tokens=5, environ={})
    await collect(provider.stream(make_request("hi")))
    await provider.aclose()
    assert service.exchanges[0].body["max_tokens"] == 5
