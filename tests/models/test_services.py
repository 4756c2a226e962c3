"""The contract of every provider against a real HTTP service: answers, cuts, silence, and closing.

What is said is the same for all; how it is said on the wire is the dialect's. Calls of tools are
`test_service_calls`, failures `test_service_failures`.
"""

import json
from contextlib import aclosing, suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from model_dialects import KEY, USAGE, Dialect, Provider, Script, saying
from model_service import Exchange, Service, event_bytes
from turnwire.models.base import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    ModelError,
    ModelMessage,
    ModelRequest,
    StepEnd,
    TextContent,
    ToolSpec,
    Usage,
)
from turnwire.models.timeouts import with_timeouts

from .conftest import PATIENCE, Collect, MakeRequest, TextsOf


async def test_C1_the_request_says_what_was_asked_and_who_asks(
    dialect: Dialect, service: Service, provider: Provider, collect: Collect
) -> None:
    service.will(*[dialect.answer(saying("a"))] * 2)
    messages = (ModelMessage("system", (TextContent("Be brief."),)), ModelMessage("user", (TextContent("hi"),)))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    weather = ToolSpec("weather", "Tells the weather.", schema)
    await collect(provider.stream(ModelRequest(model=None, messages=messages, key="k", tools=(weather,))))
    await collect(provider.stream(ModelRequest(model="other", messages=messages[1:], key="k")))
    first, second = service.exchanges
    assert first.target == second.target == dialect.target
    assert KEY in (first.headers.get("authorization", "").removeprefix("Bearer "), first.headers.get("x-api-key"))
    assert first.body == dialect.asking(model="test-model", prompt="hi", system="Be brief.", tool=weather)
    assert second.body == dialect.asking(model="other", prompt="hi")


async def test_S1_an_answer_becomes_one_block(
    dialect: Dialect, service: Service, provider: Provider, make_request: MakeRequest, collect: Collect
) -> None:
    service.will(dialect.answer(saying("Hello ", "world")))
    assert [event for _, event in await collect(provider.stream(make_request("hi")))] == [
        BlockStart(0, "text"),
        BlockDelta(0, "Hello "),
        BlockDelta(0, "world"),
        BlockEnd(0),
        StepEnd((0,), "stop", Usage(*USAGE)),
    ]


async def test_E5_reasoning_and_text_are_blocks_of_their_own(
    dialect: Dialect,
    service: Service,
    provider: Provider,
    make_request: MakeRequest,
    collect: Collect,
    texts_of: TextsOf,
) -> None:
    def think_twice(script: Script) -> None:
        script.reasoning("Hm")
        script.reasoning("m.")
        script.text("Yes")
        script.reasoning("Really?")
        script.text("No")
        script.finish()

    service.will(dialect.answer(think_twice))
    events = await collect(provider.stream(make_request("hi")))
    assert texts_of(events) == [("reasoning", "Hmm."), ("text", "Yes"), ("reasoning", "Really?"), ("text", "No")]


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
async def test_S2_the_reason_to_stop_is_told(
    reason: str,
    dialect: Dialect,
    service: Service,
    provider: Provider,
    make_request: MakeRequest,
    collect: Collect,
) -> None:
    def stop(script: Script) -> None:
        script.text("so")
        script.finish(reason)

    service.will(dialect.answer(stop))
    end = (await collect(provider.stream(make_request("hi"))))[-1][1]
    assert isinstance(end, StepEnd)
    assert end.reason == reason


async def test_S1_calls_in_sequence_share_one_connection(
    dialect: Dialect, service: Service, provider: Provider, make_request: MakeRequest, collect: Collect
) -> None:
    service.will(*[dialect.answer(saying("a"))] * 3)
    for _ in range(3):
        await collect(provider.stream(make_request("hi")))
    assert service.connections == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_L4_characters_split_between_network_packets_are_whole(
    size: int,
    dialect: Dialect,
    service: Service,
    provider: Provider,
    make_request: MakeRequest,
    collect: Collect,
    texts_of: TextsOf,
) -> None:
    text = "a🚀é👨‍👩‍👧\u2028ü"
    script = dialect.script()
    script.text(text)
    script.call(0, "id_0", "t")
    script.input(0, text)
    script.finish("tool_calls")
    events = [json.dumps(each, ensure_ascii=False) if isinstance(each, dict) else each for each in script.take()]
    data = b"".join(event_bytes(event) for event in events).replace(b"\n", b"\r\n")

    async def split(exchange: Exchange) -> None:
        await exchange.start()
        for start in range(0, len(data), size):
            await exchange.send(data[start : start + size])
            await wait_all_tasks_blocked()
        await exchange.finish()

    service.will(split)
    assert texts_of(await collect(provider.stream(make_request("hi")))) == [("text", text), ("tool", text)]


async def test_L4_characters_split_between_events_are_whole(
    dialect: Dialect,
    service: Service,
    provider: Provider,
    make_request: MakeRequest,
    collect: Collect,
    texts_of: TextsOf,
) -> None:
    def split(script: Script) -> None:
        for half in ("a\ud83d", "\ude80b\ud83d", "c"):
            script.text(half)
        script.call(0, "id_0", "t")
        script.call(1, "id_1", "t")
        for half in ("\ud83d", "\ude80"):
            script.input(0, half)
            script.input(1, half)
        script.text("\ud83d")
        script.finish("tool_calls")

    service.will(dialect.answer(split))
    events = await collect(provider.stream(make_request("hi")))
    assert texts_of(events) == [("text", "a🚀b\ufffdc"), ("tool", "🚀"), ("tool", "🚀"), ("text", "\ufffd")]
    for _, event in events:
        if isinstance(event, BlockDelta):
            assert event.text.encode()


