"""A liar on the line between a server and one client.

It reads every frame that goes by, in both directions, and changes, repeats or drops it. So a fault of a server is a few
lines about frames, whatever the server is made of inside.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import trio
from websockets.frames import Close, Frame, Opcode

from gateway_world import LinkStream, MemoryListener
from turnwire.gateway.authorization import GrantRules
from turnwire.gateway.tokens import TokenAuthenticator
from turnwire_protocol.codec import Format, decode_map, encode
from turnwire_protocol.codes import RequestError

Map = dict[str, Any]

HTTP: Final = b"HTTP/1.1 "
HEADER_END: Final = b"\r\n\r\n"
CLOSE: Final = bytes([0x80 | Opcode.CLOSE])
"""How a close frame begins."""

FORMATS: Final[dict[int, Format]] = {Opcode.TEXT: "json", Opcode.BINARY: "msgpack"}


class Liar:
    """Tells the truth. A fault is a subclass: what becomes of each frame from the server, and to it; or what the server
    is made of, where no frame could tell the lie.
    """

    process = 1
    """Which process of the server it stands before: the first one, or one after restarts."""

    closes_when_full = False
    """Closes the connection of a client that has let the network fill up."""

    hears_closes = True
    """The server learns that a client closes its connection."""

    authenticator: type[TokenAuthenticator] = TokenAuthenticator
    rules: type[GrantRules] = GrantRules

    exit_code: int | None = None
    """How a process ends that was told to stop, if not as it has deserved."""

    def said(self, frame: Map) -> list[Map]:
        """What the client gets of a frame from the server."""
        return [frame]

    def asked(self, request: Map) -> list[Map]:
        """What the server gets of a request."""
        return [request]

    def last_words(self) -> list[Map]:
        """What a client of JSON gets just before the close frame."""
        return []

    def closes(self, code: int) -> int:
        """The code of the close frame that the client gets."""
        return code

    def format(self, format: Format) -> Format:
        """How frames to the client are encoded."""
        return format

    def status(self, status: int) -> int:
        """The status of an HTTP response."""
        return status


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
        if piece.startswith(HTTP):
            status, rest = piece[len(HTTP) :].split(b" ", 1)
            yield b"%s%d %s" % (HTTP, self._liar.status(int(status)), rest)
        elif piece.startswith(CLOSE):
            for frame in self._liar.last_words():
                yield _frame(Opcode.TEXT, encode(frame, "json"))
            close = Close.parse(_payload(piece))
            yield _frame(Opcode.CLOSE, Close(self._liar.closes(close.code), close.reason).serialize())
        else:
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
        yield _frame(opcode, encode(lied, format_of(format)), mask=mask)


def _frame(opcode: Opcode, payload: bytes, *, mask: bool = False) -> bytes:
    return Frame(opcode, payload).serialize(mask=mask)


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

    def __init__(self, make: Callable[[], Liar], process: int) -> None:
        self._make = make
        self._process = process
        self._inner = MemoryListener()
        self._accepted: list[LyingStream] = []
        self.socket = self._inner.socket
        self.dial = self._inner.dial

    async def accept(self) -> LyingStream:
        liar = self._make()
        liar.process = self._process
        stream = LyingStream(await self._inner.accept(), liar)
        self._accepted.append(stream)
        return stream

    async def cut(self) -> None:
        """Ends all connections where they stand, as the system does with those of a process that was killed."""
        for stream in self._accepted:
            await trio.aclose_forcefully(stream)

    async def aclose(self) -> None:
        await self._inner.aclose()
