"""The provider against a real language model: what a real server streams is understood, and stopping stops it."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import trio

from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelError, StepEnd
from turnwire.models.openai import OpenAIProvider

from .conftest import Collect, MakeRequest, TextsOf

pytestmark = pytest.mark.slow

PATIENCE = 120.0
"""Seconds after which a test that waits for the model has failed."""

TOOL = Path(__file__).parents[2] / "server" / "tools" / "local_model.py"


@pytest.fixture
async def smollm(local_model: str) -> AsyncIterator[OpenAIProvider]:
    provider = OpenAIProvider("smollm2", base_url=local_model, environ={})
    yield provider
    await provider.aclose()


async def test_S1_a_real_model_streams_a_real_answer(
    smollm: OpenAIProvider, make_request: MakeRequest, collect: Collect, texts_of: TextsOf
) -> None:
    with trio.fail_after(PATIENCE):
        events = await collect(smollm.stream(make_request("What is the capital of France? Answer in one sentence.")))
    ((kind, text),) = texts_of(events)
    assert kind == "text"
    assert "Paris" in text
    assert sum(isinstance(event, BlockDelta) for _, event in events) > 3
    assert isinstance(events[0][1], BlockStart)
    assert isinstance(events[-2][1], BlockEnd)
    end = events[-1][1]
    assert isinstance(end, StepEnd)
    assert end.reason == "stop"
    assert end.usage is not None
    assert end.usage.input_tokens > 10
    assert end.usage.output_tokens > 3


async def test_T3_a_real_model_is_stopped_in_mid_answer_and_answers_again(
    smollm: OpenAIProvider, make_request: MakeRequest, collect: Collect
) -> None:
    deltas = 0
    with trio.fail_after(PATIENCE):
        with trio.CancelScope() as stop:
            async with aclosing(smollm.stream(make_request("Write a very long story about a dragon."))) as events:
                async for event in events:
                    deltas += isinstance(event, BlockDelta)
                    if deltas == 5:
                        stop.cancel()
        assert stop.cancelled_caught
        assert deltas == 5
        again = await collect(smollm.stream(make_request("What is the capital of France?")))
    assert isinstance(again[-1][1], StepEnd)


async def test_T5_a_real_servers_refusal_is_classified(
    smollm: OpenAIProvider, make_request: MakeRequest, collect: Collect
) -> None:
    with pytest.raises(ModelError) as caught, trio.fail_after(PATIENCE):
        await collect(smollm.stream(make_request("dragon " * 20_000)))
    assert caught.value.code == "context_length"
    assert not caught.value.retryable


def test_T3_the_local_model_ends_when_its_input_ends(local_model: str) -> None:
    """`local_model` first, since where the packages are missing there is nothing to end."""
    ended = subprocess.run([sys.executable, TOOL, "host"], input=b"", capture_output=True, timeout=PATIENCE, check=True)
    assert ended.stdout.startswith(b"http://127.0.0.1:")
