"""The timeline model: exact times, one timeline a call, failures and broken grammar as told."""

from contextlib import aclosing

import pytest
import trio
from trio.testing import MockClock

from turnwire.models.base import BlockDelta, BlockStart, ModelError, StepEnd
from turnwire.models.timeline import ScriptExhausted, Timeline, TimelineProvider

from .conftest import Collect, MakeRequest


async def test_S1_events_come_at_their_times(
    make_request: MakeRequest, collect: Collect, autojump_clock: MockClock
) -> None:
    timeline: Timeline = [(0.5, BlockStart(7, "text")), (0.5, BlockDelta(7, "a")), (3600.0, StepEnd((7,)))]
    model = TimelineProvider(timeline)
    assert await collect(model.stream(make_request("hi"))) == timeline


async def test_T5_each_call_plays_its_own_timeline(make_request: MakeRequest, collect: Collect) -> None:
    model = TimelineProvider([(0.0, ModelError("overloaded", "busy"))], [(0.0, StepEnd(()))])
    with pytest.raises(ModelError, match="busy"):
        await collect(model.stream(make_request("hi", attempt=1)))
    events = await collect(model.stream(make_request("hi", attempt=2)))
    assert [event for _, event in events] == [StepEnd(())]
    assert [request.attempt for request in model.requests] == [1, 2]
    with pytest.raises(ScriptExhausted, match="call 3"):
        await collect(model.stream(make_request("hi")))


async def test_S2_broken_grammar_is_played_as_told(make_request: MakeRequest, collect: Collect) -> None:
    broken: Timeline = [(0.0, StepEnd((1, 2))), (0.0, BlockDelta(9, "after the end"))]
    assert [event for _, event in await collect(TimelineProvider(broken).stream(make_request("hi")))] == [
        StepEnd((1, 2)),
        BlockDelta(9, "after the end"),
    ]


async def test_T3_running_says_whether_a_stream_was_let_go(
    make_request: MakeRequest, autojump_clock: MockClock
) -> None:
    model = TimelineProvider([(0.0, BlockStart(0, "text")), (1e6, StepEnd((0,)))])
    with trio.move_on_after(1):
        async with aclosing(model.stream(make_request("hi"))) as events:
            async for _ in events:
                assert model.running == 1
    assert model.running == 0
