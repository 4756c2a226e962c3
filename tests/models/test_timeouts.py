"""Limits of a model call, on virtual time."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
import trio
from trio.testing import MockClock

from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelError, ModelEvent, StepEnd
from turnwire.models.timeline import Timeline, TimelineProvider
from turnwire.models.timeouts import CLOSE_SECONDS, with_timeouts

from .conftest import Collect, MakeRequest

WHOLE: Timeline = [
    (5.0, BlockStart(0, "text")),
    (10.0, BlockDelta(0, "a")),
    (19.0, BlockEnd(0)),
    (19.5, StepEnd((0,))),
]


async def test_K7_a_call_within_its_limits_passes_unchanged(
    make_request: MakeRequest, collect: Collect, autojump_clock: MockClock
) -> None:
    stream = TimelineProvider(WHOLE).stream(make_request("hi"))
    assert await collect(with_timeouts(stream, first_event=5.1, idle=9.1, total=19.6)) == WHOLE


@pytest.mark.parametrize(
    ("first_event", "idle", "total", "at", "sentence"),
    [
        (4.9, 100.0, 100.0, 4.9, "did not begin to answer within 4.9 s"),
        (100.0, 8.9, 100.0, 18.9, "sent nothing more for 8.9 s"),
        (100.0, 100.0, 12.0, 12.0, "took longer in all than 12 s"),
        (100.0, 100.0, 2.0, 2.0, "took longer in all than 2 s"),
        (None, None, 3.0, 3.0, "took longer in all than 3 s"),
        (None, 4.0, None, 9.0, "sent nothing more for 4 s"),
    ],
)
async def test_K7_each_limit_says_its_name_at_its_time(
    first_event: float | None,
    idle: float | None,
    total: float | None,
    at: float,
    sentence: str,
    make_request: MakeRequest,
    collect: Collect,
    autojump_clock: MockClock,
) -> None:
    model = TimelineProvider(WHOLE)
    start = trio.current_time()
    with pytest.raises(ModelError, match=sentence) as caught:
        await collect(with_timeouts(model.stream(make_request("hi")), first_event=first_event, idle=idle, total=total))
    assert caught.value.code == "timeout"
    assert caught.value.retryable
    assert trio.current_time() - start == pytest.approx(at)
    assert model.running == 0


async def test_K7_no_limits_wait_for_ever(
    make_request: MakeRequest, collect: Collect, autojump_clock: MockClock
) -> None:
    model = TimelineProvider([(1e6, StepEnd(()))])
    stream = with_timeouts(model.stream(make_request("hi")), first_event=None, idle=None, total=None)
    assert [event for _, event in await collect(stream)] == [StepEnd(())]


async def test_K7_the_readers_own_time_is_not_the_models_silence(
    make_request: MakeRequest, autojump_clock: MockClock
) -> None:
    stream = with_timeouts(TimelineProvider(WHOLE).stream(make_request("hi")), first_event=6, idle=10, total=None)
    seen = 0
    async with aclosing(stream):
        async for _ in stream:
            seen += 1
            await trio.sleep(1000)
    assert seen == len(WHOLE)


@pytest.mark.parametrize("events", [WHOLE[:0], WHOLE[:1], WHOLE[:3]])
async def test_S8_a_stream_that_ends_early_was_cut(
    events: Timeline, make_request: MakeRequest, collect: Collect, autojump_clock: MockClock
) -> None:
    with pytest.raises(ModelError) as caught:
        await collect(with_timeouts(TimelineProvider(events).stream(make_request("hi"))))
    assert caught.value.code == "cut_stream"
    assert caught.value.retryable


async def test_T5_the_models_own_failure_passes(
    make_request: MakeRequest, collect: Collect, autojump_clock: MockClock
) -> None:
    error = ModelError("overloaded", "busy")
    with pytest.raises(ModelError) as caught:
        await collect(with_timeouts(TimelineProvider([(1.0, error)]).stream(make_request("hi"))))
    assert caught.value is error


async def test_T3_leaving_early_and_cancelling_close_the_call(
    make_request: MakeRequest, autojump_clock: MockClock
) -> None:
    model = TimelineProvider(WHOLE, WHOLE)
    async with aclosing(with_timeouts(model.stream(make_request("hi")))) as stream:
        assert await anext(stream) == BlockStart(0, "text")
        assert model.running == 1
    assert model.running == 0
    with trio.move_on_after(1) as scope:
        async with aclosing(with_timeouts(model.stream(make_request("hi")))) as stream:
            await anext(stream)
    assert scope.cancelled_caught
    assert model.running == 0


async def test_T3_a_call_that_does_not_close_is_left_after_two_seconds(autojump_clock: MockClock) -> None:
    async def stubborn() -> AsyncGenerator[ModelEvent, None]:
        try:
            yield BlockStart(0, "text")
        finally:
            await trio.sleep(3600)

    start = trio.current_time()
    with trio.CancelScope() as scope:
        async with aclosing(with_timeouts(stubborn())) as stream:
            await anext(stream)
            scope.cancel()
    assert trio.current_time() - start == pytest.approx(2)


async def test_K7_a_stream_that_does_not_end_after_a_whole_answer_is_closed_and_no_failure(
    make_request: MakeRequest, collect: Collect, autojump_clock: MockClock
) -> None:
    stream = TimelineProvider([*WHOLE, (500.0, BlockDelta(0, "far too late"))]).stream(make_request("hi"))
    assert await collect(with_timeouts(stream, first_event=5.1, idle=9.1, total=19.6)) == WHOLE
    assert trio.current_time() <= 19.5 + CLOSE_SECONDS
