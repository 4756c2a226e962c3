"""Clients that read slowly, or not at all, on links of a known rate and in virtual time (W6, W8)."""

import itertools

import pytest
import trio
from trio.testing import MockClock
from websockets.exceptions import ConnectionClosed

from gateway_world import PATIENCE_SECONDS, Client, Map, Pipe, World, gateway_world, no_traceback
from turnwire.gateway import GatewaySettings

KIB = 1024


async def gone(link: Pipe) -> None:
    """The server has ended it."""
    with trio.fail_after(PATIENCE_SECONDS):
        await link.over.wait()


def is_delta(frame: Map) -> bool:
    return frame.get("variant") == "delta"


async def say_all(world: World, texts: list[str], *, every: float = 0.001) -> None:
    for text in texts:
        world.sessions.say("s", text)
        await trio.sleep(every)


def check_contiguous(client: Client) -> None:
    """No Mutation follows a lost one, unless a `reload` notice and a snapshot came between (W5, W6)."""
    position: int | None = None
    told = True
    for frame in client.frames:
        if frame["op"] == "snapshot" and frame["part"] == frame["parts"]:
            position, told = frame["seq"], True
        elif frame["op"] == "reload":
            told = False
        elif frame["op"] == "mutation" and told and position is not None and frame["seq"] > position:
            assert frame["seq"] == position + 1
            position = frame["seq"]


async def test_R2_one_slow_reader_gets_reload_and_nobody_else_notices(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    settings = GatewaySettings(outbox_bytes=64 * KIB)
    slow_link = Pipe(capacity=16 * KIB)
    texts = [f"{number}:" + "x" * 1000 for number in range(400)]
    with no_traceback(caplog):
        async with gateway_world(settings) as world, world.client() as fast, world.client(downlink=slow_link) as slow:
            world.sessions.add("s")
            await fast.result("subscribe", session_id="s")
            await slow.result("subscribe", session_id="s")
            await slow.op("snapshot")
            slow_link.stall()
            await say_all(world, texts)
            await fast.count(400, is_delta)
            assert fast.deltas("s") == texts
            assert fast.times[-1] < 0.5, "in time, although the other does not read at all"
            assert world.gateway.pending_bytes < 64 * KIB + 16 * KIB
            slow_link.resume()
            assert (await slow.op("reload"))["reason"] == "lagged"
            world.sessions.say("s", "unseen")
            await slow.result("reload", session_id="s")
            world.sessions.say("s", "seen")
            await slow.find(lambda frame: is_delta(frame) and frame["delta"] == "seen")
            assert "unseen" not in slow.deltas("s")
            assert len(slow.ops("reload")) == 1
            check_contiguous(slow)
            assert not slow.closed.is_set()


async def test_R3_a_client_that_is_behind_again_and_again_is_never_disconnected(autojump_clock: MockClock) -> None:
    settings = GatewaySettings(outbox_bytes=32 * KIB)
    link = Pipe(capacity=8 * KIB, rate=10 * KIB)
    async with gateway_world(settings) as world, world.client(downlink=link) as client:
        world.sessions.add("s")
        world.sessions.padding = 10 * KIB
        world.sessions.parts = 3
        await client.result("subscribe", session_id="s")

        async def reload_when_told() -> None:
            seen = 0
            while True:
                await client.find(lambda frame: frame["op"] == "reload", after=seen)
                seen = len(client.frames)
                await client.result("reload", session_id="s")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reload_when_told)
            await say_all(world, ["x" * 1000] * 3000, every=0.05)  # twice what the link carries, for 150 s
            nursery.cancel_scope.cancel()
        assert not client.closed.is_set()
        assert len(client.ops("reload")) > 3
        whole = [frame for frame in client.ops("snapshot") if frame["part"] == frame["parts"]]
        assert len(whole) > 3, "it sees one whole state after the other"
        check_contiguous(client)


async def test_R4_a_large_snapshot_gets_through_a_thin_link_while_ticks_arrive(autojump_clock: MockClock) -> None:
    link = Pipe(capacity=16 * KIB, rate=50_000)
    async with gateway_world() as world, world.client(downlink=link) as client:
        world.sessions.add("s")
        world.sessions.padding = 128 * KIB
        world.sessions.parts = 16
        start = trio.current_time()
        await client.result("subscribe", session_id="s")
        for number in range(200):
            await trio.sleep(0.1)
            world.sessions.say("s", str(number))
        await client.find(lambda frame: frame["op"] == "snapshot" and frame["part"] == 16)
        assert 40 < trio.current_time() - start < 60
        await client.count(200, is_delta)
        assert [frame["part"] for frame in client.ops("snapshot")] == list(range(1, 17))
        assert client.ops("reload") == []
        ticks = [at for frame, at in zip(client.frames, client.times, strict=True) if frame["op"] == "tick"]
        assert len(ticks) >= 2
        assert all(at % 15 < 6 for at in ticks), "a tick waits for the frame before it at most"


