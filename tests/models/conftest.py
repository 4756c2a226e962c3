"""Fixtures of the model tests."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeAlias

import pytest
import trio

from model_dialects import Dialect, Provider, dialect
from model_service import Answer, Service, service
from turnwire.models.base import BlockDelta, BlockStart, ModelError, ModelEvent, ModelMessage, ModelRequest, TextContent

PATIENCE = 30.0
"""Seconds after which a test that waits for the other side has failed."""

__all__ = ["Collect", "Failure", "MakeRequest", "TextsOf", "dialect", "service"]

MakeRequest: TypeAlias = Callable[..., ModelRequest]
Collect: TypeAlias = Callable[[AsyncGenerator[ModelEvent, Any]], Awaitable[list[tuple[float, ModelEvent]]]]
Failure: TypeAlias = Callable[[Answer], Awaitable[ModelError]]
TextsOf: TypeAlias = Callable[[list[tuple[float, ModelEvent]]], list[tuple[str, str]]]


@pytest.fixture
def make_request() -> MakeRequest:
    """A request with these user messages, the last one newest."""

    def make(*prompts: str, attempt: int = 1, model: str | None = None) -> ModelRequest:
        messages = tuple(ModelMessage("user", (TextContent(prompt),)) for prompt in prompts)
        return ModelRequest(model=model, messages=messages, key="step-1", attempt=attempt)

    return make


@pytest.fixture
def collect() -> Collect:
    """All events of a stream, each with the seconds since the call."""

    async def run(stream: AsyncGenerator[ModelEvent, Any]) -> list[tuple[float, ModelEvent]]:
        start = trio.current_time()
        async with aclosing(stream):
            return [(trio.current_time() - start, event) async for event in stream]

    return run


@pytest.fixture
def failure(service: Service, provider: Provider, make_request: MakeRequest, collect: Collect) -> Failure:
    """What a call fails with that the service answers like this: asked once, in few words, and without the key."""

    async def run(answer: Answer) -> ModelError:
        service.will(answer)
        with pytest.raises(ModelError) as caught, trio.fail_after(PATIENCE):
            await collect(provider.stream(make_request("hi")))
        assert len(service.exchanges) == 1, "the SDK must not retry"
        assert "secret" not in caught.value.message
        assert len(caught.value.message) < 500
        return caught.value

    return run


@pytest.fixture
def texts_of() -> TextsOf:
    """The blocks of a stream as (kind, text), in the order of their starts."""

    def assemble(events: list[tuple[float, ModelEvent]]) -> list[tuple[str, str]]:
        blocks: dict[int, tuple[str, list[str]]] = {}
        for _, event in events:
            if isinstance(event, BlockStart):
                blocks[event.block] = (event.kind, [])
            elif isinstance(event, BlockDelta):
                blocks[event.block][1].append(event.text)
        return [(kind, "".join(texts)) for kind, texts in blocks.values()]

    return assemble


@pytest.fixture
async def provider(dialect: Dialect, service: Service) -> AsyncIterator[Provider]:
    """The provider under test, connected to `service`; its wall clock stands at second 1,000,000."""
    model = dialect.provider(service.url, now=lambda: 1_000_000.0)
    yield model
    await model.aclose()
