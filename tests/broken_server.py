"""A server with one deliberate fault: our Sessions and our gateway, with a liar on the line to each client.

The liar sits between the gateway and the network. It reads every frame that goes by, in both directions, and changes,
repeats or drops it. So a fault is a few lines about frames, whatever the server is made of inside.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import trio
from websockets.frames import Frame, Opcode

from gateway_world import LinkStream, MemoryListener, Pipe
from sessions_world import open_world
from turnwire.conformance.streams import Stream
from turnwire.gateway import Gateway, GatewaySettings, OpenAccess, document
from turnwire.models.scripted import ScriptedProvider
from turnwire.tools.registry import ToolRegistry
from turnwire.tools.workspace import workspace_tools
from turnwire_protocol.codec import Format, decode_map, encode
from turnwire_protocol.codes import RequestError

Map = dict[str, Any]

PIPE_BYTES: Final = 256 * 1024
SLOW_PIPE_BYTES: Final = 16 * 1024
"""What the network holds for an ordinary client, and for one that will stall."""

TICK_MS: Final = 1_000

HEADER_END: Final = b"\r\n\r\n"
CLOSE: Final = bytes([0x80 | Opcode.CLOSE])
"""How a close frame begins."""

FORMATS: Final[dict[int, Format]] = {Opcode.TEXT: "json", Opcode.BINARY: "msgpack"}


class Liar:
    """Tells the truth. A fault is a subclass: what becomes of each frame from the server, and to it."""

    closes_when_full = False
    """Closes the connection of a client that has let the network fill up."""

    hears_closes = True
    """The server learns that a client closes its connection."""

    def said(self, frame: Map) -> list[Map]:
        """What the client gets of a frame from the server."""
        return [frame]

    def asked(self, request: Map) -> list[Map]:
        """What the server gets of a request."""
        return [request]

    def last_words(self) -> list[Map]:
        """What a client of JSON gets just before the close frame."""
        return []

    def format(self, format: Format) -> Format:
        """How frames to the client are encoded."""
        return format


class Splitter:
    """Bytes of one direction, cut into the HTTP head and whole WebSocket frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._opened = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What is complete by now."""
        self._buffer += data
        while (size := self._size()) is not None and len(self._buffer) >= size:
            piece = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._opened = True
            yield piece

    def _size(self) -> int | None:
        if not self._opened:
            end = self._buffer.find(HEADER_END)
            if end < 0:
                return None
            # Only an opening that was accepted has frames behind it; anything else goes by as it is.
            return end + len(HEADER_END) if self._is_opening() else len(self._buffer)
        if len(self._buffer) < 2:
            return None
        length, head = self._buffer[1] & 0x7F, 2
        if length >= 126:
            head += 2 if length == 126 else 8
            if len(self._buffer) < head:
                return None
            length = int.from_bytes(self._buffer[2:head], "big")
        return head + (4 if self._buffer[1] & 0x80 else 0) + length

    def _is_opening(self) -> bool:
        return self._buffer.startswith(b"GET /ws") or self._buffer.startswith(b"HTTP/1.1 101")


class LyingStream(trio.abc.HalfCloseableStream):
    """The server's end of a connection, with the liar in between."""

    def __init__(self, inner: LinkStream, liar: Liar) -> None:
        self._inner = inner
        self._liar = liar
        self._to_client = Splitter()
        self._to_server = Splitter()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        out = b"".join(lied for piece in self._to_client.feed(bytes(data)) for lied in self._told(piece))
        network = self._inner.outgoing
        if self._liar.closes_when_full and len(network.held) + len(out) > network.capacity:
            await trio.aclose_forcefully(self._inner)
            raise trio.BrokenResourceError
        await self._inner.send_all(out)

    def _told(self, piece: bytes) -> Iterator[bytes]:
        if piece.startswith(CLOSE):
            for frame in self._liar.last_words():
                yield Frame(Opcode.TEXT, encode(frame, "json")).serialize(mask=False)
        yield from _through(piece, self._liar.said, self._liar.format, mask=False)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            data = await self._inner.receive_some(max_bytes)
            if not data:
                return b""
            out = b"".join(
                lied
                for piece in self._to_server.feed(data)
                if self._liar.hears_closes or not piece.startswith(CLOSE)
                for lied in _through(piece, self._liar.asked, lambda format: format, mask=True)
            )
            if out:
                return out

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _through(
    piece: bytes, lie: Callable[[Map], list[Map]], format_of: Callable[[Format], Format], *, mask: bool
) -> Iterator[bytes]:
    format = FORMATS.get(piece[0] & 0x0F) if piece[0] & 0x80 else None
    payload = b"" if format is None else _payload(piece)
    try:
        frame = None if format is None else decode_map(payload, format)
    except RequestError:
        frame = None  # what the pack sends to provoke an error goes by as it is
    if format is None or frame is None:
        yield piece
        return
    told = lie(frame)
    if told == [frame] and format_of(format) == format:
        yield piece
        return
    for lied in told:
        opcode = Opcode.TEXT if format == "json" else Opcode.BINARY
        yield Frame(opcode, encode(lied, format_of(format))).serialize(mask=mask)


def _payload(piece: bytes) -> bytes:
    short = piece[1] & 0x7F
    start = 2 if short < 126 else 4 if short == 126 else 10
    if not piece[1] & 0x80:
        return piece[start:]
    key, data = piece[start : start + 4], piece[start + 4 :]
    keys = (key * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(keys, "big")).to_bytes(len(data), "big")


class LyingListener(trio.abc.Listener[LyingStream]):
    """Puts a fresh liar between the server and each connection."""

    def __init__(self, inner: MemoryListener, make: Callable[[], Liar]) -> None:
        self._inner = inner
        self._make = make
        self.socket = inner.socket

    async def accept(self) -> LyingStream:
        return LyingStream(await self._inner.accept(), self._make())

    async def aclose(self) -> None:
        await self._inner.aclose()


class MemoryDialer:
    """The way to the server that lies, over networks in memory."""

    url = "ws://localhost/ws"

    def __init__(self, listener: MemoryListener) -> None:
        self._listener = listener

    async def open_stream(self, *, slow: bool = False) -> Stream:
        await trio.lowlevel.checkpoint()
        return self._listener.dial(Pipe(SLOW_PIPE_BYTES if slow else PIPE_BYTES))


@asynccontextmanager
async def lying_server(make: Callable[[], Liar], folder: Path) -> AsyncIterator[MemoryDialer]:
    """Our server, in memory and on the scripted model, with this liar on every line."""
    numbers = count(1)
    tools = ToolRegistry(workspace_tools(folder, now=lambda: next(numbers)))
    listener = MemoryListener()
    async with open_world(ScriptedProvider(), tools=tools) as world:
        gateway = Gateway(
            world.registry,
            GatewaySettings(port=0, tick_ms=TICK_MS),
            authenticator=OpenAccess(),
            server="turnwire/broken",
            documents={"/schema.json": document(b"{}", "application/schema+json")},
            problem=lambda: None,
            rng=random.Random(1),
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(
                lambda task_status: gateway.serve(listeners=[LyingListener(listener, make)], task_status=task_status)
            )
            yield MemoryDialer(listener)
            nursery.cancel_scope.cancel()
