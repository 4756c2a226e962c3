"""Limits on the wire: what is over gets a typed answer, and a polite client notices nothing (W3, W8, W9)."""

from contextlib import AsyncExitStack, suppress

import pytest
import trio
from trio.testing import MockClock
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from gateway_world import Client, World, gateway_world, no_traceback, token_authenticator, token_for
from turnwire.gateway import GatewaySettings
from turnwire.gateway.inbox import COUNTED_BYTES, weight_of
from turnwire_protocol.codec import FORMATS, Format

SLOW = GatewaySettings(requests_per_s=2.0, request_burst=5, max_refusals=20)


async def test_W9_requests_above_the_rate_are_refused_and_served_after_the_wait(autojump_clock: MockClock) -> None:
    async with gateway_world(SLOW) as world, world.client() as client:
        assert (await client.op("welcome"))["limits"]["requests_per_s"] == 2.0
        answers = [await client.request("ping") for _ in range(7)]
        assert [answer["op"] for answer in answers] == ["result"] * 5 + ["error"] * 2
        assert (answers[-1]["code"], answers[-1]["retryable"]) == ("rate_limited", True)
        wait = float(answers[-1]["message"].split()[-2])
        await trio.sleep(wait)
        assert await client.result("ping") == {}


async def test_W9_a_client_that_keeps_to_the_rate_is_never_refused(autojump_clock: MockClock) -> None:
    async with gateway_world(SLOW) as world, world.client() as client:
        for _ in range(200):
            await trio.sleep(0.5)
            assert await client.result("ping") == {}


def test_W9_a_message_counts_once_for_each_8_KiB_that_it_begins() -> None:
    assert [weight_of(size) for size in (0, 1, 8192, 8193, 3 * 8192)] == [1, 1, 1, 2, 3]


@pytest.mark.parametrize("kilobytes_8", ["x" * 8192, "é" * 4096], ids=["ascii", "two bytes a character"])
async def test_W9_a_large_message_counts_as_several(autojump_clock: MockClock, kilobytes_8: str) -> None:
    """What one client has read costs the others by its size, not by its number."""
    async with gateway_world(SLOW) as world, world.client() as client:
        assert (await client.request("ping", padding=kilobytes_8 * 7))["code"] == "invalid_argument"
        assert (await client.request("ping"))["code"] == "rate_limited"
        await trio.sleep((8 - SLOW.request_burst + 1) / SLOW.requests_per_s)
        assert await client.result("ping") == {}


async def test_W9_who_goes_on_with_large_messages_is_closed_all_the_sooner(autojump_clock: MockClock) -> None:
    async with gateway_world(SLOW) as world, world.client() as client:
        with suppress(ConnectionClosed):
            for _ in range(100):
                await client.socket.send("x" * 8 * COUNTED_BYTES)
        assert await client.wait_closed() == 4429
        assert len(client.ops("error")) == SLOW.max_refusals // 8


async def test_W9_who_goes_on_although_refused_is_closed_with_4429(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world(SLOW) as world, world.client() as client:
            with suppress(ConnectionClosed):
                for _ in range(100):
                    await client.socket.send("nonsense")
            assert await client.wait_closed() == 4429
            assert len(client.ops("error")) == 19


def control_frames(opcode: Opcode, count: int) -> bytes:
    return Frame(opcode, b"").serialize(mask=True) * count


@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.PONG])
async def test_W9_a_flood_of_pings_or_pongs_is_closed_with_4429(
    opcode: Opcode, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog), trio.fail_after(60):
        async with gateway_world() as world, world.client() as client:
            for _ in range(3):
                await client.socket.stream.send_all(control_frames(opcode, 300))
                assert await client.result("ping") == {}
            await client.socket.stream.send_all(control_frames(opcode, 300))
            assert await client.wait_closed() == 4429


async def test_W9_pings_and_pongs_at_the_rate_are_never_too_many(autojump_clock: MockClock) -> None:
    async with gateway_world(GatewaySettings(pings_per_s=2.0, ping_burst=4)) as world, world.client() as client:
        for _ in range(100):
            await client.socket.stream.send_all(control_frames(Opcode.PING, 2) + control_frames(Opcode.PONG, 1))
            await trio.sleep(1.6)
        assert await client.result("ping") == {}


async def test_W9_refusals_count_only_in_a_row(autojump_clock: MockClock) -> None:
    async with gateway_world(SLOW) as world, world.client() as client:
        for _ in range(10):
            for _ in range(15):
                await client.ask("ping")
            await trio.sleep(3)
        assert await client.result("ping") == {}


