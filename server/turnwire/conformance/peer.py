"""A scripted client on a real WebSocket: what it has received, its views, and the ways in which it can misbehave.

What it does when is the timeline's (`server_run`); what its frames must be like on top, the witness's.
"""

import logging
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

import trio
from websockets.exceptions import ConnectionClosed
from websockets.trio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from turnwire.conformance.compare import check_snapshot
from turnwire.conformance.patterns import UnknownVariable
from turnwire.conformance.shapes import Map
from turnwire.conformance.streams import Dialer, GatedStream, no_tls
from turnwire.conformance.verdict import Broken
from turnwire.conformance.witness import Witness
from turnwire_protocol.codec import Format, decode_map, encode
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import SUBPROTOCOL_JSON, SUBPROTOCOL_MSGPACK
from turnwire_protocol.view import SessionView

SUBPROTOCOLS: Final[dict[Format, str]] = {"json": SUBPROTOCOL_JSON, "msgpack": SUBPROTOCOL_MSGPACK}
ABNORMAL: Final = 1006
"""How a connection ended that saw no close frame."""

QUIET: Final = logging.getLogger("turnwire.conformance.websockets")
"""The pack tears connections apart on purpose; what websockets has to say of that is no news."""

QUIET.setLevel(logging.CRITICAL + 1)


class Link:
    """One connection of a peer, and every frame that came on it."""

    def __init__(self, connection: ClientConnection, stream: GatedStream, format: Format) -> None:
        self.connection = connection
        self.stream = stream
        self.format: Format = format
        self.witness = Witness()
        self.frames: list[Map] = []
        self.cursor = 0
        """Frames below it have been dealt with by an `expect`."""
        self.code: int | None = None
        """How it ended; None while it lives."""
        self.tick_ms = 0