async def test_R4_mutations_go_between_the_parts_of_a_snapshot(autojump_clock: MockClock) -> None:
    link = Pipe(capacity=8 * KIB, rate=50_000)
    async with gateway_world() as world, world.client(downlink=link) as client:
        world.sessions.add("s")
        world.sessions.padding = 64 * KIB
        world.sessions.parts = 4
        await client.result("subscribe", session_id="s")
        world.sessions.say("s", "meanwhile")
        await client.op("mutation")
        assert len(client.ops("snapshot")) < 4


async def test_W8_a_client_that_takes_no_byte_is_given_up(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    link = Pipe(capacity=4 * KIB)
    with no_traceback(caplog):
        async with gateway_world() as world, world.client(downlink=link) as client, world.client() as other:
            session = world.sessions.add("s")
            for each in (client, other):
                await each.result("subscribe", session_id="s")
                await each.op("snapshot")
            link.stall()
            start = trio.current_time()
            world.sessions.say("s", "x" * 10_000)
            await gone(link)
            assert 29 <= trio.current_time() - start <= 32
            assert session.channel.watched, "the other goes on"
            await other.count(1, is_delta)


async def test_W6_a_client_that_reads_a_little_is_not_given_up(autojump_clock: MockClock) -> None:
    link = Pipe(capacity=4 * KIB, rate=1000)
    async with gateway_world() as world, world.client() as watcher, world.client(downlink=link) as client:
        world.sessions.add("s")
        await client.result("subscribe", session_id="s")
        world.sessions.say("s", "x" * 300_000)
        await client.count(1, is_delta)
        assert trio.current_time() > 250
        assert not client.closed.is_set()
        assert not watcher.closed.is_set()


async def test_W6_a_flood_in_one_session_starves_neither_replies_nor_ticks_nor_the_other_sessions(
    autojump_clock: MockClock,
) -> None:
    link = Pipe(capacity=16 * KIB, rate=50_000)
    async with gateway_world(GatewaySettings(tick_ms=5000)) as world, world.client(downlink=link) as client:
        for name in ("flood", "quiet"):
            world.sessions.add(name)
            await client.result("subscribe", session_id=name)

        async def flood() -> None:
            while True:
                world.sessions.say("flood", "x" * 10_000)  # ten times what the link carries
                await trio.sleep(0.02)

        async def reload_when_told() -> None:
            seen = 0
            while True:
                await client.find(lambda frame: frame["op"] == "reload", after=seen)
                seen = len(client.frames)
                await client.result("reload", session_id="flood")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood)
            nursery.start_soon(reload_when_told)
            delays = []
            for number in range(60):
                world.sessions.say("quiet", str(number))
                start = trio.current_time()
                await client.result("ping")
                delays.append(trio.current_time() - start)
                await trio.sleep(1)
            nursery.cancel_scope.cancel()
        assert max(delays) < 3, "an answer waits for what is being written at most"
        notices = client.ops("reload")
        assert {notice["session_id"] for notice in notices} == {"flood"}
        assert len(notices) > 2
        assert client.deltas("quiet")[:58] == [str(number) for number in range(58)]
        arrivals = [
            at for frame, at in zip(client.frames, client.times, strict=True) if frame.get("session_id") == "quiet"
        ]
        assert max(later - earlier for earlier, later in itertools.pairwise(arrivals[2:])) < 6
        ticks = [at for frame, at in zip(client.frames, client.times, strict=True) if frame["op"] == "tick"]
        assert len(ticks) >= 10
        assert all(at % 5 < 2 for at in ticks)