async def test_W9_the_rate_of_a_principal_holds_for_all_of_its_connections(autojump_clock: MockClock) -> None:
    settings = GatewaySettings(principal_requests_per_s=1.0, principal_request_burst=6)
    async with (
        gateway_world(settings, authenticator=token_authenticator()) as world,
        world.client(hello=False) as one,
        world.client(hello=False) as two,
        world.client(hello=False) as other,
    ):
        for client, sub in ((one, "ada"), (two, "ada"), (other, "bob")):
            await client.request("hello", token=token_for(sub))
        answers = [await client.request("ping") for client in (one, two) for _ in range(4)]
        assert [answer["op"] for answer in answers] == ["result"] * 6 + ["error"] * 2
        assert (await other.request("ping"))["op"] == "result"


async def test_W9_everyone_on_an_open_server_is_local_and_not_one_principal(autojump_clock: MockClock) -> None:
    settings = GatewaySettings(
        principal_requests_per_s=1.0,
        principal_request_burst=1,
        max_connections_per_principal=1,
        max_sessions_per_principal=1,
    )
    async with gateway_world(settings) as world, world.client() as one, world.client() as two:
        for client in (one, two):
            for _ in range(5):
                await client.result("session.create")


async def test_W9_a_principal_has_so_many_connections_and_gets_a_place_back(autojump_clock: MockClock) -> None:
    settings = GatewaySettings(max_connections_per_principal=2)
    async with gateway_world(settings, authenticator=token_authenticator()) as world:
        async with world.client(hello=False) as one, world.client(hello=False) as two:
            for client in (one, two):
                await client.request("hello", token=token_for("ada"))
            async with world.client(hello=False) as third:
                refused = await third.request("hello", token=token_for("ada"))
                assert (refused["code"], refused["retryable"]) == ("rate_limited", True)
                assert await third.wait_closed() == 4429
            async with world.client(hello=False) as other:
                assert (await other.request("hello", token=token_for("bob")))["op"] == "welcome"
        await trio.sleep(1)
        async with world.client(hello=False) as again:
            assert (await again.request("hello", token=token_for("ada")))["op"] == "welcome"


async def refused(world: World) -> InvalidStatus:
    with pytest.RaisesGroup(InvalidStatus, flatten_subgroups=True) as caught:
        async with world.client():
            pass
    refusal: BaseException = caught.value
    while isinstance(refusal, BaseExceptionGroup):
        (refusal,) = refusal.exceptions
    assert isinstance(refusal, InvalidStatus)
    return refusal


async def test_W9_connections_above_the_limit_get_503_and_health_is_answered_all_the_same(
    autojump_clock: MockClock,
) -> None:
    async with gateway_world(GatewaySettings(max_connections=2)) as world:
        async with world.client() as one, world.client():
            refusal = await refused(world)
            assert refusal.response.status_code == 503
            assert b"too many connections in all" in refusal.response.body
            assert 1 <= int(refusal.response.headers["Retry-After"]) <= 5
            stream = await world.stream()
            await stream.send_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
            await stream.aclose()
            assert await one.result("ping") == {}
        await trio.sleep(1)
        async with world.client() as again:
            assert await again.result("ping") == {}


async def test_W9_every_way_to_end_gives_the_place_back(autojump_clock: MockClock) -> None:
    """Plain HTTP, refused handshakes, silence, resets and polite clients: none of them is counted for ever."""
    async with gateway_world(GatewaySettings(max_connections=1, max_handshakes=1)) as world:
        for number in range(30):
            stream = await world.stream()
            if number % 3 == 0:
                await stream.send_all(b"GET /ws HTTP/1.1\r\nHost: localhost\r\n\r\n")
                while await stream.receive_some():
                    pass
            elif number % 3 == 1:
                await stream.send_all(b"GET / HT")
                while await stream.receive_some():
                    pass
            await stream.aclose()
            await trio.sleep(0.1)
            async with world.client() as client:
                if number % 2:
                    await client.socket.aclose()
            await trio.sleep(0.1)


