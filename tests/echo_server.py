"""An echo endpoint on the gateway's own WebSocket layer, for test suites that know nothing of our frames.

What answers is the path that every answer of the gateway takes: websockets' ServerConnection reads, over a
`FrameStream`; frames that are made here in one piece are fed to the stream's outbox, between what websockets itself
sends (pongs, close frames). Requests, Sessions and the gateway's limits are not in it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import trio
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.trio.server import Server, ServerConnection, serve

from turnwire.gateway.outbox import Outbox, OutboxLimits
from turnwire.gateway.stream import FrameStream, StreamLimits
from turnwire.gateway.wire import compressed, to_wire

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""The suites send messages of up to 16 MiB, and the gateway's own limit is tested elsewhere."""


async def echo(socket: ServerConnection) -> None:
    stream = cast(FrameStream, socket.stream)
    if socket.protocol.extensions:
        stream.outbox.encode_with(compressed(socket.protocol.extensions))
    try:
        while True:
            message = await socket.recv()
            await stream.wait_for_room()
            if socket.protocol.state is State.OPEN:
                stream.feed(_frame(message))
    except ConnectionClosed:
        return


def _frame(message: str | bytes) -> bytes:
    """A text or binary frame, as the gateway makes those of its two formats."""
    return to_wire(message.encode(), "json") if isinstance(message, str) else to_wire(message, "msgpack")


def _connect(
    nursery: trio.Nursery, stream: trio.abc.Stream, protocol: ServerProtocol, server: Server, **options: Any
) -> ServerConnection:
    outbox = Outbox(OutboxLimits(), lambda session_id: b"")
    return ServerConnection(nursery, FrameStream(stream, nursery, outbox, StreamLimits()), protocol, server, **options)


@asynccontextmanager
async def echo_server(*, compression: bool = False) -> AsyncIterator[str]:
    """The `ws://` URL of an endpoint that says back what it hears; with `compression` to those who offer it."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(
            partial(
                serve,
                echo,
                listeners=listeners,
                compression="deflate" if compression else None,
                ping_interval=None,
                max_size=MAX_MESSAGE_BYTES,
                create_connection=cast(type[ServerConnection], _connect),
            )
        )
        yield f"ws://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()
