"""permessage-deflate, where the server allows it and the client offers it; nothing changes for anyone else (W6, W9)."""

import zlib

import pytest
import trio
from trio.testing import MockClock
from websockets.frames import Frame, Opcode

from gateway_world import Client, Map, Pipe, World, gateway_world, no_traceback
from turnwire.gateway import GatewaySettings
from turnwire_protocol.codec import Format

ON = GatewaySettings(compression=True)
PATIENCE_SECONDS = 60.0
FRAMES = ("mutation", "snapshot", "reload")


def numbered(count: int) -> list[str]:
    return [f"delta {number} of an answer that goes on; " * 3 for number in range(count)]


def names(client: Client) -> list[str]:
    return [extension.name for extension in client.socket.protocol.extensions]


@pytest.mark.parametrize("format", ["json", "msgpack"])
async def test_W6_compressed_frames_say_the_same_in_fewer_bytes(format: Format, autojump_clock: MockClock) -> None:
    settings = GatewaySettings(compression=True, tick_ms=500)
    async with (
        gateway_world(settings) as world,
        world.client(format, compression="deflate") as small,
        world.client(format) as plain,
    ):
        world.sessions.add("s", title="t" * 200_000)
        assert (names(small), names(plain)) == (["permessage-deflate"], [])
        for client in (small, plain):
            await client.result("subscribe", session_id="s")
        for text in numbered(100):
            world.sessions.say("s", text)
            await trio.sleep(0.01)
        for client in (small, plain):
            await client.count(100, lambda frame: frame.get("variant") == "delta")
            await client.count(2, lambda frame: frame["op"] == "tick")
            pong = await client.socket.ping()
            await pong.wait()
        assert [frame for frame in small.frames if frame["op"] in FRAMES] == [
            frame for frame in plain.frames if frame["op"] in FRAMES
        ]
        sent = [pipe.sent for pipe in world.downlinks]
        assert sent[0] < sent[1] / 4


async def test_W6_what_a_client_that_keeps_up_is_told_over_a_socket_is_compressed_too() -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with gateway_world(ON, network=True) as world, world.client(compression="deflate") as client:
            world.sessions.add("s")
            await client.result("subscribe", session_id="s")
            before = world.gateway.traffic.bytes_out
            for number, text in enumerate(numbered(100), start=1):
                world.sessions.say("s", text)
                await client.count(number, lambda frame: frame.get("variant") == "delta")
            assert client.deltas("s") == numbered(100)
            assert world.gateway.traffic.bytes_out - before < sum(map(len, numbered(100)))


async def test_W6_compression_survives_a_slow_client_for_which_frames_are_dropped(autojump_clock: MockClock) -> None:
    """A dropped frame must not have passed the compressor: what comes after it could not be read."""
    link = Pipe(capacity=2_000, rate=20_000)
    settings = GatewaySettings(compression=True, outbox_bytes=20_000)
    async with gateway_world(settings) as world, world.client(compression="deflate", downlink=link) as client:
        world.sessions.add("s", title="t" * 100_000)
        await client.result("subscribe", session_id="s")
        for number in range(3):
            await client.count(number + 1, lambda frame: frame["op"] == "snapshot")
            for text in numbered(2_000):
                world.sessions.say("s", f"{number} {text}")
            await client.count(number + 1, lambda frame: frame["op"] == "reload")
            await client.result("reload", session_id="s")
        await client.count(4, lambda frame: frame["op"] == "snapshot")
        world.sessions.say("s", "the end")
        await client.find(lambda frame: frame.get("delta") == "the end")


async def test_W2_a_server_without_compression_agrees_to_none(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client(compression="deflate") as client:
        assert names(client) == []
        assert await client.result("ping") == {}


def bomb(message: Map) -> bytes:
    """A compressed text frame of a request that is long, and says little."""
    compressor = zlib.compressobj(wbits=-12)
    text = repr(message).replace("'", '"').encode()
    data = compressor.compress(text) + compressor.flush(zlib.Z_SYNC_FLUSH)
    frame = bytearray(Frame(Opcode.TEXT, data[:-4]).serialize(mask=True))
    frame[0] |= 0x40  # RSV1: it is compressed
    return bytes(frame)


async def bombed(world: World, message: Map, *, hello: bool) -> int | None:
    async with world.client(compression="deflate", hello=hello) as client:
        data = bomb(message)
        assert len(data) < 5_000, "what is over the limit is not what goes over the network"
        await client.socket.stream.send_all(data)
        return await client.wait_closed()


async def test_W9_what_a_message_unpacks_to_is_limited(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world(ON) as world:
            assert await bombed(world, {"op": "ping", "id": 5, "x": "x" * 2**21}, hello=True) == 1009
            assert await bombed(world, {"op": "hello", "id": 5, "client": "x" * 2**17}, hello=False) == 1009
