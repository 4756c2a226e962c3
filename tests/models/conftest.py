"""Fixtures of the model tests."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeAlias

import pytest
import trio

from model_dialects import Dialect, Provider, dialect
from model_service import Service, service
from turnwire.models.base import BlockDelta, BlockStart, ModelEvent, ModelMessage, ModelRequest, TextContent

__all__ = ["Collect", "MakeRequest", "TextsOf", "dialect", "service"]

MakeRequest: TypeAlias = Callable[..., ModelRequest]
Collect: TypeAlias = Callable[[AsyncGenerator[ModelEvent, Any]], Awaitable[list[tuple[float, ModelEvent]]]]
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
