"""Code of an embedding program that fails in every way: nobody else is harmed (L1, P5, T2, T5)."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
import trio

from foreign_code import AT_ONCE, WHEN_CANCELLED, Foreign, name_of
from sessions_world import ViewWatcher, World, exchange, open_world, text_answer, tool_calls
from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelError, ModelEvent, ModelRequest, StepEnd
from turnwire.models.timeline import TimelineProvider
from turnwire.sessions.environment import SessionLimits
from turnwire.tools.base import Tool, ToolContext
from turnwire.tools.registry import ToolRegistry
from turnwire_protocol.frames import Receipt
from turnwire_protocol.mutations import Mutation
from turnwire_protocol.parts import TextInput

IDLE_SECONDS = 60.0
LIMITS = SessionLimits(idle_event_seconds=IDLE_SECONDS)


class Provider:
    """One of somebody's own: it says a word, and then does what `foreign` does, in the kind of request that is named.

    `around`: within a nursery of its own that is open while it yields.
    """

    name = "foreign"

    def __init__(self, foreign: Foreign, kind: str = "turn", *, around: bool = False) -> None:
        self._foreign = foreign
        self._kind = kind
        self._around = around
        self.good = TimelineProvider(*[text_answer("fine")] * 9)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, Any]:
        if request.kind != self._kind or (self._kind == "turn" and "good" in repr(request.messages[-1])):
            return self.good.stream(request)
        return self._in_a_nursery() if self._around else self._plainly()

    async def _plainly(self) -> AsyncGenerator[ModelEvent, None]:
        yield BlockStart(0, "text")
        yield BlockDelta(0, "half")
        await self._foreign()
        yield BlockEnd(0)
        yield StepEnd((0,))

    async def _in_a_nursery(self) -> AsyncGenerator[ModelEvent, None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            async for event in self._plainly():
                yield event
            nursery.cancel_scope.cancel()

    async def aclose(self) -> None:
        """Nothing is kept."""


async def prompt(w: World, text: str, session_id: str = "s1") -> Receipt:
    return await w.registry.prompt(session_id, parts=(TextInput(text),), client_request_id=text.replace(" ", "-"))


async def outcome(w: World, turn_id: str) -> tuple[str, str | None]:
    record = await w.store.turn(turn_id)
    assert record is not None
    return record.status, None if record.error is None else record.error.code


async def works_on(w: World, watcher: ViewWatcher) -> None:
    """The Session never failed, and goes on."""
    assert await exchange(w, "good") == "completed"
    assert watcher.restarts == 0
    assert watcher.view.messages == await w.stored()


async def waits() -> None:
    await trio.sleep_forever()


# ----------------------------------------------------------------------------------------------------------- providers


@pytest.mark.parametrize("around", [False, True], ids=["plain", "nursery"])
@pytest.mark.parametrize("foreign", AT_ONCE, ids=name_of)
async def test_T2_whatever_a_provider_raises_fails_its_turn_alone(
    foreign: Foreign, around: bool, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_world(Provider(foreign, around=around), limits=LIMITS) as w:
        await w.session()
        watcher = await w.watch()
        receipt = await prompt(w, "x")
        await watcher.until(lambda: watcher.view.turn is None and bool(watcher.mutations("turn")))
        assert await outcome(w, receipt.turn_id) == ("failed", "internal")
        await works_on(w, watcher)
    assert "the model provider foreign failed" in caplog.text


@pytest.mark.parametrize("around", [False, True], ids=["plain", "nursery"])
@pytest.mark.parametrize("foreign", [waits, *WHEN_CANCELLED], ids=name_of)
@pytest.mark.parametrize("end", ["stop", "timeout", "server"])
async def test_T3_whatever_a_provider_does_as_it_is_ended_harms_nobody(
    end: str, foreign: Foreign, around: bool, autojump_clock: object
) -> None:
    async with open_world(Provider(foreign, around=around), limits=LIMITS) as w:
        await w.session()
        watcher = await w.watch()
        receipt = await prompt(w, "x")
        await trio.sleep(1)
        assert watcher.view.messages[-1]["parts"][0]["text"] == "half"
        if end == "stop":
            assert (await w.registry.stop("s1")).stopped
            await trio.sleep(10)
            assert await outcome(w, receipt.turn_id) == ("stopped", "stopped")
        elif end == "timeout":
            await trio.sleep(IDLE_SECONDS)
            (warning,) = watcher.mutations("warning")[:1]
            # Without a nursery around it, an exception of its own is all that comes of the limit's cancellation.
            took_over = foreign in WHEN_CANCELLED[1:] and not around
            assert warning["code"] == ("internal" if took_over else "timeout")
            await w.registry.stop("s1")
            await trio.sleep(10)
        if end != "server":
            await works_on(w, watcher)


async def test_T5_a_provider_may_hold_a_nursery_open_while_it_yields(autojump_clock: object) -> None:
    async def nothing() -> None:
        await trio.sleep(1)

    async with open_world(Provider(nothing, around=True), limits=LIMITS) as w:
        await w.session()
        assert await exchange(w, "x") == "completed"


async def test_T2_a_provider_that_cancels_what_reads_it_fails_its_turn_alone(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is awaited while it yields lies in its nursery, too."""

    class Cancelling(Provider):
        async def _plainly(self) -> AsyncGenerator[ModelEvent, None]:
            yield BlockStart(0, "text")
            async with trio.open_nursery() as nursery:
                nursery.cancel_scope.cancel()
                yield BlockDelta(0, "half")

    async with open_world(Cancelling(waits), limits=LIMITS) as w:
        await w.session()
        watcher = await w.watch()
        receipt = await prompt(w, "x")
        await watcher.until(lambda: watcher.view.turn is None and bool(watcher.mutations("turn")))
        assert await outcome(w, receipt.turn_id) == ("failed", "internal")
        await works_on(w, watcher)
    assert "the model provider foreign failed" in caplog.text
    assert "corrupted" not in caplog.text


