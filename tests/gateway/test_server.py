"""The gateway as a whole: ticks for all, and the orderly end (W8, R5)."""

import math
from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from websockets.exceptions import InvalidStatus

from gateway_world import Client, Pipe, World, gateway_world, no_traceback
from turnwire.gateway import GatewaySettings, server
from turnwire_protocol.codec import FORMATS, Format

OPENING = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


async def test_W8_every_client_gets_a_tick_on_time_whatever_else_flows(autojump_clock: MockClock) -> None:
    async with (
        gateway_world(GatewaySettings(tick_ms=5000)) as world,
        world.client() as quiet,
        world.client("msgpack") as busy,
        world.client(hello=False) as strange,
    ):
        world.sessions.add("s")
        await busy.result("subscribe", session_id="s")
        for _ in range(160):
            await trio.sleep(0.1)
            world.sessions.say("s", "text")
        for client in (quiet, busy):
            times = [at for frame, at in zip(client.frames, client.times, strict=True) if frame["op"] == "tick"]
            assert times == pytest.approx([5, 10, 15], abs=0.01)
        assert strange.ops("tick") == [], "nothing comes before welcome"


async def test_W8_a_tick_for_many_clients_leaves_other_tasks_their_turn(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "TICKS_PER_STEP", 1)
    links = [Pipe() for _ in range(20)]
    async with gateway_world(GatewaySettings(tick_ms=5000)) as world, AsyncExitStack() as clients:
        for link in links:
            await clients.enter_async_context(world.client(downlink=link))
        before = [link.sent for link in links]
        seen = {0}
        await trio.sleep_until(5)
        while max(seen) < len(links):
            seen.add(sum(link.sent > count for link, count in zip(links, before, strict=True)))
            await trio.lowlevel.checkpoint()
        assert len(seen) > len(links) / 4, "another task saw few of them have it, then some more, and so on"


