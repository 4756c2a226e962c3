"""How slowly a message may come: one that drips ends its connection, a slow upload does not (W9)."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from websockets.frames import Frame, Opcode

from gateway_world import World, gateway_world, no_traceback
from turnwire.gateway import GatewaySettings

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
PING = b'{"op":"ping","id":2}'


def masked(data: bytes, *, opcode: Opcode = Opcode.TEXT, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin=fin).serialize(mask=True)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


class RawClient:
    """A client that has said `hello`, and sends bytes as a test likes; what it gets is only collected."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.stream = stream
        self.received = b""
        self.over = trio.Event()

    async def read(self) -> None:
        while data := await self.stream.receive_some():
            self.received += data
        self.over.set()

    async def send(self, chunks: Iterable[bytes], every_s: float) -> None:
        """Until all is sent, or the server has ended the connection."""
        for chunk in chunks:
            if self.over.is_set():
                return
            await self.stream.send_all(chunk)
            with trio.move_on_after(every_s):
                await self.over.wait()


@asynccontextmanager
async def raw_client(world: World) -> AsyncIterator[RawClient]:
    async with trio.open_nursery() as nursery, await world.stream() as stream:
        client = RawClient(stream)
        nursery.start_soon(client.read)
        await stream.send_all(HANDSHAKE + masked(b'{"op":"hello","id":1}'))
        yield client
        nursery.cancel_scope.cancel()


DRIPS = {
    "a frame": pieces(masked(b"x" * 60_000), 1),
    "the beginning of a frame": [*pieces(masked(b"x" * 60_000)[:7], 1), *[b""] * 10_000],
    "empty fragments": [masked(b"", fin=False), *[masked(b"", opcode=Opcode.CONT, fin=False)] * 1000],
    "fragments and pings": [
        masked(b"{", fin=False),
        *[masked(b"", opcode=Opcode.CONT, fin=False), masked(b"", opcode=Opcode.PONG)] * 500,
    ],
    "a frame behind another": [masked(PING) + masked(b"x" * 60_000)[:5], *pieces(masked(b"x" * 60_000)[5:], 1)],
    "a fragment behind another message": [
        masked(PING) + masked(b"{", fin=False),
        *[masked(b"", opcode=Opcode.PONG)] * 1000,
    ],
}
ONE_MESSAGE = GatewaySettings(tick_ms=1000, message_timeout_s=20.0, message_bytes_per_s=1000, max_silent_ticks=100)


@pytest.mark.parametrize("kind", DRIPS)
async def test_W9_a_message_that_drips_is_closed_with_4408(
    kind: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world(ONE_MESSAGE) as world, raw_client(world) as client:
            await client.send(DRIPS[kind], 1)
            assert client.over.is_set()
            assert b"\x88\x19" + (4408).to_bytes(2, "big") + b"a message took too long" in client.received
            assert 20 <= trio.current_time() <= 20 + 3 + 10, "a few ticks, and the time for closing"


@pytest.mark.parametrize("fragment", [None, 5_000], ids=["one frame", "fragments"])
async def test_W9_a_slow_upload_may_take_its_time(fragment: int | None, autojump_clock: MockClock) -> None:
    text = b'{"op":"prompt","id":3,"session_id":"s","client_request_id":"r","text":"' + b"x" * 900_000 + b'"}'
    if fragment is None:
        frames = masked(text)
    else:
        first, *middle, last = pieces(text, fragment)
        frames = masked(first, fin=False) + b"".join(masked(it, opcode=Opcode.CONT, fin=False) for it in middle)
        frames += masked(last, opcode=Opcode.CONT)
    async with gateway_world(ONE_MESSAGE) as world, raw_client(world) as client:
        world.sessions.add("s")
        await client.send(pieces(frames, 1100), 1)
        assert trio.current_time() > 800
        await wait_all_tasks_blocked()
        assert b'{"op":"result","id":3,' in client.received
        assert not client.over.is_set()


async def test_W9_many_messages_over_a_long_time_are_none_that_drips(autojump_clock: MockClock) -> None:
    small = masked(b'{"op":"ping","id":4}')
    stream = b"".join([small, masked(b"", opcode=Opcode.PONG)] * 500)
    async with gateway_world(ONE_MESSAGE) as world, raw_client(world) as client:
        await client.send(pieces(stream, 29), 1)
        assert not client.over.is_set()
        assert client.received.count(b'{"op":"result"') == 500
