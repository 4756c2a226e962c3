"""What listens may be anything: a verdict comes of it, and not a fault of the pack."""

import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest
import trio

from turnwire.conformance.pack import chosen_timelines, pack_folder, timeline_files
from turnwire.conformance.server_suite import ServerUnderTest, play_all
from turnwire.conformance.streams import TcpDialer
from turnwire_protocol.timelines import ServerTimelines

ALL = list(timeline_files(pack_folder()))


async def goes_at_once(stream: trio.SocketStream) -> None:
    await stream.aclose()


async def resets_at_once(stream: trio.SocketStream) -> None:
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


async def resets_when_asked(stream: trio.SocketStream) -> None:
    await stream.receive_some()
    await resets_at_once(stream)


async def delivers_mail(stream: trio.SocketStream) -> None:
    await stream.send_all(b"220 mail.example ready\r\n")
    await stream.receive_some()


async def says_nothing_of_a_status(stream: trio.SocketStream) -> None:
    await stream.receive_some()
    await stream.send_all(b"HTTP/1.1 fine\r\n\r\n")


async def has_no_lines(stream: trio.SocketStream) -> None:
    await stream.receive_some()
    await stream.send_all(b"-" * 100_000)


@pytest.mark.parametrize(
    "serve",
    [goes_at_once, resets_at_once, resets_when_asked, delivers_mail, says_nothing_of_a_status, has_no_lines],
)
@pytest.mark.parametrize("chosen", ["hello is answered", "health and readiness"])
async def test_W8_whatever_listens_fails_with_a_sentence(
    chosen: str, serve: Callable[[trio.SocketStream], Awaitable[None]]
) -> None:
    async def serve_one(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):  # the pack may have heard enough, and go
            await serve(stream)

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        await nursery.start(partial(trio.serve_listeners, serve_one, [listener]))
        dialer = TcpDialer(f"ws://127.0.0.1:{port}/ws", "127.0.0.1", port)
        files = chosen_timelines(ALL, ServerTimelines, chosen)
        (verdict,) = await play_all(ServerUnderTest(dialer=dialer), files)
        nursery.cancel_scope.cancel()
    assert verdict.outcome == "failed"
    assert verdict.reason.startswith("step 1 ")
    assert "not within" not in verdict.reason
