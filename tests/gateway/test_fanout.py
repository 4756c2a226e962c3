"""Feeds: one joined write for each client and turn of the scheduler, and nothing out of place (W4, L1, Z6)."""

import weakref
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway_world import gateway_world
from turnwire.gateway import GatewaySettings
from turnwire.gateway.fanout import FLUSH_BYTES, MOST_REST, Fanout, Feed
from turnwire_protocol.codec import FORMATS, Format

MAX_FRAME = 1024 * 1024


class Taker:
    """A member that keeps what it gets."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.writes: list[bytes] = []
        self.lost = 0

    def feed_mutations(self, session_id: str, frames: Sequence[bytes], joined: bytes) -> None:
        assert session_id == "s"
        assert b"".join(frames) == joined
        self.frames.extend(frames)
        self.writes.append(joined)

    def lose_mutation(self, session_id: str) -> None:
        assert session_id == "s"
        self.lost += 1


class LongTaker(Taker):
    """A member that stands for many: to give it something takes so many seconds."""

    def __init__(self, clock: MockClock, seconds: float) -> None:
        super().__init__()
        self.began: list[float] = []
        self._clock, self._seconds = clock, seconds

    def feed_mutations(self, session_id: str, frames: Sequence[bytes], joined: bytes) -> None:
        super().feed_mutations(session_id, frames, joined)
        self.began.append(trio.current_time())
        self._clock.jump(self._seconds)


def joined_feed(fanout: Fanout, *members: Taker) -> Feed:
    feed = fanout.feed(("s", False, "json"))
    for member in members:
        feed.join(member)
    return feed


async def test_Z6_what_is_said_in_one_turn_is_one_write_of_the_same_bytes_for_all(autojump_clock: MockClock) -> None:
    fanout, one, other = Fanout(MAX_FRAME), Taker(), Taker()
    feed = joined_feed(fanout, one, other)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fanout.run)
        for number in range(5):
            feed.add(b"%d" % number)
        assert one.frames == [], "nobody is woken for each frame"
        await wait_all_tasks_blocked()
        assert one.writes == [b"01234"]
        assert one.writes[0] is other.writes[0]
        feed.add(b"5")
        await wait_all_tasks_blocked()
        assert one.writes == [b"01234", b"5"]
        assert trio.current_time() == 0, "nothing waits"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("seconds", "rest"), [(0.004, 0.004), (1.0, MOST_REST)])
async def test_Z6_after_a_flush_that_takes_long_others_have_the_thread_as_long(
    autojump_clock: MockClock, seconds: float, rest: float
) -> None:
    fanout, member = Fanout(MAX_FRAME), LongTaker(autojump_clock, seconds)
    feed = joined_feed(fanout, member)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fanout.run)
        feed.add(b"0")
        await wait_all_tasks_blocked()
        for number in (b"1", b"2"):
            feed.add(number)
            await wait_all_tasks_blocked()
        assert member.writes == [b"0"]
        await trio.sleep(2)
        assert member.writes == [b"0", b"12"], "what came in the meantime is one write"
        feed.add(b"3")
        await wait_all_tasks_blocked()
        assert member.writes == [b"0", b"12", b"3"], "after the rest nothing waits"
        assert member.began[:2] == [0, pytest.approx(seconds + rest)]
        nursery.cancel_scope.cancel()


async def test_W4_whoever_joins_gets_only_what_comes_after(autojump_clock: MockClock) -> None:
    fanout, early, late = Fanout(MAX_FRAME), Taker(), Taker()
    feed = joined_feed(fanout, early)
    feed.add(b"before")
    feed.join(late)
    assert early.frames == [b"before"], "it does not wait behind the snapshot of another"
    feed.add(b"after")
    fanout.flush()
    assert (early.frames, late.frames) == ([b"before", b"after"], [b"after"])


async def test_L1_whoever_leaves_gets_nothing_more(autojump_clock: MockClock) -> None:
    fanout, staying, leaving = Fanout(MAX_FRAME), Taker(), Taker()
    feed = joined_feed(fanout, staying, leaving)
    feed.add(b"unsent")
    feed.leave(leaving)
    feed.leave(leaving)
    fanout.flush()
    assert (staying.frames, leaving.frames) == ([b"unsent"], [])


async def test_Z6_there_is_one_feed_as_long_as_somebody_holds_it_and_none_after(autojump_clock: MockClock) -> None:
    fanout = Fanout(MAX_FRAME)
    feed = joined_feed(fanout, Taker())
    assert fanout.feed(("s", False, "json")) is feed
    held = weakref.ref(feed)
    del feed
    assert held() is None


async def test_W6_a_feed_does_not_grow_while_nobody_else_runs(autojump_clock: MockClock) -> None:
    fanout, member = Fanout(MAX_FRAME), Taker()
    feed = joined_feed(fanout, member)
    for _ in range(10):
        feed.add(b"x" * (FLUSH_BYTES // 4))
    assert [len(write) for write in member.writes] == [FLUSH_BYTES] * 2
    fanout.flush()
    assert len(member.frames) == 10


async def test_W10_a_mutation_above_max_frame_makes_everyone_reload(autojump_clock: MockClock) -> None:
    settings = GatewaySettings(max_frame_bytes=2000)
    async with gateway_world(settings) as world, world.client() as one, world.client() as other:
        world.sessions.add("s")
        for client in (one, other):
            await client.result("subscribe", session_id="s")
        world.sessions.say("s", "fits")
        world.sessions.say("s", "x" * 3000)
        world.sessions.say("s", "comes too late")
        for client in (one, other):
            assert (await client.op("reload"))["reason"] == "lagged"
            assert client.deltas("s") == ["fits"]
            await client.result("reload", session_id="s")
        world.sessions.say("s", "goes on")
        for client in (one, other):
            await client.find(lambda frame: frame.get("delta") == "goes on")


async def test_M4_each_audience_and_format_has_its_own_line(autojump_clock: MockClock) -> None:
    async with (
        gateway_world() as world,
        world.client() as visible,
        world.client() as internal,
        world.client("msgpack") as packed,
    ):
        world.sessions.add("s")
        await visible.result("subscribe", session_id="s")
        await internal.result("subscribe", session_id="s", include_internal=True)
        await packed.result("subscribe", session_id="s")
        world.sessions.say("s", "for all")
        world.sessions.say("s", "for some", internal=True)
        world.sessions.say("s", "for all again")
        for client, texts in (
            (visible, ["for all", "for all again"]),
            (internal, ["for all", "for some", "for all again"]),
            (packed, ["for all", "for all again"]),
        ):
            await client.find(lambda frame: frame.get("delta") == "for all again")
            assert client.deltas("s") == texts
            assert [frame["seq"] for frame in client.ops("mutation")] == list(range(1, len(texts) + 1))


async def test_W8_the_last_mutations_go_out_before_the_close() -> None:
    async with gateway_world(network=True) as world, world.client() as client:
        world.sessions.add("s")
        await client.result("subscribe", session_id="s")
        await client.op("snapshot")
        world.sessions.say("s", "the reason")
        await world.gateway.drain()
        assert await client.wait_closed() == 1012
        assert client.deltas("s") == ["the reason"]


@pytest.mark.parametrize("format", FORMATS)
async def test_W5_who_changes_the_audience_goes_on_by_the_numbers_of_the_other_one(
    format: Format, autojump_clock: MockClock
) -> None:
    async with gateway_world() as world, world.client(format) as client:
        world.sessions.add("s")
        assert (await client.result("subscribe", session_id="s", include_internal=True))["seq"] == 0
        for number in range(6):
            world.sessions.say("s", f"{number}", internal=number % 2 == 0)
        await client.find(lambda frame: frame.get("seq") == 6 and frame["op"] == "mutation")
        for include_internal, seq in ((False, 3), (True, 6), (False, 3)):
            start = len(client.frames)
            result = await client.result("subscribe", session_id="s", include_internal=include_internal)
            assert result["seq"] == seq
            assert (await client.op("snapshot", after=start))["seq"] == seq
        world.sessions.say("s", "hidden", internal=True)
        world.sessions.say("s", "seen")
        last = await client.find(lambda frame: frame.get("delta") == "seen")
        assert last["seq"] == 4
        assert "hidden" not in client.deltas("s")
