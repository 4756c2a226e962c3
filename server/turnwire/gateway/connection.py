"""One client: `hello`, then requests in order, subscriptions, and the end (W3, W4, W8, W9, X3).

Two tasks at most. The reader always takes what websockets has, so that a pong is never stuck behind requests, and puts
requests into a bounded inbox. The worker exists only while there are requests, answers them one after the other, and
begins none while the client leaves its answers unread, nor one for a snapshot while too much waits of others (W6). A
lost connection ends neither a Turn nor the request that is being answered (T4).
"""

import logging
from typing import Any, Final

import trio
from websockets.exceptions import ConnectionClosed

from turnwire.gateway.identity import Identity
from turnwire.gateway.inbox import Inbox, weight_of
from turnwire.gateway.principals import Principal
from turnwire.gateway.subscriptions import Subscriptions
from turnwire.gateway.surroundings import Surroundings
from turnwire.gateway.websocket import WebSocket
from turnwire.gateway.wire import PING, TICKS, size_of, wire_frame
from turnwire_protocol import frames
from turnwire_protocol.codec import Format, decode_map, request_id_of, request_of
from turnwire_protocol.codes import RequestError

_log = logging.getLogger(__name__)

_CLOSE_AFTER_HELLO: Final[dict[str, int]] = {
    "unauthenticated": 4401,
    "forbidden": 4403,
    "rate_limited": 4429,
    "unavailable": 1013,
    "internal": 1011,
}
"""How a connection is closed whose `hello` was refused with this error; 4400 for all others."""


def format_of(subprotocol: str | None) -> Format:
    """JSON unless MessagePack was negotiated (W2)."""
    return "msgpack" if subprotocol == frames.SUBPROTOCOL_MSGPACK else "json"


