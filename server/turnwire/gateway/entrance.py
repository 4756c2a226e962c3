"""The entrance: from an accepted stream to a WebSocket, to an answer on plain HTTP, or to neither (W2, W3, X1)."""

import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any
from weakref import WeakKeyDictionary

import trio
from websockets.exceptions import NegotiationError
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.trio.server import Server, ServerConnection
from websockets.typing import Subprotocol

from turnwire.gateway.admission import Admission, Ticket, host_of
from turnwire.gateway.auth import Doorman, own_names
from turnwire.gateway.connection import format_of
from turnwire.gateway.http import TOO_BUSY, Documents, Site, plain
from turnwire.gateway.outbox import Outbox, OutboxLimits
from turnwire.gateway.settings import GatewaySettings
from turnwire.gateway.stream import FrameStream, StreamLimits
from turnwire.gateway.websocket import WebSocket
from turnwire.gateway.wire import wire_frame
from turnwire_protocol.frames import SUBPROTOCOL_JSON, SUBPROTOCOL_MSGPACK, ReloadNotice

_log = logging.getLogger(__name__)


class Entrance:
    """`documents` are answered on plain HTTP by exact path; `problem` says why the server is not ready, or None;
    `retry_after_ms` when to come back who is refused.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        documents: Documents,
        problem: Callable[[], str | None],
        retry_after_ms: Callable[[], int],
    ) -> None:
        self.draining = False
        """The server is about to restart: no new WebSockets."""
        self._settings = settings
        self._retry_after_ms = retry_after_ms
        doorman = Doorman((*own_names(settings.host), *settings.allowed_hosts), settings.allowed_origins)
        self._site = Site(doorman, documents, lambda: "draining" if self.draining else problem())
        self._outbox_limits = OutboxLimits(settings.outbox_bytes, settings.snapshot_bytes)
        self._stream_limits = StreamLimits(
            write_timeout=settings.write_timeout_s,
            close_timeout=settings.close_timeout_s,
            control_bytes=settings.control_bytes,
        )
        self._admission = Admission(
            handshakes=settings.max_handshakes,
            handshakes_per_address=settings.max_handshakes_per_address,
            connections=settings.max_connections,
            per_address=settings.max_connections_per_address,
            uncounted=settings.uncounted_networks,
        )
        self._tickets: WeakKeyDictionary[ServerConnection, Ticket] = WeakKeyDictionary()
        self._refused = 0
        """Connections that were refused since the last report."""

    def report(self) -> None:
        """Logs how many were refused since the last report: a storm of them is one line."""
        if self._refused:
            _log.warning("%(count)d connections were refused, since there are too many", {"count": self._refused})
            self._refused = 0

    def connect(
        self,
        nursery: trio.Nursery,
        stream: trio.abc.Stream,
        protocol: ServerProtocol,
        server: Server,
        **options: Any,
    ) -> ServerConnection:
        """What websockets calls with each stream that was accepted."""
        outbox = Outbox(
            self._outbox_limits,
            lambda session_id: wire_frame(ReloadNotice(session_id, "lagged"), format_of(protocol.subprotocol)),
        )
        ticket = self._admission.arrive(host_of(stream))
        if self._settings.tls is not None:
            # Its handshake is part of the first read, so who is one too many does not even get that.
            stream = trio.SSLStream(stream, self._settings.tls, server_side=True, https_compatible=True)
        frames = FrameStream(stream, nursery, outbox, self._stream_limits, None if ticket is None else ticket.end)
        socket = WebSocket(
            nursery,
            frames,
            protocol,
            server,
            first_bytes=self._settings.hello_bytes,
            max_fragments=self._settings.max_fragments,
            pace=self._settings.pace,
            control_rate=self._settings.control_rate,
            **options,
        )
        if ticket is None:
            self._refused += 1
            frames.feed(TOO_BUSY)
            frames.abandon()
        else:
            self._tickets[socket] = ticket
        return socket

    def answer(self, socket: ServerConnection, request: Request) -> Response | None:
        """The answer to the request of a connection, or None when it becomes a WebSocket."""
        response = self._site.answer(request)
        if response is not None:
            return response
        if self.draining:
            return self._come_back("The server is about to restart.\n")
        refusal = self._tickets[socket].upgrade()
        if refusal is not None:
            self._refused += 1
            return self._come_back(f"There are too many connections {refusal}.\n")
        return None

    def _come_back(self, sentence: str) -> Response:
        response = plain(HTTPStatus.SERVICE_UNAVAILABLE, sentence)
        response.headers["Retry-After"] = str(-(-self._retry_after_ms() // 1000))
        return response


def select_subprotocol(_socket: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """The first that the client offers and we know; none offered means JSON (W2)."""
    for subprotocol in offered:
        if subprotocol in (SUBPROTOCOL_JSON, SUBPROTOCOL_MSGPACK):
            return subprotocol
    if offered:
        raise NegotiationError(f"known subprotocols are {SUBPROTOCOL_JSON} and {SUBPROTOCOL_MSGPACK}")
    return None
