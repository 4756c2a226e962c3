"""The ways to a server that is under test, below any WebSocket, and streams that stall and break on purpose."""

import socket
import ssl
import struct
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlsplit

import trio

SLOW_BUFFER_BYTES: Final = 16 * 1024
"""The system's receive buffer of a client that will stall, so that the server notices soon."""

Stream: TypeAlias = trio.abc.HalfCloseableStream


class Dialer(Protocol):
    """The way to the server that is under test."""

    @property
    def url(self) -> str:
        """The WebSocket's URL."""

    async def open_stream(self, *, slow: bool = False) -> Stream:
        """A fresh connection, before any TLS and HTTP. Raises OSError."""


class TcpDialer:
    """Over the network, to host and port of a `ws://` or `wss://` URL."""

    def __init__(self, url: str, host: str, port: int) -> None:
        self._url, self._host, self._port = url, host, port

    @property
    def url(self) -> str:
        return self._url

    async def open_stream(self, *, slow: bool = False) -> Stream:
        if not slow:
            return await trio.open_tcp_stream(self._host, self._port)
        family, kind, protocol, _, address = (
            await trio.socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        )[0]
        raw = trio.socket.socket(family, kind, protocol)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER_BYTES)
        await raw.connect(address)
        return trio.SocketStream(raw)


async def secured(stream: Stream, url: str) -> trio.abc.Stream:
    """The stream as HTTP is spoken on it: in TLS for a `wss://` URL. Raises OSError when that does not come about."""
    parts = urlsplit(url)
    if parts.scheme != "wss":
        return stream
    within = trio.SSLStream(stream, ssl.create_default_context(), server_hostname=parts.hostname, https_compatible=True)
    try:
        await within.do_handshake()
    except trio.BrokenResourceError as error:
        raise no_tls(error) from None
    return within


def no_tls(error: trio.BrokenResourceError) -> OSError:
    """What to say when the handshake of TLS has failed, such as for a certificate that is not trusted."""
    return ConnectionError(f"no TLS came about: {error.__cause__ or 'the connection broke'}")


class GatedStream(trio.abc.HalfCloseableStream):
    """A stream that can stop to read, and end in every way."""

    def __init__(self, inner: Stream) -> None:
        self._inner = inner
        self._open = trio.Event()
        self._open.set()

    @property
    def stalled(self) -> bool:
        return not self._open.is_set()

    def stall(self) -> None:
        self._open = trio.Event()

    def read_on(self) -> None:
        self._open.set()

    async def cut(self, how: str) -> None:
        """`reset` throws away what is under way, `end` is an orderly end of the bytes."""
        self._open.set()
        if how == "reset" and isinstance(self._inner, trio.SocketStream):
            self._inner.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await trio.aclose_forcefully(self._inner)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        await self._open.wait()
        data = await self._inner.receive_some(max_bytes)
        await self._open.wait()
        return data

    async def aclose(self) -> None:
        self._open.set()
        await self._inner.aclose()
