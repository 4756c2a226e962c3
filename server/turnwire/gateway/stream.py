"""The stream under one WebSocket: whole frames go out of an `Outbox`, and nobody but the drain task ever waits for it.

It stands between websockets and the accepted stream. What websockets sends (opening handshake, pongs, close) and what
the gateway feeds go through the same outbox, so frames never interleave, and a client that does not read blocks
neither of them. A frame for an idle client is written at once, without a task switch; what the kernel refuses is left
to one task, which is started on demand and gives the client up when it takes no byte for `write_timeout`. Under TLS
that task writes everything. After a close frame nothing more is accepted, and the connection ends within
`close_timeout`, whatever the client does.

Which frame goes next is decided in `outbox`; what frames mean, in `connection`.
"""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import trio
from msgspec import Struct

from turnwire.gateway.opening import Opening
from turnwire.gateway.outbox import Outbox
from turnwire.gateway.pace import Pace

_log = logging.getLogger(__name__)

CLOSE_FRAME: Final = b"\x88"
"""First byte of a WebSocket close frame; no HTTP response begins with it."""

BAD_REQUEST: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 37\r\n"
    b"Connection: close\r\n\r\nTurnwire cannot read this as a GET.\r\n"
)
"""What is said to a peer whose first bytes were no HTTP request that websockets can read; it would say nothing."""

CHUNK_BYTES: Final = 16 * 1024
"""How much is handed to a stream that is no plain socket before progress is counted."""


class StreamLimits(Struct, frozen=True):
    """Times in seconds. `control_bytes`: above it, whoever adds to the control lane waits."""

    write_timeout: float = 30.0
    close_timeout: float = 10.0
    control_bytes: int = 64 * 1024