class Connection:
    """Serves one open WebSocket; `run` lasts as long as the client is there. `bearer` came with the upgrade request."""

    def __init__(self, socket: WebSocket, surroundings: Surroundings, bearer: str | None = None) -> None:
        self.stream = socket.frames
        self.silent_ticks = 0
        self.frames_in = 0
        self._socket = socket
        self._format: Format = format_of(socket.subprotocol)
        self._around = surroundings
        self._identity = Identity(surroundings, bearer)
        self._subscriptions = Subscriptions(self.stream, self._format, surroundings)
        self._inbox = Inbox(surroundings.settings.inbox_limits, trio.current_time())
        self._working = False
        self._at_rest = trio.Event()
        """Set when a worker ends."""
        self._finishing = False
        """Nothing more is taken in. It may be too late to say so by a close frame: the client may have ended it."""
        self._hint_ms: int | None = None
        """What a client that says `hello` from now on is told about the restart."""

    async def run(self) -> None:
        """Serves the client until it is gone; never raises for anything that a client does."""
        try:
            await self._open()
            with self._identity.lifetime:
                await self._read()
            self._expire()
            await self._read()
        except ConnectionClosed:
            _log.debug("a client has gone")
        finally:
            self._inbox.clear()
            self._subscriptions.close()
            self._identity.leave()

    @property
    def close_code(self) -> int:
        """The code that both sides, or this one, ended with; 1006 when there was none."""
        sent = self._socket.protocol.close_sent
        return 1006 if sent is None else sent.code

    def close(self, code: int, reason: str) -> None:
        """Ends the connection with a close frame and without waiting; idempotent. No further request is begun."""
        self._finishing = True
        self._inbox.clear()
        self._socket.close_now(code, reason)

    def send(self, frame: Any) -> None:
        """Sends a frame that belongs to no Session, ahead of all data."""
        self.stream.feed(wire_frame(frame, self._format))

    async def finish(self, code: int, reason: str) -> None:
        """Takes no further request in, and closes when what was asked is answered and what waits is sent (W8).

        Lasts as long as the client and the Sessions take: whoever calls has a deadline, and then calls `close`.
        """
        self._finishing = True
        while self._working:
            await self._at_rest.wait()
        self._around.fanout.flush()
        await self.stream.wait_until_sent()
        self.close(code, reason)

    def announce(self, retry_after_ms: int) -> None:
        """Says that the server is about to restart: now, or after `welcome` (W8)."""
        if self._identity.known:
            self.send(frames.Draining(retry_after_ms))
        else:
            self._hint_ms = retry_after_ms

    @property
    def principal(self) -> Principal | None:
        """Who is there; None before `hello`."""
        return self._identity.principal if self._identity.known else None

    async def recheck(self) -> None:
        """Ends the subscriptions that the principal may no longer have (X3)."""
        if self._identity.known:
            await self._subscriptions.recheck(self._identity.principal)

    def tick(self, max_silent_ticks: int) -> None:
        """Sends a tick and a ping, or gives up a client that has answered none of so many (W8).

        While a ping waits behind other bytes its silence says nothing: the stream watches over that.
        """
        if not self._identity.known:
            return  # whoever has not said hello has its own deadline, and is not pinged
        if self._identity.expired:
            self._expire()
            return
        if self._socket.pace.is_too_slow(trio.current_time()):
            self.close(4408, "a message took too long")
            return
        if self.stream.heard:
            self.silent_ticks = 0
        elif self.silent_ticks >= max_silent_ticks:
            _log.info("a client was silent for %(ticks)d ticks and was given up", {"ticks": self.silent_ticks})
            self.stream.abandon()
            return
        self.stream.heard = False
        if not self.stream.outbox.tick_waits:
            self.silent_ticks += 1
        self.stream.outbox.add_tick(TICKS[self._format] + PING)
        self.stream.pump()

    def _expire(self) -> None:
        self.close(4401, "the token has expired")

    # ------------------------------------------------------------------------------------------------------- opening

    async def _open(self) -> None:
        data: str | bytes | None = None
        with trio.move_on_after(self._around.settings.hello_timeout_s) as scope:
            data = await self._next()
            if self._kind_is_right(data):
                await self._greet(data)
        if scope.cancelled_caught:
            self.close(4408, "no hello in time")

    async def _greet(self, data: str | bytes) -> None:
        """Lets the client in, or says why not and closes."""
        request_id: int | None = None
        try:
            value = decode_map(data, self._format)
            request_id = request_id_of(value)
            if value.get("op") != "hello":
                raise RequestError("unauthenticated", "`hello` must be the first request")
            hello = request_of(value)
            assert isinstance(hello, frames.Hello)
            self.send(await self._identity.hello(hello))
            if self._hint_ms is not None:
                self.send(frames.Draining(self._hint_ms))
        except RequestError as error:
            self._turn_away(error, request_id)
        except Exception:  # noqa: BLE001 - W9: a fault of the server, or of an embedder's hook, is logged and answered
            _log.exception("hello failed")
            self._turn_away(RequestError("internal", "the server failed"), request_id)

    def _turn_away(self, error: RequestError, request_id: int | None) -> None:
        self.send(error.frame(request_id))
        self.close(_CLOSE_AFTER_HELLO.get(error.code, 4400), error.code)

    # ------------------------------------------------------------------------------------------------------- reading

    async def _next(self) -> str | bytes:
        data = await self._socket.recv()
        self.frames_in += 1
        return data

    async def _read(self) -> None:
        """Reads until the client is gone; what comes after a close frame of ours is not looked at."""
        while True:
            data = await self._next()
            if not self._finishing and not self.stream.outbox.closed:
                self._receive(data)

    def _kind_is_right(self, data: str | bytes) -> bool:
        if isinstance(data, str) == (self._format == "json"):
            return True
        self.close(1003, "text frames for JSON, binary frames for MessagePack")
        return False

    def _receive(self, data: str | bytes) -> None:
        """Takes a request in, or answers at once why not."""
        if not self._kind_is_right(data):
            return
        request_id: int | None = None
        settings = self._around.settings
        size = size_of(data)
        weight = weight_of(size)
        wait = self._inbox.meter(trio.current_time(), weight) or self._identity.wait_for_request(weight)
        try:
            value = decode_map(data, self._format)
            request_id = request_id_of(value)
            if wait:
                raise RequestError("rate_limited", f"too many requests; wait for {wait:.3f} s")
            request = request_of(value, max_depth=settings.max_depth, max_values=settings.max_values)
            self._inbox.put(request, size)
        except RequestError as error:
            self._refuse(error, request_id, weight)
            return
        if not self._working:
            self._working = True
            self._at_rest = trio.Event()
            self._socket.nursery.start_soon(self._work)

    def _refuse(self, error: RequestError, request_id: int | None, weight: int) -> None:
        self._inbox.refused(weight)
        if self.stream.has_room and not self._inbox.hopeless:
            self.send(error.frame(request_id))
        else:
            # It keeps sending and does not read, so its refusals would grow without end, or it does not learn.
            self.close(4429, "too many requests")

    # ------------------------------------------------------------------------------------------------------- working

    async def _work(self) -> None:
        try:
            while self._inbox:
                await self.stream.wait_for_room()
                if self._inbox.joins:
                    await self.stream.wait_for_snapshots()
                if self._inbox:
                    request = self._inbox.take()
                    await self._answer(request)
                    self._inbox.answered(request)
        finally:
            self._working = False
            self._at_rest.set()

    async def _answer(self, request: frames.Request) -> None:
        try:
            answer = await self._encoded_answer(request)
        except RequestError as error:
            answer = wire_frame(error.frame(request.id), self._format)
        except Exception:  # noqa: BLE001 - W9: a fault of the server is logged, answered, and ends nothing else
            _log.exception("request `%(op)s` failed", {"op": request.__struct_config__.tag})
            answer = wire_frame(RequestError("internal", "the server failed").frame(request.id), self._format)
        if answer is not None:
            self.stream.feed(answer)

    async def _encoded_answer(self, request: frames.Request) -> bytes | None:
        """None: the answer was given when the Session was joined."""
        principal = self._identity.principal
        await self._around.guard.check(principal, request)
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
                welcome = await self._identity.hello(request)
                await self._subscriptions.recheck(self._identity.principal)
                return wire_frame(welcome, self._format)
            case _:
                result = await self._around.performer.perform(request, principal)
        answer = wire_frame(frames.Result(request.id, result), self._format)
        if len(answer) > self._around.settings.max_frame_bytes:
            raise RequestError("too_large", "the answer is larger than max_frame; ask for less")
        return answer
