"""The stream under a WebSocket: whole frames or none, deadlines by progress, one end (W6, W8)."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway_world import LinkStream, Pipe
from turnwire.gateway.outbox import Outbox, OutboxLimits
from turnwire.gateway.stream import FrameStream, StreamLimits

CLOSE = b"\x88\x02\x03\xe8"


def framed(pipe: Pipe, incoming: Pipe | None = None) -> AbstractAsyncContextManager[tuple[FrameStream, trio.Nursery]]:
    """A stream whose frames go into this pipe, and which reads from the other."""
    return framed_over(LinkStream(pipe, incoming or Pipe()))


@asynccontextmanager
async def framed_over(inner: trio.abc.Stream) -> AsyncIterator[tuple[FrameStream, trio.Nursery]]:
    outbox = Outbox(OutboxLimits(outbox_bytes=10_000), lambda session_id: f"<reload {session_id}>".encode())
    async with trio.open_nursery() as nursery:
        limits = StreamLimits(write_timeout=30, close_timeout=10, control_bytes=1000)
        yield FrameStream(inner, nursery, outbox, limits), nursery
        nursery.cancel_scope.cancel()


async def read(pipe: Pipe, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += await pipe.take(count - len(data))
    return data


async def test_W6_frames_of_all_senders_stay_whole_on_a_slow_link(autojump_clock: MockClock) -> None:
    pipe = Pipe(capacity=7, rate=1000)
    async with framed(pipe) as (stream, nursery):
        nursery.start_soon(stream.send_all, b"[websockets 1]")
        stream.feed_mutations("s", [b"[a]", b"[bb]"], b"[a][bb]")
        stream.feed(b"[answer]")
        nursery.start_soon(stream.send_all, b"[websockets 2]")
        data = await read(pipe, 43)
        for frame in (b"[websockets 1]", b"[websockets 2]", b"[a][bb]", b"[answer]"):
            assert data.count(frame) == 1


async def test_W6_feeding_never_blocks_and_never_raises(autojump_clock: MockClock) -> None:
    pipe = Pipe(capacity=10)
    async with framed(pipe) as (stream, _):
        for _ in range(1000):
            stream.feed_mutations("s", [b"x" * 100], b"x" * 100)
        assert stream.outbox.is_lagged("s")
        stream.abandon()
        stream.abandon()
        stream.feed_mutations("s", [b"x"], b"x")
        stream.feed(b"x")
        await wait_all_tasks_blocked()
        assert stream.dead
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"x")


async def test_W6_websockets_waits_while_its_frames_are_not_read(autojump_clock: MockClock) -> None:
    pipe = Pipe(capacity=10)
    async with framed(pipe) as (stream, _):
        with trio.move_on_after(5) as scope:
            for _ in range(100):
                await stream.send_all(b"p" * 125)
        assert scope.cancelled_caught
        assert stream.outbox.control_bytes <= 1000 + 125


async def test_W8_a_cancelled_write_ends_the_stream_instead_of_mixing_frames(autojump_clock: MockClock) -> None:
    pipe = Pipe(capacity=10)
    async with framed(pipe) as (stream, nursery):
        stream.feed(b"[a frame of which only a part fits]")
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked()
            assert stream.dead
            sent = pipe.sent
            stream.feed(b"[another]")
            await wait_all_tasks_blocked()
            assert pipe.sent == sent


async def test_W8_the_write_deadline_counts_from_the_last_progress(autojump_clock: MockClock) -> None:
    pipe = Pipe(capacity=16 * 1024)
    async with framed(pipe) as (stream, _):
        stream.feed(b"x" * 64 * 1024)
        for _ in range(2):
            await trio.sleep(29)
            assert not stream.dead
            await pipe.take(16 * 1024)
        await trio.sleep(31)
        assert stream.dead
        assert trio.current_time() == 29 * 2 + 31


@pytest.mark.parametrize("reads", [True, False])
async def test_W8_after_a_close_frame_the_stream_ends_in_time_whatever_the_peer_does(
    reads: bool, autojump_clock: MockClock
) -> None:
    pipe = Pipe(capacity=10 if not reads else 10_000)
    async with framed(pipe) as (stream, _):
        stream.feed_mutations("s", [b"data"] * 100, b"data" * 100)
        stream.finish([CLOSE, b""])
        stream.feed(b"too late")
        await trio.sleep(9)
        assert not stream.dead
        await trio.sleep(2)
        assert stream.dead
        if reads:
            assert bytes(pipe.held).endswith(CLOSE)


async def test_W8_a_peer_that_does_not_take_the_last_bytes_in_time_is_given_up(autojump_clock: MockClock) -> None:
    """Over a socket, which cannot be ended while somebody waits to write to it."""
    ours, peer = trio.socket.socketpair()
    with peer:
        async with framed_over(trio.SocketStream(ours)) as (stream, _):
            stream.feed(b"x" * 2**24)
            assert not stream.outbox.idle, "the kernel does not take so much"
            await stream.send_eof()
            assert stream.dead
            assert trio.current_time() == 10


@pytest.mark.parametrize("opened", [False, True])
async def test_W8_what_was_under_way_when_the_stream_was_given_up_is_not_read_any_more(
    opened: bool, autojump_clock: MockClock
) -> None:
    """websockets would take bytes behind the end for a fault of its own, and log a traceback."""
    incoming = Pipe(rate=1)
    request = b"GET / HTTP/1.1\r\n\r\n"
    await incoming.put(request + b"behind it" if opened else request)
    async with framed(Pipe(), incoming) as (stream, nursery):
        if opened:
            assert await stream.receive_some() == request
        nursery.start_soon(close_soon, stream)
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive_some()


async def close_soon(stream: FrameStream) -> None:
    await trio.sleep(0.5)
    await stream.aclose()
