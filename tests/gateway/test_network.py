"""The same gateway on real loopback sockets, with and without TLS: full kernel buffers, resets, half-open peers (W6,
W8, R2, Z1)."""

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

from certificates import Certificate
from gateway_world import Map, World, gateway_world, no_traceback
from turnwire.gateway import GatewaySettings

KIB = 1024
PATIENCE = 30
"""Seconds after which a test that waits for something fails."""

Raw: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]


def transport_of(stream: Raw) -> trio.SocketStream:
    return stream.transport_stream if isinstance(stream, trio.SSLStream) else stream


@pytest.fixture(params=["tcp", "tls"])
def certificate(request: pytest.FixtureRequest, tmp_path: Path) -> Certificate | None:
    return Certificate(tmp_path) if request.param == "tls" else None


def is_delta(frame: Map) -> bool:
    return frame.get("variant") == "delta"


@asynccontextmanager
async def raw_subscriber(world: World) -> AsyncIterator[Raw]:
    """A client that speaks just enough to subscribe to `s`, and then does not read."""
    if "s" not in world.sessions.sessions:
        world.sessions.add("s", title="t" * 5000)
    sock = trio.socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await sock.connect(("127.0.0.1", world.port))
    transport = trio.SocketStream(sock)
    stream: Raw = transport
    if world.trust is not None:
        stream = trio.SSLStream(transport, world.trust, server_hostname="localhost", https_compatible=True)
    await stream.send_all(
        b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    for request in (b'{"op":"hello","id":1}', b'{"op":"subscribe","id":2,"session_id":"s"}'):
        await stream.send_all(masked(request))
    seen = b""
    while b'"snapshot"' not in seen:
        data = await stream.receive_some()
        assert data, f"the server ended the connection after {seen!r}"
        seen += data
    try:
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


def masked(message: bytes) -> bytes:
    """A text frame as a client sends it, with the mask 0."""
    assert len(message) < 126
    return bytes([0x81, 0x80 | len(message)]) + bytes(4) + message


async def test_R2_Z1_stalled_sockets_cost_their_bound_and_others_get_everything_in_time(
    certificate: Certificate | None, caplog: pytest.LogCaptureFixture
) -> None:
    settings = GatewaySettings(outbox_bytes=64 * KIB)
    texts = [f"{number}:" + "x" * 4000 for number in range(2000)]
    with no_traceback(caplog), trio.fail_after(PATIENCE):
        async with (
            gateway_world(settings, network=True, certificate=certificate) as world,
            world.client() as fast,
            world.client() as other,
            AsyncExitStack() as stalled,
        ):
            for _ in range(10):
                await stalled.enter_async_context(raw_subscriber(world))
            for client in (fast, other):
                await client.result("subscribe", session_id="s")
            most = 0
            for number, text in enumerate(texts):
                world.sessions.say("s", text)
                if number % 10 == 9:
                    await fast.count(number + 1, is_delta)
                    most = max(most, world.gateway.pending_bytes)
            await other.count(len(texts), is_delta)
            assert fast.deltas("s") == other.deltas("s") == texts
            assert 10 * 32 * KIB < most <= 10 * (64 + 64 + 8) * KIB, "8 MB were said to each of ten"


async def test_R3_a_stalled_socket_that_reads_again_is_told_to_reload_and_recovers(
    certificate: Certificate | None,
) -> None:
    with trio.fail_after(PATIENCE):
        async with (
            gateway_world(GatewaySettings(outbox_bytes=64 * KIB), network=True, certificate=certificate) as world,
            raw_subscriber(world) as stream,
        ):
            for _ in range(2000):
                world.sessions.say("s", "x" * 4000)
                await trio.lowlevel.checkpoint()
            seen = b""
            while b'{"op":"reload","session_id":"s","reason":"lagged"}' not in seen:
                seen += await stream.receive_some()
            while world.gateway.pending_bytes:
                seen += await stream.receive_some()
            world.sessions.say("s", "said too early")
            await stream.send_all(masked(b'{"op":"reload","id":3,"session_id":"s"}'))
            while b'{"op":"result","id":3,"result":{"epoch":"epoch-1","seq":2001}}' not in seen:
                seen += await stream.receive_some()
            assert b"said too early" not in seen[: seen.index(b'"op":"result","id":3,')], "it has not asked yet"
            world.sessions.say("s", "caught up")
            while b"caught up" not in seen:
                seen += await stream.receive_some()


async def test_W8_a_black_holed_socket_is_closed_by_the_write_deadline(
    certificate: Certificate | None, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog), trio.fail_after(PATIENCE):
        async with (
            gateway_world(GatewaySettings(write_timeout_s=0.3), network=True, certificate=certificate) as world,
            AsyncExitStack() as stack,
        ):
            # What this one is told until it stops to read fits into the system's buffers: however seldom a busy
            # machine lets it read, the server never waits for it before.
            session = world.sessions.add("s")
            await stack.enter_async_context(raw_subscriber(world))
            said = 0
            while session.channel.watched:
                world.sessions.say("s", "x" * 4000)
                said += 1
                await trio.sleep(0.001)
            assert said > 10


async def test_T4_a_reset_connection_is_forgotten_without_noise(
    certificate: Certificate | None, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog), trio.fail_after(PATIENCE):
        async with (
            gateway_world(network=True, certificate=certificate) as world,
            raw_subscriber(world) as stream,
        ):
            session = world.sessions.sessions["s"]
            # SO_LINGER 0: close sends a reset instead of a farewell.
            transport_of(stream).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await transport_of(stream).aclose()
            while session.channel.watched:
                world.sessions.say("s", "x" * 100)
                await trio.lowlevel.checkpoint()


async def test_T4_a_half_closed_connection_is_ended(
    certificate: Certificate | None, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog), trio.fail_after(PATIENCE):
        async with (
            gateway_world(network=True, certificate=certificate) as world,
            raw_subscriber(world) as stream,
        ):
            await transport_of(stream).send_eof()
            while await stream.receive_some():
                pass
            await world.sessions.wait_unwatched("s")


async def test_R1_a_socket_that_answers_no_ping_is_given_up(
    certificate: Certificate | None, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog), trio.fail_after(PATIENCE):
        async with (
            gateway_world(GatewaySettings(tick_ms=50), network=True, certificate=certificate) as world,
            raw_subscriber(world) as stream,
            world.client() as healthy,
        ):
            seen = b""
            try:
                while chunk := await stream.receive_some():
                    seen += chunk
            except trio.BrokenResourceError:
                seen += b""  # a reset is an end as good as any
            assert seen.count(b'{"op":"tick"}') >= 3
            await world.sessions.wait_unwatched("s")
            await healthy.count(10, lambda frame: frame["op"] == "tick")
            assert world.gateway.connection_count == 1


async def flood(stream: Raw, message: bytes) -> None:
    try:
        while True:
            await stream.send_all(message)
    except trio.BrokenResourceError:
        return


async def test_Z1_a_socket_that_floods_without_reading_is_closed(
    certificate: Certificate | None, caplog: pytest.LogCaptureFixture
) -> None:
    settings = GatewaySettings(close_timeout_s=0.5)
    with no_traceback(caplog), trio.fail_after(PATIENCE):
        async with (
            gateway_world(settings, network=True, certificate=certificate) as world,
            raw_subscriber(world) as stream,
            world.client() as other,
        ):
            requests = b"".join(
                masked(b'{"op":"session.get","id":%d,"session_id":"s"}' % number) for number in range(10, 1000)
            )
            await flood(stream, requests)
            assert await other.result("ping") == {}
            assert world.gateway.pending_bytes < 200 * KIB


async def test_W3_a_thousand_pipelined_requests_on_a_socket_get_one_answer_each(
    certificate: Certificate | None,
) -> None:
    with trio.fail_after(PATIENCE):
        async with gateway_world(network=True, certificate=certificate) as world, world.client() as client:
            asked = [await client.ask("ping") for _ in range(1000)]
            for request_id in asked:
                await client.answer(request_id)
            assert len(client.frames) == 1001


async def test_W8_the_server_ends_although_a_socket_is_stalled(
    certificate: Certificate | None, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog), trio.fail_after(PATIENCE):
        async with (
            gateway_world(GatewaySettings(close_timeout_s=0.3), network=True, certificate=certificate) as world,
            raw_subscriber(world),
        ):
            for _ in range(100):
                world.sessions.say("s", "x" * 40_000)
            async with world.client() as client:
                await world.gateway.drain()
                assert await client.wait_closed() == 1012
            await world.served.wait()


async def test_R5_many_reconnects_at_once_are_served(certificate: Certificate | None) -> None:
    async def visit(world: World) -> None:
        async with world.client() as client:
            await client.result("subscribe", session_id="s")
            await client.op("snapshot")

    patient = GatewaySettings(hello_timeout_s=PATIENCE, open_timeout_s=PATIENCE)
    with trio.fail_after(PATIENCE):
        async with gateway_world(patient, network=True, certificate=certificate) as world:
            world.sessions.add("s")
            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(visit, world)
            assert world.sessions.joins == 100


async def test_W3_large_requests_may_follow_hello_without_waiting(certificate: Certificate | None) -> None:
    async def speak(world: World) -> None:
        async with world.client(hello=False) as client:
            await client.ask("hello")
            asked = [
                await client.ask("prompt", session_id="s", client_request_id=f"r-{n}", text="x" * 200_000)
                for n in range(3)
            ]
            for request_id in asked:
                assert (await client.answer(request_id))["op"] == "result"

    with trio.fail_after(PATIENCE):
        async with gateway_world(network=True, certificate=certificate) as world:
            world.sessions.add("s")
            for _ in range(20):
                await speak(world)
