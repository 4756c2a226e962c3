"""The gateway: listeners, all connections, the tick, and the orderly end (W8). Sessions know nothing of it.

Nothing starts from a constructor: `serve` owns every task, and returns when it is cancelled or has been drained.
"""

import logging
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

import trio
from websockets.trio.server import ServerConnection, serve

from turnwire.gateway.auth import bearer_of
from turnwire.gateway.authorization import GrantRules, Guard
from turnwire.gateway.connection import Connection
from turnwire.gateway.entrance import Entrance, select_subprotocol
from turnwire.gateway.fanout import Fanout
from turnwire.gateway.http import Documents
from turnwire.gateway.listening import PatientListener, address_of
from turnwire.gateway.principals import Authenticator, Authorizer
from turnwire.gateway.rates import Buckets, Places
from turnwire.gateway.requests import Performer, Sessions
from turnwire.gateway.settings import GatewaySettings
from turnwire.gateway.surroundings import Surroundings
from turnwire.gateway.traffic import Traffic
from turnwire.gateway.websocket import QuietLogger, WebSocket
from turnwire.gateway.wire import compressed

RESTART: Final = (1012, "the server restarts")

TICKS_PER_STEP: Final = 200
"""How many clients get their tick before other tasks have their turn."""


class Gateway:
    """Serves Sessions on the network.

    `authenticator` tells who clients are, `authorizer` what they may do: the rules of grants and ownership if None.
    `server` is the name told in `welcome`; `documents` are answered on plain HTTP by exact path; `problem` says why the
    server is not ready, or None; `rng` spreads the retry hints; `now` is the wall clock in seconds since 1970.
    """

    def __init__(
        self,
        sessions: Sessions,
        settings: GatewaySettings,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer | None = None,
        server: str,
        documents: Documents,
        problem: Callable[[], str | None],
        rng: random.Random,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._rng = rng
        self._server = server
        self._fanout = Fanout(settings.max_frame_bytes)
        guard = Guard(authorizer or GrantRules(sessions.owned_by))
        self._surroundings = Surroundings(
            sessions=sessions,
            performer=Performer(
                sessions,
                guard,
                page=settings.page,
                max_page=settings.max_page,
                most=settings.max_sessions_per_principal,
            ),
            fanout=self._fanout,
            authenticator=authenticator,
            guard=guard,
            principals=Places(settings.max_connections, settings.max_connections_per_principal),
            principal_rates=Buckets(settings.principal_rate),
            now=now,
            settings=settings,
            server=server,
        )
        self._entrance = Entrance(settings, documents, problem, self._retry_after_ms)
        self._connections: set[Connection] = set()
        self._traffic = Traffic()
        self._emptied = trio.Event()
        self._closing = False
        self._drained = trio.Event()

    @property
    def traffic(self) -> Traffic:
        """What has gone through until now; adds up all connections."""
        return self._traffic.with_open(self._connections)

    @property
    def connection_count(self) -> int:
        """Open WebSockets."""
        return len(self._connections)

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait for slow clients, all connections together (W6)."""
        return sum(connection.stream.outbox.pending_bytes for connection in self._connections)

    async def serve(
        self,
        *,
        listeners: Sequence[trio.abc.Listener[Any]] | None = None,
        task_status: trio.TaskStatus[list[tuple[str, int]]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves until cancelled, or until `drain` is done; reports the bound (host, port) of each listener.

        Raises OSError when the address cannot be listened on.
        """
        settings = self._settings
        if listeners is None:
            listeners = await trio.open_tcp_listeners(settings.port, host=settings.host)
        async with trio.open_nursery() as nursery:
            await nursery.start(
                partial(
                    serve,
                    self._handle,
                    listeners=cast(list[trio.SocketListener], [PatientListener(each) for each in listeners]),
                    select_subprotocol=select_subprotocol,
                    compression="deflate" if settings.compression else None,
                    process_request=self._entrance.answer,
                    server_header=self._server,
                    logger=QuietLogger(logging.getLogger("websockets.server"), {}),
                    open_timeout=settings.open_timeout_s,
                    ping_interval=None,  # the tick pings, in one task for all
                    close_timeout=settings.close_timeout_s,
                    max_size=settings.max_request_bytes,
                    create_connection=cast(type[ServerConnection], self._entrance.connect),
                )
            )
            nursery.start_soon(self._tick)
            nursery.start_soon(self._fanout.run)
            task_status.started([address_of(listener) for listener in listeners])
            await self._drained.wait()
            nursery.cancel_scope.cancel()

    def announce(self) -> None:
        """Says that the server is about to restart: `draining` to every client, 503 to new ones. Idempotent.

        Each client gets its own hint when to come back, so that they do not all come at once (R5).
        """
        if self._entrance.draining:
            return
        self._entrance.draining = True
        for connection in self._connections:
            connection.announce(self._retry_after_ms())

    async def recheck(self, principal_id: str | None = None) -> None:
        """Asks the Authorizer again about every subscription, of one principal or of all, and ends those that it no
        longer allows (`unsubscribed`, reason `forbidden`): for embedding programs, after they took a right away (X3).

        Raises what the Authorizer raises.
        """
        for connection in list(self._connections):
            if principal_id is None or (connection.principal is not None and connection.principal.id == principal_id):
                await connection.recheck()

    def revoke(self, principal_id: str) -> None:
        """Closes all connections of a principal with 4401: for embedding programs, after a logout (X3).

        Whether it may come back is the Authenticator's to say.
        """
        for connection in list(self._connections):
            if connection.principal is not None and connection.principal.id == principal_id:
                connection.close(4401, "the token was revoked")

    async def drain(self) -> None:
        """Announces, closes every connection with 1012, and ends `serve`, within `close_timeout_s` (W8).

        What was asked is answered, and what waits for a client is sent, before its close: for half of that time.
        """
        self.announce()
        start, patience = trio.current_time(), self._settings.close_timeout_s
        with trio.move_on_at(start + patience / 2):
            async with trio.open_nursery() as nursery:
                for connection in self._connections:
                    nursery.start_soon(connection.finish, *RESTART)
        self._closing = True
        for connection in self._connections:
            connection.close(*RESTART)
        with trio.move_on_at(start + patience):
            while self._connections:
                await self._emptied.wait()
        for connection in self._connections:
            connection.stream.abandon()
        self._drained.set()

    # -------------------------------------------------------------------------------------------------------- inside

    def _retry_after_ms(self) -> int:
        return self._settings.retry_after_ms + self._rng.randint(0, self._settings.retry_spread_ms)

    async def _tick(self) -> None:
        interval = self._settings.tick_ms / 1000
        due = trio.current_time()
        while True:
            due += interval
            await trio.sleep_until(due)
            self._entrance.report()
            for number, connection in enumerate(list(self._connections), start=1):
                connection.tick(self._settings.max_silent_ticks)
                if number % TICKS_PER_STEP == 0:
                    await trio.lowlevel.checkpoint()

    async def _handle(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        assert socket.response is not None
        websocket = cast(WebSocket, socket)
        if socket.protocol.extensions:
            websocket.frames.outbox.encode_with(compressed(socket.protocol.extensions))
        connection = Connection(websocket, self._surroundings, bearer_of(socket.request.headers))
        for opening in (socket.request, socket.response):
            opening.headers.clear()  # websockets keeps them, a token among them, as long as the connection lasts
        self._connections.add(connection)
        self._traffic.opened += 1
        if self._entrance.draining:  # since its opening handshake was let through
            connection.announce(self._retry_after_ms())
        if self._closing:
            connection.close(*RESTART)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self._traffic.ended(connection, connection.close_code)
            if not self._connections:
                self._emptied.set()
                self._emptied = trio.Event()