async def test_W9_connections_of_one_address_are_counted_on_real_sockets() -> None:
    settings = GatewaySettings(max_connections_per_address=2, uncounted_networks=())
    with trio.fail_after(30):
        async with gateway_world(settings, network=True) as world, AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(world.client())
            refusal = await refused(world)
            assert refusal.response.status_code == 503
            assert b"from one place" in refusal.response.body
    with trio.fail_after(30):
        async with (
            gateway_world(GatewaySettings(max_connections_per_address=1), network=True) as world,
            world.client(),
            world.client() as second,
        ):
            assert await second.result("ping") == {}, "this machine, and a proxy on it, is not one client"


async def test_W9_sockets_that_ask_for_nothing_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(30):
        settings = GatewaySettings(max_handshakes=3, open_timeout_s=3600)  # so it is not this that ends the fourth
        async with gateway_world(settings, network=True) as world, world.client() as client:
            idle = [await world.stream() for _ in range(3)]
            await client.result("ping")
            answer = b""
            async with await world.stream() as fourth:
                with suppress(trio.BrokenResourceError):
                    while chunk := await fourth.receive_some():
                        answer += chunk
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert answer.endswith(b"\r\n\r\nThere are too many connections.\n")
            assert b"Content-Length: 32\r\n" in answer
            assert await client.result("ping") == {}, "who is inside is not concerned"
            for stream in idle:
                await stream.aclose()
            answer = b""
            while not answer.startswith(b"HTTP/1.1 200 "):
                async with await world.stream() as again:
                    with suppress(trio.BrokenResourceError):
                        await again.send_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                        answer = bytes(await again.receive_some())
    assert not [record for record in caplog.records if record.exc_info]


async def test_W9_a_storm_of_refused_connections_is_one_line_a_tick_in_the_log(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway_world(GatewaySettings(max_connections=0)) as world:
        for _ in range(20):
            await refused(world)
        await trio.sleep(40)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert lines == ["20 connections were refused, since there are too many"]


async def send_fragments(client: Client, count: int, filler: bytes = b"") -> None:
    """One text message in so many frames, of which all but the first and last hold `filler`."""
    message = [b'{"op":"ping",', *[filler] * (count - 2), b'"id":999}']
    frames = [
        Frame(Opcode.CONT if number else Opcode.TEXT, data, fin=number == count - 1).serialize(mask=True)
        for number, data in enumerate(message)
    ]
    for at in range(0, count, 500):
        await client.socket.stream.send_all(b"".join(frames[at : at + 500]))


async def test_W9_a_message_in_a_thousand_frames_is_read_and_in_more_refused(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world, world.client() as client:
            for _ in range(3):
                await send_fragments(client, 1024, b" ")
                assert (await client.find(lambda frame: frame.get("id") == 999))["result"] == {}
                client.frames.clear()
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await send_fragments(client, 1025)
            assert await client.wait_closed() == 1009


async def test_W9_empty_frames_without_end_are_refused(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world(GatewaySettings(max_fragments=50)) as world, world.client(hello=False) as client:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await send_fragments(client, 100_000)
            assert await client.wait_closed() == 1009


@pytest.mark.parametrize("format", FORMATS)
async def test_W9_a_request_of_too_many_values_is_answered_and_the_connection_lives(
    format: Format, autojump_clock: MockClock
) -> None:
    async with gateway_world(GatewaySettings(max_values=10)) as world, world.client(format) as client:
        refusal = await client.request("session.create", metadata={"a": [[], [], [], [], []]})  # with op, id: 10
        assert refusal["op"] == "result"
        refusal = await client.request("session.create", metadata={"a": [[], [], [], [], [], []]})
        assert (refusal["code"], refusal["retryable"]) == ("too_large", False)
        assert await client.result("ping") == {}


async def test_W9_depth_is_a_setting(autojump_clock: MockClock) -> None:
    async with gateway_world(GatewaySettings(max_depth=3)) as world, world.client() as client:
        await client.result("session.create", metadata={"a": {}})
        refusal = await client.request("session.create", metadata={"a": {"b": {}}})
        assert (refusal["code"], refusal["field"]) == ("invalid_argument", "metadata.a.b")


async def test_W9_a_subscription_that_was_refused_takes_no_place(autojump_clock: MockClock) -> None:
    async with gateway_world(GatewaySettings(max_subscriptions=1)) as world, world.client() as client:
        world.sessions.add("s")
        for number in range(3):
            assert (await client.request("subscribe", session_id=f"nowhere-{number}"))["code"] == "not_found"
        assert (await client.request("reload", session_id="nowhere-0"))["code"] == "not_found"
        assert "epoch" in await client.result("subscribe", session_id="s")