async def test_T5_a_failure_that_a_nursery_of_the_provider_has_wrapped_is_what_it_was(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> None:
        raise ModelError("content_filter", "no")

    async with open_world(Provider(fails, around=True), limits=LIMITS) as w:
        await w.session()
        watcher = await w.watch()
        receipt = await prompt(w, "x")
        await watcher.until(lambda: watcher.view.turn is None and bool(watcher.mutations("turn")))
        assert await outcome(w, receipt.turn_id) == ("failed", "content_filter")
    assert caplog.text == ""


@pytest.mark.parametrize("around", [False, True], ids=["plain", "nursery"])
@pytest.mark.parametrize("foreign", [waits, *AT_ONCE, *WHEN_CANCELLED], ids=name_of)
async def test_T5_whatever_a_provider_does_when_asked_for_a_title_harms_nobody(
    foreign: Foreign, around: bool, autojump_clock: object
) -> None:
    provider = Provider(foreign, "title", around=around)
    async with open_world(provider, limits=LIMITS, titles=True) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w, "good")
        await watcher.until(lambda: bool(watcher.mutations("warning")))
        await works_on(w, watcher)


# ---------------------------------------------------------------------------------------------------------- subscribers


def asynchronous(foreign: Foreign) -> Callable[[Mutation], Any]:
    async def callback(_mutation: Mutation) -> None:
        await foreign()

    return callback


def synchronous(foreign: Foreign) -> Callable[[Any], Any]:
    def callback(_item: Any) -> None:
        call = foreign()
        try:
            call.send(None)  # type: ignore[attr-defined]  # it raises at once
        finally:
            call.close()  # type: ignore[attr-defined]

    return callback


@pytest.mark.parametrize("shape", [asynchronous, synchronous])
@pytest.mark.parametrize("foreign", AT_ONCE[:3], ids=name_of)
async def test_L1_whatever_a_subscriber_raises_reaches_no_one_else(
    shape: Callable[[Foreign], Any],
    foreign: Foreign,
    autojump_clock: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_world(TimelineProvider(*[text_answer("a")] * 2), limits=LIMITS) as w:
        await w.session()
        watcher = await w.watch()
        async with w.registry.open("s1") as session:
            session.subscribe(shape(foreign), interrupted=synchronous(foreign))
            await (await session.prompt("x")).finished()
            await works_on(w, watcher)
            await w.registry.delete("s1")
            await trio.sleep(1)
    assert "a subscriber of session s1 failed" in caplog.text


@pytest.mark.parametrize("foreign", WHEN_CANCELLED, ids=name_of)
async def test_L1_a_subscriber_that_fails_as_the_server_closes_harms_nobody(
    foreign: Foreign, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_world(TimelineProvider(text_answer("a")), limits=LIMITS) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            session.subscribe(asynchronous(foreign))
            await (await session.prompt("x")).finished()
    assert "a subscriber of session s1 failed" in caplog.text


# ---------------------------------------------------------------------------------------------------------------- tools


@pytest.mark.parametrize("method", ["parse", "question", "run"])
@pytest.mark.parametrize("foreign", AT_ONCE[:3], ids=name_of)
async def test_P5_whatever_a_tool_raises_fails_its_call_alone(
    foreign: Foreign, method: str, autojump_clock: object
) -> None:
    def raises(*_: Any) -> Any:
        synchronous(foreign)(None)

    async def run(_input: Any, _context: ToolContext) -> Any:
        await foreign()

    tool = Tool(
        name="odd",
        description="Odd.",
        input_schema={"type": "object"},
        approval="never",
        timeout_seconds=10.0,
        parse=raises if method == "parse" else lambda text: {},
        run=None if method == "question" else run,
        question=raises if method == "question" else None,
    )
    calls = TimelineProvider(tool_calls(("odd", "{}")), text_answer("fine"), text_answer("good"))
    async with open_world(calls, tools=ToolRegistry((tool,)), limits=LIMITS) as w:
        await w.session()
        watcher = await w.watch()
        assert await exchange(w, "x") == "completed"
        (part,) = [part for m in await w.stored() for part in m["parts"] if part["type"] == "tool"]
        assert part["state"] == "failed"
        await works_on(w, watcher)
