"""One client: `hello`, then requests in order, subscriptions, and the end (W3, W4, W8, W9).

Two tasks at most. The reader always takes what websockets has, so that a pong is never stuck behind requests, and puts
requests into a bounded queue. The worker exists only while there are requests, answers them one after the other, and
begins none while the client leaves its answers unread. A lost connection ends neither a Turn nor the request that is
being answered (T4).
"""

import logging
from collections import deque
from typing import Any, Final

import trio
from websockets.exceptions import ConnectionClosed

from turnwire.gateway.requests import given
from turnwire.gateway.subscriptions import Subscriptions
from turnwire.gateway.surroundings import Surroundings
from turnwire.gateway.websocket import WebSocket
from turnwire.gateway.wire import PING, TICKS, wire_frame
from turnwire_protocol import frames
from turnwire_protocol.codec import Format, decode_map, request_id_of, request_of
from turnwire_protocol.codes import RequestError

_log = logging.getLogger(__name__)

_CLOSE_AFTER_HELLO: Final[dict[str, int]] = {"unauthenticated": 4401, "forbidden": 4403}
"""How a connection is closed whose `hello` was refused with this error; 4400 for all others."""


def format_of(subprotocol: str | None) -> Format:
    """JSON unless MessagePack was negotiated (W2)."""
    return "msgpack" if subprotocol == frames.SUBPROTOCOL_MSGPACK else "json"


