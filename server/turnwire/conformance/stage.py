"""The server's side of a timeline for clients: a WebSocket that says what the timeline says, and what it has heard."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, cast

import trio
from websockets.exceptions import ConnectionClosed
from websockets.trio.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

from turnwire.conformance.peer import ABNORMAL, QUIET
from turnwire.conformance.shapes import Map
from turnwire.conformance.streams import GatedStream
from turnwire.conformance.verdict import Broken
from turnwire_protocol.codec import Format, decode_map, encode, request_of
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import SUBPROTOCOL_JSON, SUBPROTOCOL_MSGPACK

WELCOME: Final[Map] = {
    "op": "welcome",
    "protocol": 1,
    "server": "turnwire-conformance/1",
    "limits": {"max_frame": 4194304, "max_request": 1048576, "page": 50, "max_page": 200, "max_subscriptions": 100},
    "tick_ms": 60_000,
    "principal": {"id": "pack"},
}
"""What a client is told unless a timeline says otherwise. The tick is slow, so that silence is not taken for death."""


class Guest:
    """One connection of the client that is under test."""

    def __init__(self, connection: ServerConnection, stream: GatedStream) -> None:
        self.requests: list[Map] = []
        self.cursor = 0
        self.code: int | None = None
        """How it ended; None while it lives."""
        self.stream = stream
        self._connection = connection
        self._format: Format = "msgpack" if connection.subprotocol == SUBPROTOCOL_MSGPACK else "json"
        self._open: set[int] = set()

    async def send(self, frame: Map) -> None:
        """Sends a frame. A connection that is gone is seen by whoever waits for a request."""
        if "id" in frame:
            self._open.discard(frame["id"])
        data = encode(frame, self._format)
        await self.send_raw(data.decode() if self._format == "json" else data)

    async def send_raw(self, data: str | bytes) -> None:
        try:
            await self._connection.send(data)
        except ConnectionClosed:
            await trio.lowlevel.checkpoint()

    async def close(self, code: int) -> None:
        await self._connection.aclose(code, "as the timeline says")

    def heard(self, data: str | bytes) -> Map | None:
        """The request, unless it is a `ping`, which is nobody's business. Raises Broken."""
        if isinstance(data, str) != (self._format == "json"):
            raise Broken("W2", f"a {'text' if isinstance(data, str) else 'binary'} frame in {self._format}")
        try:
            frame = decode_map(data, self._format)
            request_of(frame)
        except RequestError as error:
            raise Broken("W9", f"a request that no server takes: {error.message}: {data[:200]!r}") from None
        if not self.requests and frame["op"] != "hello":
            raise Broken("W3", f"{frame['op']} came before hello")
        if frame["id"] in self._open:
            raise Broken("W3", f"id {frame['id']} is used twice")
        self._open.add(frame["id"])
        return frame

    async def listen(self, heard: Callable[[Map], None]) -> None:
        """Reads requests until the connection ends. Raises Broken."""
        try:
            while True:
                frame = self.heard(await self._connection.recv())
                if frame is not None and frame["op"] == "ping":
                    await self.send({"op": "result", "id": frame["id"], "result": {}})
                elif frame is not None:
                    self.requests.append(frame)
                    heard(frame)
        except ConnectionClosed:
            received = self._connection.protocol.close_rcvd
            self.code = ABNORMAL if received is None else received.code


class Stage:
    """Listens on a port of its own; a client may come as often as the timeline lets it."""

    def __init__(self) -> None:
        self.url = ""
        self.guests: list[Guest] = []
        self._broken: Broken | None = None
        self._changed = trio.Event()

    async def receive(self, connection: ServerConnection) -> None:
        """The handler of one connection."""
        stream = connection.stream
        assert isinstance(stream, GatedStream)
        guest = Guest(connection, stream)
        self.guests.append(guest)
        self.wake()
        try:
            await guest.listen(lambda _: self.wake())
        except Broken as broken:
            self._broken = self._broken or broken
        finally:
            self.wake()

    def wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds after something was heard. Raises Broken."""
        while True:
            if self._broken is not None:
                raise self._broken
            if condition():
                return
            await self._changed.wait()


@asynccontextmanager
async def open_stage() -> AsyncIterator[Stage]:
    """A stage that listens; whoever is connected at the end is cut off."""
    stage = Stage()
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        await nursery.start(
            partial(
                serve,
                stage.receive,
                listeners=listeners,
                select_subprotocol=_select,
                compression=None,
                ping_interval=None,
                max_size=None,
                logger=QUIET,
                create_connection=cast(type[ServerConnection], _connection),
            )
        )
        stage.url = f"ws://127.0.0.1:{port}/ws"
        yield stage
        for guest in stage.guests:
            await guest.stream.cut("end")
        nursery.cancel_scope.cancel()


def _select(_connection: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return next((name for name in offered if name in (SUBPROTOCOL_JSON, SUBPROTOCOL_MSGPACK)), None)


def _connection(
    nursery: trio.Nursery, stream: trio.abc.HalfCloseableStream, protocol: Any, server: Server, **options: Any
) -> ServerConnection:
    return ServerConnection(nursery, GatedStream(stream), protocol, server, **options)