class Peer:
    """A client by the name that timelines give it. Views and ids live longer than connections."""

    def __init__(self, name: str, nursery: trio.Nursery) -> None:
        self.name = name
        self.views: dict[str, SessionView] = {}
        self.follow = True
        """Sends `reload` when a view asks for it."""
        self._named: dict[str, int] = {}
        """Ids of requests that the timeline has names for."""
        self._nursery = nursery
        self._ids = count(1)
        self._link: Link | None = None
        self._broken: Broken | None = None
        self._changed = trio.Event()

    @property
    def link(self) -> Link:
        if self._link is None:
            raise ValueError(f"client {self.name} has never connected")
        return self._link

    def view(self, session_id: str) -> SessionView:
        """The client's view of the Session. Raises UnknownVariable when it has never subscribed to it."""
        if session_id not in self.views:
            raise UnknownVariable(f"client {self.name} has no view of Session {session_id}")
        return self.views[session_id]

    def id_of(self, name: str) -> int:
        """The id of the request that was sent under this name. Raises UnknownVariable."""
        if name not in self._named:
            raise UnknownVariable(f"client {self.name} has sent no request called {name}")
        return self._named[name]

    async def open(
        self, dialer: Dialer, *, format: Format, subprotocols: Iterable[str] | None, headers: dict[str, str], slow: bool
    ) -> None:
        """Opens a WebSocket. Raises OSError, and websockets' InvalidStatus when it is refused, or InvalidHandshake or
        ConnectionClosed when something else comes of it.
        """
        stream = GatedStream(await dialer.open_stream(slow=slow))
        offered = [SUBPROTOCOLS[format]] if subprotocols is None else list(subprotocols)
        opening = connect(
            dialer.url,
            stream=stream,
            subprotocols=[Subprotocol(name) for name in offered] or None,
            additional_headers=headers,
            compression=None,
            proxy=None,
            ping_interval=None,
            max_size=None,
            max_queue=4,
            user_agent_header="turnwire-conformance/1",
            logger=QUIET,
        )
        try:
            await self._nursery.start(self._live, opening, stream, format)
        except trio.BrokenResourceError as error:
            raise no_tls(error) from None

    async def _live(
        self,
        opening: connect,
        stream: GatedStream,
        format: Format,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            async with opening as connection:
                self._link = Link(connection, stream, format)
                task_status.started()
                await self._read(self._link)
        finally:
            await trio.aclose_forcefully(stream)

    async def leave(self, seconds: float) -> None:
        """Ends the connection, and hears all that the server says until then: a last request is answered behind all
        before it (W3), and a close behind all that was sent. The server may take so long for each.

        A client that reads nothing, or whose connection has ended, has nothing more to hear. Raises Broken.
        """
        link = self._link
        if link is not None and link.code is None and not link.stream.stalled:
            if link.tick_ms:  # before its `welcome` a client may ask nothing
                await self._ask_last(link, seconds)
            with trio.move_on_after(seconds):  # that a close is answered is what a timeline asks (W8)
                await link.connection.aclose()
                await self.until(lambda: link.code is not None, gone=True)
        if self._broken is not None:
            raise self._broken

    async def _ask_last(self, link: Link, seconds: float) -> None:
        with trio.move_on_after(seconds) as scope:
            request_id = await self.send({"op": "ping"})
            await self.until(lambda: request_id is not None and answer_to(link, request_id) is not None)
        if scope.cancelled_caught:
            raise Broken("W3", f"the last request, a ping, was not answered within {seconds:g} s")

    # ------------------------------------------------------------------------------------------------------- sending

    async def send(self, frame: Map, name: str | None = None) -> int | None:
        """Sends a request under a fresh id, unless it has one (null: none at all); gives its id."""
        frame = {"id": next(self._ids), **frame} if "id" not in frame else dict(frame)
        if frame["id"] is None:
            del frame["id"]
        request_id = frame.get("id")
        if name is not None and request_id is not None:
            self._named[name] = request_id
        if frame.get("op") == "subscribe" and isinstance(frame.get("session_id"), str):
            self.views.setdefault(frame["session_id"], SessionView(frame["session_id"]))
        format = self.link.format
        data = encode(frame, format)
        await self.send_raw(data.decode() if format == "json" else data)
        return request_id

    async def send_raw(self, data: str | bytes) -> None:
        """Sends one WebSocket message. A connection that is gone is seen by whoever waits for an answer."""
        self.link.witness.sent(_read(data, self.link.format))
        try:
            await self.link.connection.send(data)
        except ConnectionClosed:
            await trio.lowlevel.checkpoint()

    # ----------------------------------------------------------------------------------------------------- receiving

    async def _read(self, link: Link) -> None:
        try:
            while True:
                self._receive(link, await link.connection.recv())
        except ConnectionClosed:
            received = link.connection.protocol.close_rcvd
            link.code = ABNORMAL if received is None else received.code
            if link is self._link:
                for view in self.views.values():
                    view.disconnected()
        finally:
            self._wake()

    def _receive(self, link: Link, data: str | bytes) -> None:
        try:
            if isinstance(data, str) != (link.format == "json"):
                raise Broken("W2", f"a {'text' if isinstance(data, str) else 'binary'} frame in {link.format}")
            frame = decode_map(data, link.format)
            link.witness.received(frame, len(data.encode() if isinstance(data, str) else data))
            view = self.views.get(frame.get("session_id", ""))
            if view is not None and frame["op"] == "snapshot":
                check_snapshot(frame, view)
        except RequestError as error:
            self._blame(Broken("W2", error.message))
            return
        except Broken as broken:
            self._blame(broken)
            return
        link.frames.append(frame)
        if frame["op"] == "welcome":
            link.tick_ms = frame["tick_ms"]
        if view is not None and view.receive(frame) == "reload" and self.follow:
            self._nursery.start_soon(self.send, {"op": "reload", "session_id": view.session_id})
        self._wake()

    def _blame(self, broken: Broken) -> None:
        self._broken = self._broken or broken
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, condition: Callable[[], bool], *, gone: bool = False) -> bool:
        """Waits until the condition holds after a frame; without `gone` also until the connection has ended.

        Says whether it holds. Raises Broken as soon as the server has broken a standing rule.
        """
        while True:
            if self._broken is not None:
                raise self._broken
            if condition():
                return True
            if self.link.code is not None and not gone:
                return False
            await self._changed.wait()


def _read(data: str | bytes, format: Format) -> Map:
    """The request that was sent, as far as it is one."""
    try:
        return decode_map(data, format)
    except RequestError:
        return {}


def answer_to(link: Link, request_id: int) -> Map | None:
    """The frame that answers the request, if it has come."""
    return next((frame for frame in link.frames if frame.get("id") == request_id), None)