HALVES = {
    "between two events": b"",
    "in mid-event": b'data: {"choi',
    "before the blank line": b'data: {"type": "ping"}\n',
}


@pytest.mark.parametrize("rest", HALVES.values(), ids=HALVES)
async def test_S8_a_cut_connection_keeps_the_text_so_far(
    rest: bytes, dialect: Dialect, service: Service, provider: Provider, make_request: MakeRequest
) -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.start()
        await dialect.tell(exchange, lambda script: script.text("half"))
        await exchange.send(rest)
        await exchange.cut()

    service.will(cut)
    async with aclosing(provider.stream(make_request("hi"))) as events:
        assert await anext(events) == BlockStart(0, "text")
        assert await anext(events) == BlockDelta(0, "half")
        with pytest.raises(ModelError) as caught:
            await anext(events)
    assert caught.value.code == "cut_stream"
    assert caught.value.retryable


@pytest.mark.parametrize("rest", HALVES.values(), ids=HALVES)
@pytest.mark.parametrize("ended", [True, False])
async def test_S8_an_answer_without_a_reason_to_stop_was_cut(
    ended: bool,
    rest: bytes,
    dialect: Dialect,
    service: Service,
    provider: Provider,
    make_request: MakeRequest,
    collect: Collect,
) -> None:
    async def end_early(exchange: Exchange) -> None:
        await exchange.start()
        await dialect.tell(exchange, lambda script: script.text("half"), end=ended)
        await exchange.send(rest)
        await exchange.finish()

    service.will(end_early, end_early)
    events = await collect(provider.stream(make_request("hi")))
    assert [event for _, event in events] == [BlockStart(0, "text"), BlockDelta(0, "half")]
    with pytest.raises(ModelError, match="before the model had finished"):
        await collect(with_timeouts(provider.stream(make_request("hi"))))


async def test_S8_a_finished_answer_needs_nothing_more(
    dialect: Dialect, service: Service, provider: Provider, make_request: MakeRequest, collect: Collect
) -> None:
    def say(script: Script) -> None:
        script.text("all")
        script.finish("length")

    async def hang_up(exchange: Exchange) -> None:
        await exchange.start()
        await dialect.tell(exchange, say)
        await exchange.cut()

    async def linger(exchange: Exchange) -> None:
        await exchange.start()
        await dialect.tell(exchange, say, end=True)
        await exchange.hung_up()

    service.will(hang_up, linger)
    for _ in range(2):
        with trio.fail_after(PATIENCE):
            events = await collect(provider.stream(make_request("hi")))
        assert [event for _, event in events[-2:]] == [BlockEnd(0), StepEnd((0,), "length", Usage(*USAGE))]


@pytest.mark.parametrize("how", ["cancel", "close"])
@pytest.mark.parametrize("where", ["text", "tool"])
async def test_T3_cancel_and_close_end_the_request_at_once(
    how: str, where: str, dialect: Dialect, service: Service, provider: Provider, make_request: MakeRequest
) -> None:
    hung_up = trio.Event()

    def begin(script: Script) -> None:
        if where == "text":
            script.text("a")
        else:
            script.call(0, "id_0", "t")
            script.input(0, "a")

    async def fall_silent(exchange: Exchange) -> None:
        await exchange.start()
        await dialect.tell(exchange, begin)
        await exchange.hung_up()
        hung_up.set()

    service.will(fall_silent)
    with trio.CancelScope() as scope:
        async with aclosing(provider.stream(make_request("hi"))) as events:
            assert isinstance(await anext(events), BlockStart)
            assert await anext(events) == BlockDelta(0, "a")
            if how == "cancel":
                scope.cancel()
                await anext(events)
    assert scope.cancelled_caught == (how == "cancel")
    with trio.fail_after(PATIENCE):
        await hung_up.wait()


async def test_T3_a_service_that_never_answers_can_be_left(
    service: Service, provider: Provider, make_request: MakeRequest
) -> None:
    asked, hung_up = trio.Event(), trio.Event()

    async def say_nothing(exchange: Exchange) -> None:
        asked.set()
        await exchange.hung_up()
        hung_up.set()

    async def ask() -> None:
        async with aclosing(provider.stream(make_request("hi"))) as events:
            await anext(events)

    service.will(say_nothing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await asked.wait()
        nursery.cancel_scope.cancel()
    with trio.fail_after(PATIENCE):
        await hung_up.wait()


@pytest.mark.parametrize("begun", [True, False])
async def test_K7_keep_alives_that_flow_for_ever_are_no_progress(
    begun: bool,
    dialect: Dialect,
    service: Service,
    provider: Provider,
    make_request: MakeRequest,
    collect: Collect,
) -> None:
    kept_alive, hung_up = 0, trio.Event()

    async def keep_alive(exchange: Exchange) -> None:
        nonlocal kept_alive
        await exchange.start()
        if begun:
            await dialect.tell(exchange, lambda script: script.text("a"))
        with suppress(trio.BrokenResourceError):  # the client has hung up
            while True:
                await exchange.send(b": keep-alive\n\n")
                await exchange.event(dialect.filler)
                kept_alive += 1
                await trio.sleep(0.01)
        hung_up.set()

    service.will(keep_alive)
    late = "sent nothing more" if begun else "did not begin to answer"
    with pytest.raises(ModelError, match=late), trio.fail_after(PATIENCE):
        await collect(with_timeouts(provider.stream(make_request("hi")), first_event=0.2, idle=0.2))
    assert kept_alive > 0
    with trio.fail_after(PATIENCE):
        await hung_up.wait()