class FrameStream(trio.abc.HalfCloseableStream):
    """`nursery` is the connection's; the tasks of this stream live there and end with the stream. `on_end` is called
    once, when the stream is closed or given up.
    """

    __slots__ = (
        "_answered",
        "_draining",
        "_inner",
        "_limits",
        "_nursery",
        "_on_end",
        "_opening",
        "_progress",
        "_socket",
        "_transport",
        "allowance",
        "bytes_in",
        "bytes_out",
        "dead",
        "heard",
        "on_excess",
        "outbox",
        "pace",
    )

    def __init__(
        self,
        inner: trio.abc.Stream,
        nursery: trio.Nursery,
        outbox: Outbox,
        limits: StreamLimits,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self.outbox = outbox
        self.dead = False
        """The stream was closed or given up; feeding it does nothing."""
        self.bytes_in = 0
        self.bytes_out = 0
        self.heard = False
        """Set whenever bytes came in; whoever watches over silence clears it."""
        self.pace: Pace | None = None
        """Told of everything that comes in."""
        self.on_excess: Callable[[], None] | None = None
        """Called once when the peer has sent more than `allowance` bytes."""
        self.allowance = 0
        self._inner = inner
        self._transport = inner.transport_stream if isinstance(inner, trio.SSLStream) else inner
        """Below TLS, if there is any: what is ended after the last frame, or closed when the peer is given up."""
        self._socket = inner.socket if isinstance(inner, trio.SocketStream) else None
        """What is written to without a task switch; None where something stands between."""
        self._nursery = nursery
        self._limits = limits
        self._on_end = on_end
        self._draining = False
        self._answered = False
        self._opening: Opening | None = Opening()
        self._progress: trio.Event | None = None

    # ------------------------------------------------------- feeding: synchronous, returns at once, raises nothing

    def feed(self, frame: bytes) -> None:
        """Sends a control frame: it overtakes all data."""
        self.outbox.add_control(frame)
        self.pump()

    def feed_mutations(self, session_id: str, frames: Sequence[bytes], joined: bytes) -> None:
        """Sends Mutations of one Session, or drops them when the client is too slow (W6).

        `joined` are the same bytes as `frames`: a client that keeps up gets them in one write.
        """
        outbox = self.outbox
        if outbox.quiet and self._socket is not None:
            written = self._try_write(joined)
            outbox.frames_out += len(frames)
            if written < len(joined) and not self.dead:
                outbox.begin(joined, written)
                self._start_drain()
            return
        outbox.add_mutations(session_id, frames, joined)
        self.pump()

    def lose_mutation(self, session_id: str) -> None:
        """A Mutation of this Session cannot be sent at all: the client has to reload (W10)."""
        self.outbox.lose(session_id)
        self.pump()

    def pump(self) -> None:
        """Writes what the outbox has, as far as that is possible at once; the rest is left to the drain task."""
        if self._draining or self.dead:
            return
        if self._socket is not None:
            chunk = self.outbox.head()
            if chunk is None:
                return
            self.outbox.wrote(self._try_write(chunk))
        if not self.outbox.idle and not self.dead:
            self._start_drain()

    def finish(self, writes: Iterable[bytes]) -> None:
        """Sends the last frames of the WebSocket protocol; an empty one among them ends the stream."""
        for data in writes:
            if data:
                self._add(data)
            elif not self.dead:
                self._nursery.start_soon(self.send_eof)

    def abandon(self) -> None:
        """Gives the peer up: closes at once, without any handshake. Idempotent."""
        if self.dead:
            return
        self._die()
        if isinstance(self._transport, trio.SocketStream):
            self._transport.socket.close()
        else:
            self._nursery.start_soon(trio.aclose_forcefully, self._inner)

    # ------------------------------------------------------------------------------------------------------- waiting

    @property
    def has_room(self) -> bool:
        """The control lane is below its bound."""
        return self.outbox.control_bytes <= self._limits.control_bytes

    async def wait_for_room(self) -> None:
        """Waits until the control lane is below its bound, or the stream is dead."""
        await self._until(lambda: self.has_room)

    async def wait_for_snapshots(self) -> None:
        """Waits until another snapshot may be begun, or the stream is dead (W6)."""
        await self._until(lambda: self.outbox.takes_snapshots)

    async def wait_until_sent(self) -> None:
        """Waits until nothing waits to be written, or the stream is dead."""
        await self._until(lambda: self.outbox.idle)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self.dead:
            if self._progress is None:
                self._progress = trio.Event()
            await self._progress.wait()

    def _wake(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    # ------------------------------------------------------------------------------------ the stream for websockets

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Queues one whole frame (or HTTP response); waits only while the control lane is above its bound."""
        if self.dead:
            raise trio.ClosedResourceError("the stream is closed")
        self._add(bytes(data))
        await trio.lowlevel.checkpoint()
        await self.wait_for_room()

    async def wait_send_all_might_not_block(self) -> None:
        await self.wait_for_room()

    async def send_eof(self) -> None:
        """Ends the stream when everything before is written, or closes it after `close_timeout`."""
        if not self._answered:
            self._add(BAD_REQUEST)
        self.outbox.close()
        with trio.move_on_after(self._limits.close_timeout) as scope:
            await self.wait_until_sent()
        if scope.cancelled_caught:
            self.abandon()
        if self.dead:
            return
        try:
            await self._end_inner()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.abandon()

    async def _end_inner(self) -> None:
        # TLS has no half close, and without one the peer's last bytes would turn the end into a reset.
        if isinstance(self._transport, trio.abc.HalfCloseableStream):
            await self._transport.send_eof()
        else:
            await self.aclose()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As of any stream; what stands behind the opening request comes when that is answered."""
        data = await self._next(max_bytes)
        if self.dead:  # behind the end that it has been told of, websockets would take bytes for a fault of its own
            raise trio.ClosedResourceError
        return data

    async def _next(self, max_bytes: int | None) -> bytes | bytearray:
        opening = self._opening
        if opening is None:
            return await self._receive(max_bytes)
        if opening.rest is None:
            return opening.request_part(bytes(await self._receive(max_bytes)))
        await self._until(lambda: self._answered)
        self._opening = None
        return opening.rest or await self._receive(max_bytes)

    async def _receive(self, max_bytes: int | None) -> bytes | bytearray:
        data = await self._inner.receive_some(max_bytes)
        self.heard = True
        self.bytes_in += len(data)
        if self.pace is not None:
            self.pace.received(len(data), trio.current_time())
        if self.on_excess is not None:
            self.allowance -= len(data)
            if self.allowance < 0:
                report, self.on_excess = self.on_excess, None
                report()
        return data

    async def aclose(self) -> None:
        self._die()
        await self._inner.aclose()

    # -------------------------------------------------------------------------------------------------------- inside

    def _add(self, data: bytes) -> None:
        if not self._answered:
            self._answered = True
            self._wake()
        if data[:1] == CLOSE_FRAME:
            self._nursery.start_soon(self._linger)
            self.outbox.close(data)
            self.pump()
        else:
            self.feed(data)

    def _die(self) -> None:
        self.dead = True
        self.outbox.close()
        self._wake()
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    async def _linger(self) -> None:
        with trio.move_on_after(self._limits.close_timeout):
            await self._until(lambda: False)
        self.abandon()

    def _try_write(self, data: bytes | memoryview) -> int:
        """One non-blocking write; 0 when the kernel takes nothing or the peer is gone."""
        assert self._socket is not None
        try:
            written = os.write(self._socket.fileno(), data)
        except BlockingIOError:
            return 0
        except OSError:
            self.abandon()
            return 0
        self.bytes_out += written
        return written

    def _start_drain(self) -> None:
        self._draining = True
        self._nursery.start_soon(self._drain)

    async def _drain(self) -> None:
        whole = False
        try:
            await self._drain_outbox()
            whole = True
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.abandon()
        finally:
            self._draining = False
            if not whole:
                # Cancelled: half a frame may be on the wire, so nothing may ever follow it.
                self._die()

    async def _drain_outbox(self) -> None:
        deadline = trio.current_time() + self._limits.write_timeout
        while not self.dead and (chunk := self.outbox.head()) is not None:
            with trio.CancelScope(deadline=deadline) as scope:
                written = await self._write_some(chunk)
            if scope.cancelled_caught:
                _log.info(
                    "a client took no byte for %(seconds)g s and was given up", {"seconds": self._limits.write_timeout}
                )
                self.abandon()
                return
            if written:
                deadline = trio.current_time() + self._limits.write_timeout
                self.outbox.wrote(written)
                self._wake()

    async def _write_some(self, chunk: memoryview) -> int:
        if isinstance(self._inner, trio.SocketStream):
            await self._inner.wait_send_all_might_not_block()
            return 0 if self.dead else self._try_write(chunk)
        piece = chunk[:CHUNK_BYTES]
        await self._inner.send_all(piece)
        self.bytes_out += len(piece)
        return len(piece)
