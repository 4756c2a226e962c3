"""Whole Turns with each provider and a real HTTP service, as a client sees them: tools, retries, cuts, failures, stop.

The clock is the real one here, because bytes on a socket know no other.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from model_dialects import Dialect, Script, calling, saying
from model_service import Exchange, Service
from sessions_world import Map, ViewWatcher, World, open_world
from turnwire import tool
from turnwire.models.retry import RetryPolicy
from turnwire.tools.registry import ToolRegistry
from turnwire_protocol.parts import TextInput

PATIENCE = 30.0
"""Seconds after which a test that waits for the other side has failed."""


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@asynccontextmanager
async def watched(dialect: Dialect, service: Service, *, attempts: int = 3) -> AsyncIterator[tuple[World, ViewWatcher]]:
    """A Session `s1` whose model is behind `service`, and a client that watches it."""
    provider = dialect.provider(service.url)
    retry = RetryPolicy(max_attempts=attempts, base_ms=1, max_ms=1000)
    try:
        with trio.fail_after(PATIENCE):
            async with open_world(provider, tools=ToolRegistry([add]), retry=retry) as w:
                await w.session()
                yield w, await w.watch()
    finally:
        with trio.CancelScope(shield=True):
            await provider.aclose()


async def prompt(w: World, text: str, request_id: str = "r1") -> Any:
    return await w.registry.prompt("s1", parts=(TextInput(text),), client_request_id=request_id)


async def finished(w: World, watcher: ViewWatcher, text: str, request_id: str = "r1") -> Map:
    """Prompts and waits; the `turn`/`finish` Mutation. The client has then seen what is stored."""
    turn_id = (await prompt(w, text, request_id)).turn_id

    def finish() -> list[Map]:
        turns = watcher.mutations("turn")
        return [each for each in turns if each["type"] == "finish" and each["turn_id"] == turn_id]

    await watcher.until(lambda: bool(finish()))
    assert watcher.view.messages == await w.stored()
    assert "reload" not in watcher.effects
    (only,) = finish()
    return only


def shown(message: Map) -> list[tuple[str, Any]]:
    """What a Message shows: (type, text or state)."""
    return [(part["type"], part.get("text", part.get("state", part.get("code")))) for part in message["parts"]]


async def test_M8_a_tool_loop_of_two_steps_feeds_the_results_back(dialect: Dialect, service: Service) -> None:
    def call_twice(script: Script) -> None:
        script.reasoning("Two sums.")
        script.text("Let me see.")
        calling(("id/1", "add", '{"a": 2, "b": 40}'), ("id/2", "add", '{"a": 1, "b": 1}'))(script)

    service.will(dialect.answer(call_twice), dialect.answer(saying("42 ", "and 2")))
    async with watched(dialect, service) as (w, watcher):
        assert (await finished(w, watcher, "sums?"))["status"] == "completed"
        _, agent = await w.stored()
        assert shown(agent) == [
            ("reasoning", "Two sums."),
            ("text", "Let me see."),
            ("tool", "completed"),
            ("tool", "completed"),
            ("text", "42 and 2"),
        ]
        assert [part["output"] for part in agent["parts"] if part["type"] == "tool"] == [42, 2]
        deltas = [delta for delta in watcher.mutations("delta") if delta["type"] == "tool_input"]
        assert "".join(delta["delta"] for delta in deltas) == '{"a": 2, "b": 40}{"a": 1, "b": 1}'
        first, second = [exchange.body for exchange in service.exchanges]
        assert "add" in str(first["tools"])
        assert second["tools"] == first["tools"]
        (one, _, input_one), (two, _, input_two) = dialect.calls_in(second)
        assert (input_one, input_two) == ({"a": 2, "b": 40}, {"a": 1, "b": 1})
        assert dialect.results_in(second) == [(one, "42"), (two, "2")]


async def test_P5_what_cannot_be_called_is_told_to_the_model_and_spoils_no_later_request(
    dialect: Dialect, service: Service
) -> None:
    calls = calling(("a", "add", '{"a": 2, "b"'), ("b", "add", '{"a": "x", "b": 1}'), ("c", "rm -rf /", ""))
    service.will(dialect.answer(calls), dialect.answer(saying("I am sorry.")))
    async with watched(dialect, service) as (w, watcher):
        assert (await finished(w, watcher, "sums?"))["status"] == "completed"
        _, agent = await w.stored()
        assert shown(agent) == [*[("tool", "failed")] * 3, ("text", "I am sorry.")]
        second = service.exchanges[1].body
        names = [name for _, name, _ in dialect.calls_in(second)]
        assert names == ["add", "add", "rm_-rf__"]
        outputs = [output for _, output in dialect.results_in(second)]
        for output, part in zip(outputs, agent["parts"], strict=False):
            assert part["error"] in output
        assert "there is no tool named" in outputs[2]


async def test_T5_a_rate_limit_is_waited_out(dialect: Dialect, service: Service) -> None:
    body = dialect.error("rate_limit_error", "slow down")
    service.will(
        lambda exchange: exchange.respond(429, body, retry_after_ms="40"),
        dialect.answer(saying("Here I am")),
    )
    async with watched(dialect, service) as (w, watcher):
        started = trio.current_time()
        assert (await finished(w, watcher, "hi"))["status"] == "completed"
        assert trio.current_time() - started >= 0.04
        (warning,) = watcher.mutations("warning")
        assert (warning["code"], warning["retryable"], warning["will_retry"]) == ("rate_limited", True, True)
        assert (warning["attempt"], warning["max_attempts"], warning["request_kind"]) == (1, 3, "turn")
        assert 40 <= warning["retry_in_ms"] <= 41
        assert shown((await w.stored())[1]) == [("text", "Here I am")]
        assert service.exchanges[0].body == service.exchanges[1].body


@pytest.mark.parametrize("where", ["text", "tool"])
async def test_T6_a_cut_stream_is_rolled_back_and_asked_again(where: str, dialect: Dialect, service: Service) -> None:
    seen = trio.Event()

    def begin(script: Script) -> None:
        script.text("half an ans")
        if where == "tool":
            script.call(0, "id_0", "add")
            script.input(0, '{"a": 2, ')

    async def cut(exchange: Exchange) -> None:
        await exchange.start()
        await dialect.tell(exchange, begin)
        await seen.wait()
        await exchange.cut()

    service.will(cut, dialect.answer(saying("The whole answer")))
    async with watched(dialect, service) as (w, watcher):
        async with trio.open_nursery() as nursery:

            async def look() -> None:
                last = "tool" if where == "tool" else "text"
                await watcher.until(
                    lambda: len(watcher.view.messages) == 2 and watcher.view.messages[1]["parts"][-1]["type"] == last
                )
                seen.set()

            nursery.start_soon(look)
            assert (await finished(w, watcher, "hi"))["status"] == "completed"
        (warning,) = watcher.mutations("warning")
        assert (warning["code"], warning["will_retry"]) == ("cut_stream", True)
        assert shown((await w.stored())[1]) == [("text", "The whole answer")]


@pytest.mark.parametrize(
    ("status", "type_", "code", "attempts"),
    [
        (401, "authentication_error", "auth", 1),
        (400, "invalid_request_error", "invalid_request", 1),
        (529, "overloaded_error", "overloaded", 3),
        (500, "api_error", "internal", 3),
    ],
)
async def test_T2_a_providers_error_reaches_the_client(
    status: int, type_: str, code: str, attempts: int, dialect: Dialect, service: Service
) -> None:
    """K6: as a warning for each attempt, as an error Part, and as the end of the Turn."""
    service.will(*[lambda exchange: exchange.respond(status, dialect.error(type_, "no"))] * attempts)
    async with watched(dialect, service, attempts=3) as (w, watcher):
        finish = await finished(w, watcher, "hi")
        assert (finish["status"], finish["error"]["code"]) == ("failed", code)
        warnings = watcher.mutations("warning")
        assert [(each["code"], each["attempt"]) for each in warnings] == [(code, n + 1) for n in range(attempts)]
        assert [each["will_retry"] for each in warnings] == [True] * (attempts - 1) + [False]
        (error,) = watcher.view.messages[1]["parts"]
        assert (error["type"], error["code"], error["message"]) == ("error", code, finish["error"]["message"])
        assert len(service.exchanges) == attempts


async def test_S8_a_failure_in_mid_answer_keeps_the_text(dialect: Dialect, service: Service) -> None:
    async def fail(exchange: Exchange) -> None:
        await exchange.start()
        await dialect.tell(exchange, lambda script: script.text("half"))
        await exchange.event(dialect.error("overloaded_error", "Overloaded"))
        await exchange.hung_up()

    service.will(fail)
    async with watched(dialect, service, attempts=1) as (w, watcher):
        assert (await finished(w, watcher, "hi"))["error"]["code"] == "overloaded"
        assert shown((await w.stored())[1]) == [("text", "half"), ("error", "overloaded")]


async def test_T3_stop_hangs_up_on_the_service(dialect: Dialect, service: Service) -> None:
    hung_up = trio.Event()

    async def go_on(exchange: Exchange) -> None:
        await exchange.start()
        await dialect.tell(exchange, lambda script: script.text("half"))
        await exchange.hung_up()
        hung_up.set()

    service.will(go_on)
    async with watched(dialect, service) as (w, watcher):
        turn_id = (await prompt(w, "hi")).turn_id
        await watcher.until(lambda: len(watcher.view.messages) == 2)
        assert (await w.registry.stop("s1", turn_id=turn_id)).stopped
        await hung_up.wait()
        assert shown((await w.stored())[1]) == [("text", "half"), ("error", "stopped")]