@pytest.mark.parametrize("busy", [False, True])
async def test_R1_a_black_hole_is_noticed_and_a_quiet_client_is_kept(
    busy: bool, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    hole = Pipe()
    with no_traceback(caplog):
        async with gateway_world() as world, world.client() as quiet, world.client(downlink=hole) as lost:
            world.sessions.add("s")
            await lost.result("subscribe", session_id="s")
            hole.stall()
            start = trio.current_time()
            while busy and not hole.over.is_set() and trio.current_time() - start < PATIENCE_SECONDS:
                world.sessions.say("s", "into the void")
                await trio.sleep(1)
            await gone(hole)
            assert 45 <= trio.current_time() - start <= 62
            await trio.sleep(3600)
            assert not quiet.closed.is_set()
            assert len(quiet.ops("tick")) >= 240
            assert world.gateway.connection_count == 1


async def test_W8_a_busy_worker_does_not_starve_pongs(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        world.sessions.add("s")
        world.sessions.hold = trio.Event()
        for _ in range(60):
            await client.ask("session.get", session_id="s")
        for _ in range(10):
            with trio.fail_after(1):
                await (await client.socket.ping()).wait()
        await trio.sleep(300)
        assert not client.closed.is_set()
        world.sessions.hold.set()
        await client.count(60, lambda frame: frame["op"] == "result")


async def flood(client: Client, count: int) -> None:
    try:
        for _ in range(count):
            await client.ask("session.get", session_id="s")
    except ConnectionClosed:
        return


async def test_Z1_a_client_that_floods_and_does_not_read_is_closed_and_costs_little(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    link = Pipe(capacity=4 * KIB)
    with no_traceback(caplog):
        async with gateway_world() as world, world.client(downlink=link) as client, world.client() as other:
            world.sessions.add("s", title="t" * 5000)
            link.stall()
            most = 0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(flood, client, 5000)
                while not link.over.is_set():
                    most = max(most, world.gateway.pending_bytes)
                    await trio.sleep(0.01)
            assert trio.current_time() < 20
            assert 64 * KIB < most < 200 * KIB
            assert await other.result("ping") == {}


async def test_Z1_a_flood_is_told_4429_when_its_answers_are_not_read(autojump_clock: MockClock) -> None:
    link = Pipe(capacity=4 * KIB)
    async with gateway_world() as world, world.client(downlink=link) as client:
        world.sessions.add("s", title="t" * 5000)
        link.stall()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, client, 2000)
            await trio.sleep(0.5)
            link.resume()
            assert await client.wait_closed() == 4429


async def test_Z1_requests_that_wait_are_bounded_in_bytes(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        world.sessions.add("s")
        world.sessions.hold = trio.Event()
        asked = [
            await client.ask("prompt", session_id="s", client_request_id=f"r-{n}", text="x" * 900_000) for n in range(6)
        ]
        assert (await client.answer(asked[-1]))["code"] == "rate_limited"
        world.sessions.hold.set()
        answers = [await client.answer(request_id) for request_id in asked]
        assert [answer["op"] for answer in answers] == ["result"] * 3 + ["error"] * 3


@pytest.mark.parametrize("again", ["subscribe", "reload"])
async def test_Z1_snapshots_that_wait_are_bounded_in_bytes_and_come_whole_when_they_can(
    again: str, autojump_clock: MockClock
) -> None:
    names = [f"s{number}" for number in range(40)]
    one = 2 * 50 * KIB
    link = Pipe(capacity=4 * KIB)
    settings = GatewaySettings(snapshot_bytes=300 * KIB)
    async with gateway_world(settings) as world, world.client(downlink=link) as slow, world.client() as other:
        for name in names:
            world.sessions.add(name)
            await slow.result("subscribe", session_id=name)
        world.sessions.padding = 50 * KIB
        world.sessions.parts = 2
        link.stall()
        for name in names:
            await slow.ask(again, session_id=name)
        asked = await slow.ask("ping")
        await trio.sleep(20)
        most = world.gateway.pending_bytes
        assert 300 * KIB < most <= 300 * KIB + one + 60 * KIB, "the bound, one snapshot, and what is being written"
        await other.result("subscribe", session_id="s39")
        world.sessions.say("s39", "newer than what they asked for")
        assert await other.result("ping") == {}
        link.resume()
        assert (await slow.answer(asked))["result"] == {}, "what was asked after them is answered after them"
        await slow.count(40 + 2 * 40, lambda frame: frame["op"] == "snapshot")
        whole = [frame for frame in slow.ops("snapshot") if frame["parts"] == 2 and frame["part"] == 2]
        assert sorted(frame["session_id"] for frame in whole) == sorted(names)
        assert slow.ops("error") == slow.ops("reload") == []
        assert {frame["session_id"]: frame["seq"] for frame in whole}["s39"] == 1, "as new as it can be"
        assert world.gateway.pending_bytes == 0


async def test_Z1_who_asks_for_snapshots_and_goes_away_leaves_nothing_waiting(autojump_clock: MockClock) -> None:
    link = Pipe(capacity=4 * KIB)
    async with gateway_world(GatewaySettings(snapshot_bytes=10 * KIB)) as world:
        world.sessions.padding = 50 * KIB
        async with world.client(downlink=link) as client:
            link.stall()
            for number in range(10):
                world.sessions.add(f"s{number}")
                await client.ask("subscribe", session_id=f"s{number}")
            await gone(link)
        assert world.gateway.pending_bytes == 0
        for name in world.sessions.sessions:
            await world.sessions.wait_unwatched(name)


async def test_Z1_pings_are_answered_no_faster_than_the_client_reads(autojump_clock: MockClock) -> None:
    link = Pipe(capacity=4 * KIB)
    async with gateway_world() as world, world.client(downlink=link) as client, world.client() as other:
        link.stall()

        async def ping_without_end() -> None:
            try:
                for number in range(3000):
                    await client.socket.ping(f"{number:0>100}")
            except ConnectionClosed:
                return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ping_without_end)
            await trio.sleep(20)
            assert world.gateway.pending_bytes < 150 * KIB
            await trio.sleep(60)
            assert world.gateway.connection_count == 1
        assert await other.result("ping") == {}


async def test_W8_closing_a_client_that_does_not_read_ends_in_time(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    link = Pipe(capacity=4 * KIB)
    with no_traceback(caplog):
        async with gateway_world() as world, world.client(downlink=link) as client:
            world.sessions.add("s")
            await client.result("subscribe", session_id="s")
            link.stall()
            world.sessions.say("s", "x" * 100_000)
            await client.socket.send(b"wrong kind")
            start = trio.current_time()
            await gone(link)
            assert trio.current_time() - start <= 11