class Connection:
    """Serves one open WebSocket; `run` lasts as long as the client is there."""

    def __init__(self, socket: WebSocket, surroundings: Surroundings) -> None:
        self.stream = socket.frames
        self.silent_ticks = 0
        self._socket = socket
        self._format: Format = format_of(socket.subprotocol)
        self._around = surroundings
        self._principal: frames.Principal | None = None
        self._subscriptions = Subscriptions(self.stream, self._format, surroundings)
        self._queue: deque[tuple[frames.Request, int]] = deque()
        self._queued_bytes = 0
        self._open_ids: set[int] = set()
        self._working = False

    async def run(self) -> None:
        """Serves the client until it is gone; never raises for anything that a client does."""
        try:
            await self._open()
            while True:
                data = await self._socket.recv()
                if not self.stream.outbox.closed:
                    self._receive(data)
        except ConnectionClosed:
            _log.debug("a client has gone")
        finally:
            self._queue.clear()
            self._subscriptions.close()

    def close(self, code: int, reason: str) -> None:
        """Ends the connection with a close frame and without waiting; idempotent."""
        self._socket.close_now(code, reason)

    def send(self, frame: Any) -> None:
        """Sends a frame that belongs to no Session, ahead of all data."""
        self.stream.feed(wire_frame(frame, self._format))

    def announce(self, retry_after_ms: int) -> None:
        """Says that the server is about to restart, to a client that has been welcomed (W8)."""
        if self._principal is not None:
            self.send(frames.Draining(retry_after_ms))

    def tick(self, max_silent_ticks: int) -> None:
        """Sends a tick and a ping, or gives up a client that has answered none of so many (W8).

        While a ping waits behind other bytes its silence says nothing: the stream watches over that.
        """
        if self._principal is None:
            return  # whoever has not said hello has its own deadline, and is not pinged
        if self.stream.heard:
            self.silent_ticks = 0
        elif self.silent_ticks >= max_silent_ticks:
            _log.info("a client was silent for %d ticks and was given up", self.silent_ticks)
            self.stream.abandon()
            return
        self.stream.heard = False
        if not self.stream.outbox.tick_waits:
            self.silent_ticks += 1
        self.stream.outbox.add_tick(TICKS[self._format] + PING)
        self.stream.pump()

    # ------------------------------------------------------------------------------------------------------- opening

    async def _open(self) -> None:
        data: str | bytes | None = None
        with trio.move_on_after(self._around.settings.hello_timeout_s):
            data = await self._socket.recv()
        if data is None:
            self.close(4408, "no hello in time")
        elif self._kind_is_right(data):
            self._greet(data)

    def _greet(self, data: str | bytes) -> None:
        """Lets the client in, or says why not and closes."""
        request_id: int | None = None
        try:
            value = decode_map(data, self._format)
            request_id = request_id_of(value)
            if value.get("op") != "hello":
                raise RequestError("unauthenticated", "`hello` must be the first request")
            self._welcome(request_of(value))
        except RequestError as error:
            self.send(error.frame(request_id))
            self.close(_CLOSE_AFTER_HELLO.get(error.code, 4400), error.code)

    def _welcome(self, hello: frames.Request) -> None:
        assert isinstance(hello, frames.Hello)
        version = given(hello.protocol, frames.PROTOCOL_VERSION)
        if version != frames.PROTOCOL_VERSION:
            raise RequestError(
                "invalid_argument", f"protocol: this server speaks version {frames.PROTOCOL_VERSION}", field="protocol"
            )
        self._principal = self._around.authenticator.principal_of(hello)
        settings = self._around.settings
        self.send(
            frames.Welcome(
                id=hello.id,
                protocol=frames.PROTOCOL_VERSION,
                server=self._around.server,
                limits=settings.limits(),
                tick_ms=settings.tick_ms,
                principal=self._principal,
            )
        )

    # ------------------------------------------------------------------------------------------------------- reading

    def _kind_is_right(self, data: str | bytes) -> bool:
        if isinstance(data, str) == (self._format == "json"):
            return True
        self.close(1003, "text frames for JSON, binary frames for MessagePack")
        return False

    def _receive(self, data: str | bytes) -> None:
        """Queues a request, or answers at once why not."""
        if not self._kind_is_right(data):
            return
        request_id: int | None = None
        try:
            value = decode_map(data, self._format)
            request_id = request_id_of(value)
            self._enqueue(request_of(value), len(data))
        except RequestError as error:
            self._refuse(error, request_id)

    def _enqueue(self, request: frames.Request, size: int) -> None:
        settings = self._around.settings
        if request.id in self._open_ids:
            raise RequestError("invalid_argument", "id: a request with this id is still open", field="id")
        full = len(self._queue) >= settings.max_queued_requests
        if full or (self._queue and self._queued_bytes + size > settings.max_queued_bytes):
            raise RequestError("rate_limited", "too many requests wait for their answers")
        self._open_ids.add(request.id)
        self._queue.append((request, size))
        self._queued_bytes += size
        if not self._working:
            self._working = True
            self._socket.nursery.start_soon(self._work)

    def _refuse(self, error: RequestError, request_id: int | None) -> None:
        if self.stream.has_room:
            self.send(error.frame(request_id))
        else:
            # It keeps sending and does not read: its refusals would grow without end.
            self.close(4429, "too many requests")

    # ------------------------------------------------------------------------------------------------------- working

    async def _work(self) -> None:
        try:
            while self._queue:
                await self.stream.wait_for_room()
                if self._queue:
                    request, size = self._queue.popleft()
                    self._queued_bytes -= size
                    await self._answer(request)
                    self._open_ids.discard(request.id)
        finally:
            self._working = False

    async def _answer(self, request: frames.Request) -> None:
        try:
            answer = await self._encoded_answer(request)
        except RequestError as error:
            answer = wire_frame(error.frame(request.id), self._format)
        except Exception:  # noqa: BLE001 - W9: a fault of the server is logged, answered, and ends nothing else
            _log.exception("request %r failed", request.__struct_config__.tag)
            answer = wire_frame(RequestError("internal", "the server failed").frame(request.id), self._format)
        if answer is not None:
            self.stream.feed(answer)

    async def _encoded_answer(self, request: frames.Request) -> bytes | None:
        """None: the answer was given when the Session was joined."""
        match request:
            case frames.Ping():
                result: Any = {}
            case frames.Subscribe():
                await self._subscriptions.subscribe(request)
                return None
            case frames.Reload():
                await self._subscriptions.reload(request)
                return None
            case frames.Unsubscribe():
                self._subscriptions.unsubscribe(request.session_id)
                result = {}
            case frames.Hello():
                raise RequestError("invalid_argument", "op: `hello` was said already", field="op")
            case _:
                assert self._principal is not None
                result = await self._around.performer.perform(request, self._principal.id)
        answer = wire_frame(frames.Result(request.id, result), self._format)
        if len(answer) > self._around.settings.max_frame_bytes:
            raise RequestError("too_large", "the answer is larger than max_frame; ask for less")
        return answer