async def test_R5_a_restart_is_announced_with_spread_hints_and_closed_with_1012(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    hints: list[int] = []
    codes: list[int | None] = []

    async def leave_when_told(world: World, *, task_status: trio.TaskStatus[Client]) -> None:
        async with world.client() as client:
            task_status.started(client)
            hints.append((await client.op("draining"))["retry_after_ms"])
            codes.append(await client.wait_closed())

    with no_traceback(caplog):
        async with gateway_world() as world:
            async with trio.open_nursery() as nursery:
                for _ in range(30):
                    await nursery.start(leave_when_told, world)
                await world.gateway.drain()
            assert codes == [1012] * 30
            assert all(1000 <= hint <= 5000 for hint in hints)
            assert len(set(hints)) > 20
            assert trio.current_time() < 1, "nobody was waited for"
            await world.served.wait()


async def test_W8_after_the_announcement_clients_are_served_and_new_ones_refused(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client, world.client(hello=False) as strange:
        world.gateway.announce()
        await client.op("draining")
        assert strange.ops("draining") == [], "nothing comes before welcome"
        assert (await strange.request("hello"))["op"] == "welcome"
        hint = (await strange.op("draining"))["retry_after_ms"]
        assert hint != client.ops("draining")[0]["retry_after_ms"]
        assert [frame["op"] for frame in strange.frames] == ["welcome", "draining"]
        assert (await strange.request("hello"))["op"] == "welcome"
        assert await strange.result("ping") == {}
        assert len(strange.ops("draining")) == 1, "a renewed token is no reason to say it again"
        assert await client.result("ping") == {}
        with pytest.RaisesGroup(InvalidStatus, flatten_subgroups=True) as caught:
            async with world.client():
                pass
        refusal: BaseException = caught.value
        while isinstance(refusal, BaseExceptionGroup):
            (refusal,) = refusal.exceptions
        assert isinstance(refusal, InvalidStatus)
        assert refusal.response.status_code == 503
        assert 1 <= int(refusal.response.headers["Retry-After"]) <= 5


async def opened(world: World) -> str:
    """What becomes of a client that comes as the server is about to stop."""
    became = "told"
    try:
        async with world.client() as client:
            await client.op("draining")
    except* InvalidStatus:
        became = "refused"
    return became


async def test_W8_whoever_comes_in_the_moment_of_the_announcement_is_told_or_refused(autojump_clock: MockClock) -> None:
    seen: set[str] = set()

    async def come(world: World) -> None:
        with trio.fail_after(60):
            seen.add(await opened(world))

    for steps in range(60):
        async with gateway_world() as world, trio.open_nursery() as nursery:
            nursery.start_soon(come, world)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            world.gateway.announce()
    assert seen == {"told", "refused"}


async def test_W8_whoever_comes_in_the_moment_of_the_end_is_closed_with_1012_or_refused(
    autojump_clock: MockClock,
) -> None:
    """The server is kept a while by somebody else, who does not answer its close."""
    seen: set[int | None] = set()

    async def come(world: World) -> None:
        try:
            async with world.client(hello=False) as client:
                seen.add(await client.wait_closed())
        except* InvalidStatus:
            seen.add(503)

    for steps in range(60):
        async with gateway_world() as world, await world.stream() as silent, trio.open_nursery() as nursery:
            await silent.send_all(OPENING)
            await wait_all_tasks_blocked()
            nursery.start_soon(come, world)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            await world.gateway.drain()
    assert seen == {1012, 503}


async def test_W8_what_was_asked_before_the_end_is_answered_before_the_close(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client, world.client() as idle:
        world.sessions.add("s")
        world.sessions.hold = trio.Event()
        asked = [await client.ask("session.get", session_id="s") for _ in range(3)]
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.gateway.drain)
            assert await idle.wait_closed() == 1012, "who has nothing to wait for is not kept"
            await trio.sleep(1)
            late = await client.ask("ping")
            world.sessions.hold.set()
            assert await client.wait_closed() == 1012
        assert trio.current_time() < 2
        assert [frame["id"] for frame in client.ops("result")] == asked
        assert late not in [frame.get("id") for frame in client.frames], "the end is not put off by new requests"


async def test_X3_of_a_connection_that_is_being_closed_no_further_request_is_begun(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        session = world.sessions.add("s")
        world.sessions.hold = trio.Event()
        for number in range(5):
            await client.ask("prompt", session_id="s", client_request_id=f"r{number}", text="x")
        await wait_all_tasks_blocked()
        world.gateway.revoke("local")
        world.sessions.hold.set()
        assert await client.wait_closed() == 4401
        await wait_all_tasks_blocked()
        assert len(session.items) == 1, "the one that was being answered"


async def test_W8_what_was_said_in_the_moment_of_the_end_is_sent_before_the_close(autojump_clock: MockClock) -> None:
    for _ in range(10):  # which task is the first in such a moment is chance
        async with gateway_world() as world, world.client() as client:
            world.sessions.add("s")
            await client.result("subscribe", session_id="s")
            world.gateway.announce()
            await client.op("draining")
            world.sessions.say("s", "the last word")
            await world.gateway.drain()
            assert await client.wait_closed() == 1012
            assert client.deltas("s") == ["the last word"]


async def test_W8_a_request_that_is_never_answered_holds_up_the_end_for_a_bounded_time(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world, world.client() as client:
            world.sessions.hold = trio.Event()
            await client.ask("session.list")
            await wait_all_tasks_blocked()
            await world.gateway.drain()
            assert await client.wait_closed() == 1012
            assert 4 <= trio.current_time() <= 6
            await world.served.wait()


@pytest.mark.parametrize("format", FORMATS)
async def test_W8_what_waits_for_a_slow_client_is_sent_before_the_close(
    format: Format, autojump_clock: MockClock
) -> None:
    link = Pipe(capacity=4096, rate=100_000)
    async with gateway_world() as world, world.client(format, downlink=link) as client:
        world.sessions.add("s")
        await client.result("subscribe", session_id="s")
        texts = [f"{number} " + "x" * 1000 for number in range(200)]
        for text in texts:
            world.sessions.say("s", text)
        await world.gateway.drain()
        assert await client.wait_closed() == 1012
        assert client.deltas("s") == texts


async def test_W8_a_client_that_comes_while_the_server_ends_is_closed_with_1012_too(autojump_clock: MockClock) -> None:
    """Its opening handshake was let through before the announcement, and is over after the last close."""
    slow = Pipe(capacity=10, rate=100)
    async with gateway_world() as world, trio.open_nursery() as nursery:
        codes: list[int | None] = []

        async def come_slowly() -> None:
            async with world.client(downlink=slow, hello=False) as client:
                codes.append(await client.wait_closed())

        nursery.start_soon(come_slowly)
        while not slow.held:
            await trio.lowlevel.checkpoint()
        await world.gateway.drain()
        await world.served.wait()
        nursery.cancel_scope.deadline = trio.current_time() + 20
    assert codes == [1012]


async def test_W8_a_client_whose_opening_handshake_ends_after_the_last_close_is_closed_with_1012_at_once(
    autojump_clock: MockClock,
) -> None:
    """Its link takes no byte of the answer before. The server is kept by somebody else, who answers no close."""
    link = Pipe(capacity=0)
    codes: list[int | None] = []
    settings = GatewaySettings(control_bytes=0)
    async with gateway_world(settings) as world, await world.stream() as silent, trio.open_nursery() as nursery:
        await silent.send_all(OPENING)

        async def come() -> None:
            async with world.client(downlink=link, hello=False) as client:
                codes.append(await client.wait_closed())

        nursery.start_soon(come)
        await wait_all_tasks_blocked()
        nursery.start_soon(world.gateway.drain)
        await trio.sleep(1)
        link.capacity = math.inf
        link.change()
        await trio.sleep(1)
        assert codes == [1012]


async def test_W8_a_client_that_does_not_read_holds_up_the_end_for_a_bounded_time(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    link = Pipe(capacity=4096)
    with no_traceback(caplog):
        async with gateway_world() as world, world.client(downlink=link) as client:
            world.sessions.add("s")
            await client.result("subscribe", session_id="s")
            link.stall()
            world.sessions.say("s", "x" * 100_000)
            start = trio.current_time()
            await world.gateway.drain()
            await world.served.wait()
            assert 9 <= trio.current_time() - start <= 11


async def test_W8_cancelling_serve_ends_every_connection(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world, world.client() as client, world.client(hello=False):
            session = world.sessions.add("s")
            await client.result("subscribe", session_id="s")
            world.cancel()
            await world.served.wait()
            assert await client.wait_closed() is None or client.close_code is not None
            assert not session.channel.watched
