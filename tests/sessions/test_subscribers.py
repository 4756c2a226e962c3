"""In-process subscribers: what counts as an async callback, and what they hear when their Session fails (L1)."""

from functools import partial

import pytest
import trio

from sessions_world import MakeWorld, break_down, text_answer
from turnwire.sessions.environment import SessionLimits
from turnwire.sessions.handles import SessionHandle
from turnwire_protocol.codes import RequestError
from turnwire_protocol.mutations import Mutation, TurnFinish, TurnStart


class Recorder:
    """Takes Mutations, in several shapes that Python calls async."""

    def __init__(self) -> None:
        self.seen: list[Mutation] = []

    async def __call__(self, mutation: Mutation) -> None:
        await trio.sleep(1)
        self.seen.append(mutation)

    async def method(self, mutation: Mutation) -> None:
        await self(mutation)

    async def labelled(self, label: str, mutation: Mutation) -> None:
        await self(mutation)


@pytest.mark.parametrize("shape", ["object", "method", "partial", "partial of an object"])
async def test_L1_any_async_callable_is_awaited_in_order(
    shape: str, autojump_clock: object, world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, in_place = Recorder(), list[Mutation]()
    callback = {
        "object": recorder,
        "method": recorder.method,
        "partial": partial(recorder.labelled, "x"),
        "partial of an object": partial(recorder),
    }[shape]
    async with world(text_answer("a", "b")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            session.subscribe(in_place.append)
            session.subscribe(callback)
            await (await session.prompt("x")).finished()
            await trio.sleep(60)
    assert recorder.seen == in_place
    assert isinstance(in_place[-1], TurnFinish)
    assert caplog.text == ""


async def test_L1_a_callback_that_hides_that_it_is_async_is_a_logged_fault(
    autojump_clock: object, world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    async with world(text_answer("a")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            session.subscribe(lambda mutation: recorder(mutation))
            assert (await (await session.prompt("x")).finished()).status == "completed"
    assert recorder.seen == []
    assert "async function" in caplog.text


# --------------------------------------------------------------------------------------------- a Session that fails


class Follower:
    """Follows a Session, sync or async, and notes what it hears in that order."""

    def __init__(self, session: SessionHandle, *, is_async: bool) -> None:
        self.heard: list[Mutation | str] = []
        callback = self._take_slowly if is_async else self.heard.append
        self.unsubscribe = session.subscribe(callback, interrupted=self.heard.append)

    async def _take_slowly(self, mutation: Mutation) -> None:
        await trio.sleep(0.1)
        self.heard.append(mutation)

    @property
    def notices(self) -> list[str]:
        """What it was told of its subscription and of Turns, by name."""
        return [
            item if isinstance(item, str) else type(item).__name__
            for item in self.heard
            if isinstance(item, str | TurnStart | TurnFinish)
        ]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("running", [False, True])
async def test_L1_a_subscriber_is_told_when_its_session_was_recovered_and_goes_on_following_it(
    running: bool, is_async: bool, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(*[text_answer("a", every=5.0)] * 2) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            follower = Follower(session, is_async=is_async)
            before = []
            if running:
                await session.prompt("x")
                before = ["TurnStart"]
            await trio.sleep(1)
            await break_down(w)
            assert follower.notices == [*before, "restarted"]
            assert (await (await session.prompt("y")).finished()).status == "completed"
            await trio.sleep(10)
            assert follower.notices == [*before, "restarted", "TurnStart", "TurnFinish"]
            follower.unsubscribe()
            follower.unsubscribe()
            await break_down(w)
            assert follower.notices[-1] == "TurnFinish"


async def test_L1_who_subscribes_after_a_fault_follows_what_comes(autojump_clock: object, world: MakeWorld) -> None:
    async with world(text_answer("a")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            await break_down(w)
            follower = Follower(session, is_async=False)
            await (await session.prompt("x")).finished()
            assert follower.notices == ["TurnStart", "TurnFinish"]


@pytest.mark.parametrize("hold", ["pin", "subscription"])
async def test_L1_what_holds_a_session_in_memory_does_so_again_after_a_fault(
    hold: str, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            follower = Follower(session, is_async=False)
            if hold == "pin":
                follower.unsubscribe()
            await break_down(w)
            await (await session.prompt("x")).finished()
            w.registry.evict_idle()
            assert w.registry.live_sessions == 1
        w.registry.evict_idle()
        assert w.registry.live_sessions == (0 if hold == "pin" else 1)
        follower.unsubscribe()
        w.registry.evict_idle()
        assert w.registry.live_sessions == 0
        with pytest.raises(RequestError) as refused:
            session.subscribe(follower.heard.append)
        assert refused.value.code == "unavailable"


@pytest.mark.parametrize("is_async", [False, True])
async def test_L1_a_subscriber_is_told_when_nothing_more_comes_because_the_session_was_deleted(
    is_async: bool, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a", every=5.0)) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            follower = Follower(session, is_async=is_async)
            await session.prompt("x")
            await w.registry.delete("s1")
            await trio.sleep(10)
            assert follower.notices == ["TurnStart", "TurnFinish", "deleted"]
            with pytest.raises(RequestError) as refused:
                session.subscribe(follower.heard.append)
            assert refused.value.code == "not_found"


async def test_L1_an_async_subscriber_that_falls_behind_is_told_so_and_holds_nothing_in_memory(
    autojump_clock: object, world: MakeWorld
) -> None:
    limits = SessionLimits(callback_backlog=3)
    async with world(text_answer(*"abcdefgh", every=0.01), limits=limits) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            follower = Follower(session, is_async=True)
            await (await session.prompt("x")).finished()
        w.registry.evict_idle()
        assert w.registry.live_sessions == 0
        await trio.sleep(10)
        assert follower.notices == ["TurnStart", "lagged"]


async def test_L1_what_interrupted_raises_is_logged_and_reaches_no_one_else(
    autojump_clock: object, world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(reason: str) -> None:
        raise ZeroDivisionError(reason)

    async with world(text_answer("a")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            session.subscribe(lambda mutation: None, interrupted=broken)
            follower = Follower(session, is_async=False)
            await break_down(w)
            assert follower.notices == ["restarted"]
    assert "ZeroDivisionError: restarted" in caplog.text
