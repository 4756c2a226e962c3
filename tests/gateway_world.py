"""A gateway on virtual networks: Sessions in memory, links with capacity and rate, a client that speaks the wire."""

import logging
import math
import random
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any

import msgspec
import pytest
import trio
from msgspec import UNSET, structs
from websockets.exceptions import ConnectionClosed
from websockets.trio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from certificates import Certificate
from turnwire.gateway import Authenticator, Authorizer, Document, Gateway, GatewaySettings, OpenAccess
from turnwire.gateway.requests import Sessions
from turnwire.gateway.tokens import TokenAuthenticator, create_token, key_of
from turnwire.sessions.channel import Channel, SnapshotFrames, Watcher
from turnwire.sessions.faults import too_many_sessions, unknown_session
from turnwire.sessions.prompts import check_input
from turnwire.store.base import Scope
from turnwire_protocol import frames
from turnwire_protocol.codec import Format, encode
from turnwire_protocol.codes import RequestError
from turnwire_protocol.messages import Config, Page, Session, UserMessage
from turnwire_protocol.mutations import DeltaMutation, MessageMutation
from turnwire_protocol.parts import PartInput, TextInput, TextPart

Map = dict[str, Any]
EPOCH = 1_800_000_000
"""What the wall clock of a gateway world shows when the clock of trio shows 0, in seconds since 1970."""


def world_time() -> float:
    return EPOCH + trio.current_time()


KEY = b"the secret of all gateway worlds"


def token_for(sub: str, *, key: bytes = KEY, lifetime_s: float = 3600, now: float = 0, **claims: Any) -> str:
    """A token made `now` seconds after the beginning of a world, for as long."""
    return create_token(key_of(key), subject=sub, lifetime_s=lifetime_s, now=EPOCH + now, **claims)


def token_authenticator() -> TokenAuthenticator:
    """Lets in who has a token of `token_for`; made within a run of trio, used there."""
    return TokenAuthenticator(key_of(KEY), now=world_time)


SUBPROTOCOLS: dict[Format, str] = {"json": frames.SUBPROTOCOL_JSON, "msgpack": frames.SUBPROTOCOL_MSGPACK}


# ----------------------------------------------------------------------------------------------------------- Sessions


class MemorySession:
    def __init__(self, session_id: str, title: str | None, owner: str) -> None:
        self.session_id = session_id
        self.owner = owner
        self.title = title
        self.items: list[UserMessage] = []
        self.channel = Channel(session_id, "epoch-1")
        self.receipts: dict[str, frames.Receipt] = {}
        self.watchers: list[Watcher] = []
        """Everyone who has joined, in order."""

    def frame(self) -> Session:
        return Session(
            session_id=self.session_id,
            title=self.title if self.title is not None else UNSET,
            config=Config(),
            created_at=1,
            updated_at=1,
            message_count=len(self.items),
            executing=False,
        )


class MemorySessions:
    """Sessions without a model: prompts are stored and published, `say` publishes text deltas.

    `hold` makes every verb wait for an event first; `fault` makes `get` raise; `padding` is added to every Message of
    a snapshot, and `parts` is the number of its frames.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, MemorySession] = {}
        self.hold: trio.Event | None = None
        self.fault: Exception | None = None
        self.padding = 0
        self.parts = 1
        self.joins = 0
        self.lookups = 0
        self.created_by: list[str] = []
        self._ids = count(1)
        self._left = trio.Event()

    async def _enter(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.hold is not None:
            await self.hold.wait()

    def _find(self, session_id: str) -> MemorySession:
        session = self.sessions.get(session_id)
        if session is None:
            raise unknown_session(session_id)
        return session

    def add(self, session_id: str, title: str | None = None, owner: str = "local") -> MemorySession:
        session = self.sessions[session_id] = MemorySession(session_id, title, owner)
        return session

    async def create(
        self,
        *,
        session_id: str | None = None,
        title: str | None = None,
        config: frames.ConfigChange | None = None,
        metadata: dict[str, Any] | None = None,
        client_request_id: str | None = None,
        principal: str,
        most: int | None = None,
    ) -> Session:
        await self._enter()
        self._check_owned(principal, most)
        self.created_by.append(principal)
        return self.add(session_id or f"s-{next(self._ids)}", title, principal).frame()

    def _check_owned(self, principal: str, most: int | None) -> None:
        owned = sum(session.owner == principal for session in self.sessions.values())
        if most is not None and owned >= most:
            raise too_many_sessions(most)

    async def owned_by(self, session_id: str, principal: str) -> bool:
        self.lookups += 1
        await trio.lowlevel.checkpoint()
        session = self.sessions.get(session_id)
        return session is not None and session.owner == principal

    async def list(
        self,
        *,
        before: str | None = None,
        limit: int = 50,
        archived: bool = False,
        scope: Scope | None = None,
    ) -> frames.SessionPage:
        await self._enter()
        items = tuple(
            session.frame()
            for session in self.sessions.values()
            if scope is None or session.owner == scope.owner or session.session_id in scope.session_ids
        )
        return frames.SessionPage(items=items[:limit], has_more=len(items) > limit)

    async def get(self, session_id: str) -> Session:
        await self._enter()
        if self.fault is not None:
            raise self.fault
        return self._find(session_id).frame()

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        config: frames.ConfigChange | None = None,
        archived: bool | None = None,
    ) -> Session:
        await self._enter()
        session = self._find(session_id)
        session.title = title
        return session.frame()

    async def messages(
        self, session_id: str, *, before_sequence: int | None = None, limit: int = 50, include_internal: bool = False
    ) -> Page:
        await self._enter()
        return self._page(self._find(session_id), limit)

    def _page(self, session: MemorySession, limit: int) -> Page:
        items = tuple(session.items[-limit:])
        return Page(items=items, total=len(session.items), has_more=len(items) < len(session.items))

    async def prompt(
        self,
        session_id: str,
        *,
        parts: tuple[PartInput, ...],
        client_request_id: str,
        if_idle: bool = False,
        expected_turn_id: str | None = None,
    ) -> frames.Receipt:
        await self._enter()
        check_input(parts)
        session = self._find(session_id)
        sequence = len(session.items) + 1
        message = UserMessage(
            message_id=f"m-{sequence}",
            session_id=session_id,
            turn_id=f"t-{sequence}",
            sequence=sequence,
            revision=1,
            created_at=1,
            updated_at=1,
            parts=tuple(
                TextPart(part_id=f"p-{n}", sequence=n, text=part.text)
                for n, part in enumerate(parts, start=1)
                if isinstance(part, TextInput)
            ),
        )
        session.items.append(message)
        receipt = frames.Receipt(
            outcome="started", turn_id=f"t-{sequence}", message_id=message.message_id, sequence=sequence
        )
        session.receipts[client_request_id] = receipt
        session.channel.publish(
            MessageMutation(
                mutation_id=f"mu-{next(self._ids)}",
                session_id=session_id,
                created_at=1,
                type="user",
                message_id=message.message_id,
                sequence=sequence,
                revision=1,
                message=message,
            )
        )
        return receipt

    async def stop(self, session_id: str, *, turn_id: str | None = None) -> frames.StopResult:
        await self._enter()
        self._find(session_id)
        return frames.StopResult(stopped=False, cancelled_prompts=0, reason="idle")

    async def interactions(self, session_id: str) -> frames.InteractionList:
        await self._enter()
        self._find(session_id)
        return frames.InteractionList(items=())

    async def respond(
        self,
        session_id: str,
        interaction_id: str,
        *,
        revision: int,
        response: Any,
        client_request_id: str | None = None,
        principal: str,
    ) -> frames.InteractionAnswer:
        await self._enter()
        self._find(session_id)
        raise RequestError("not_found", f"there is no interaction {interaction_id}", field="interaction_id")

    async def fork(
        self,
        session_id: str,
        *,
        through_message_id: str | None = None,
        new_session_id: str | None = None,
        client_request_id: str | None = None,
        principal: str,
        most: int | None = None,
    ) -> Session:
        await self._enter()
        source = self._find(session_id)
        self._check_owned(principal, most)
        copy = self.add(new_session_id or f"s-{next(self._ids)}", source.title, principal)
        copy.items = list(source.items)
        return copy.frame()

    async def archive(self, session_id: str) -> None:
        await self._enter()
        self._find(session_id)

    async def delete(self, session_id: str) -> None:
        await self._enter()
        self._find(session_id).channel.end("deleted")
        del self.sessions[session_id]

    async def join(self, session_id: str, watcher: Watcher, *, limit: int = 50, include_internal: bool = False) -> None:
        await self._enter()
        session = self._find(session_id)
        self.joins += 1
        session.watchers.append(watcher)
        session.channel.add(watcher, "all" if include_internal else "visible")
        watcher.joined(self.snapshot(session, limit, include_internal))

    def snapshot(self, session: MemorySession, limit: int, include_internal: bool) -> SnapshotFrames:
        whole = frames.Snapshot(
            session_id=session.session_id,
            epoch=session.channel.epoch,
            seq=session.channel.seq("all" if include_internal else "visible"),
            session=structs.replace(session.frame(), preview="x" * self.padding),
            page=self._page(session, limit),
            queue=(),
            interactions=(),
            part=1,
            parts=self.parts,
        )
        return SnapshotFrames(tuple(structs.replace(whole, part=n) for n in range(1, self.parts + 1)))

    def leave(self, session_id: str, watcher: Watcher) -> None:
        session = self.sessions.get(session_id)
        if session is not None:
            session.channel.remove(watcher)
        self._left.set()
        self._left = trio.Event()

    async def wait_unwatched(self, session_id: str) -> None:
        """Returns when nobody watches the Session."""
        while self.sessions[session_id].channel.watched:
            await self._left.wait()

    def say(self, session_id: str, text: str, *, internal: bool = False) -> None:
        """Publishes one text delta."""
        self.sessions[session_id].channel.publish(
            DeltaMutation(
                mutation_id=f"mu-{next(self._ids)}",
                session_id=session_id,
                created_at=1,
                type="text",
                message_id="m-live",
                revision=1,
                part_id="p-1",
                delta=text,
            ),
            internal=internal,
        )


# -------------------------------------------------------------------------------------------------------------- links


class Pipe:
    """One direction of a link: holds at most `capacity` bytes, gives out at most `rate` bytes a second."""

    def __init__(self, capacity: float = math.inf, rate: float = math.inf) -> None:
        self.capacity = capacity
        self.rate = rate
        self.stalled = False
        self.held = bytearray()
        self.sent = 0
        self.over = trio.Event()
        """Set when the sending end has ended it."""
        self._broken = False
        self._changed = trio.Event()

    def change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def stall(self) -> None:
        """Gives out nothing more, as if the cable had been cut."""
        self.stalled = True
        self.change()

    def resume(self) -> None:
        self.stalled = False
        self.change()

    async def put(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            if self._broken:
                raise trio.BrokenResourceError
            if self.over.is_set():
                raise trio.ClosedResourceError
            room = int(min(self.capacity - len(self.held), len(data) - position))
            if room <= 0:
                await self._changed.wait()
                continue
            self.held += data[position : position + room]
            position += room
            self.sent += room
            self.change()
        await trio.lowlevel.checkpoint()

    async def take(self, max_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        while True:
            if self._broken:
                raise trio.ClosedResourceError
            if self.held and not self.stalled:
                data = bytes(self.held[:max_bytes])
                await trio.sleep(len(data) / self.rate)
                del self.held[: len(data)]
                self.change()
                return data
            if self.over.is_set() and not self.held and not self.stalled:
                return b""
            await self._changed.wait()

    def end(self) -> None:
        self.over.set()
        self.change()

    def shatter(self) -> None:
        self._broken = True
        self.change()


class LinkStream(trio.abc.HalfCloseableStream):
    """One end of a link."""

    def __init__(self, outgoing: Pipe, incoming: Pipe) -> None:
        self.outgoing = outgoing
        self.incoming = incoming

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.outgoing.put(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        self.outgoing.end()
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self.incoming.take(max_bytes or 65536)

    async def aclose(self) -> None:
        self.outgoing.end()
        self.incoming.shatter()
        await trio.lowlevel.checkpoint()


class MemoryListener(trio.abc.Listener[LinkStream]):
    """Accepts the server ends of links. `socket` is only what websockets names in its log."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[LinkStream](math.inf)
        self.socket = trio.socket.socket()

    def dial(self, downlink: Pipe) -> LinkStream:
        """The client's end of a new connection; the server's end is accepted by whoever serves."""
        uplink = Pipe()
        self._send.send_nowait(LinkStream(downlink, uplink))
        return LinkStream(uplink, downlink)

    async def accept(self) -> LinkStream:
        return await self._receive.receive()

    async def aclose(self) -> None:
        self.socket.close()
        await self._receive.aclose()
        self._send.close()


# ------------------------------------------------------------------------------------------------------------- clients


PATIENCE_SECONDS = 3600.0
"""How long, mostly in virtual time, a client waits. Ticks go on for ever, so a wait without end would never show."""


class Client:
    """A client on the wire: collects every frame it gets; `request` waits for the answer to one request."""

    def __init__(self, socket: ClientConnection, format: Format) -> None:
        self.socket = socket
        self.format: Format = format
        self.frames: list[Map] = []
        self.times: list[float] = []
        self.closed = trio.Event()
        self._ids = count(1)
        self._arrived = trio.Event()

    async def collect(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Reads until the connection ends."""
        task_status.started()
        try:
            while True:
                data = await self.socket.recv()
                self.frames.append(self._decode(data))
                self.times.append(trio.current_time())
                self._arrived.set()
                self._arrived = trio.Event()
        except ConnectionClosed:
            self.closed.set()
            self._arrived.set()

    def _decode(self, data: str | bytes) -> Map:
        assert isinstance(data, str) == (self.format == "json"), "the server used the wrong kind of frame"
        frame = msgspec.json.decode(data) if isinstance(data, str) else msgspec.msgpack.decode(data)
        assert isinstance(frame, dict)
        return frame

    async def find(self, condition: Callable[[Map], bool], *, after: int = 0) -> Map:
        """The first frame at or after this position for which the condition holds; waits for it."""
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                for frame in self.frames[after:]:
                    if condition(frame):
                        return frame
                if self.closed.is_set():
                    raise AssertionError(f"closed with {self.close_code} before the frame came; got {self.frames[-5:]}")
                after = len(self.frames)
                await self._arrived.wait()

    async def count(self, number: int, condition: Callable[[Map], bool]) -> None:
        """Waits until so many frames, of all that came, meet the condition."""
        with trio.fail_after(PATIENCE_SECONDS):
            while sum(map(condition, self.frames)) < number:
                assert not self.closed.is_set(), f"closed with {self.close_code} too early"
                await self._arrived.wait()

    async def op(self, op: str, *, after: int = 0) -> Map:
        return await self.find(lambda frame: frame["op"] == op, after=after)

    async def send(self, value: Any) -> None:
        data = encode(value, self.format)
        await self.socket.send(data.decode() if self.format == "json" else data)

    async def ask(self, op: str, **fields: Any) -> int:
        """Sends a request and returns its id."""
        request_id = next(self._ids)
        await self.send({"op": op, "id": request_id, **fields})
        return request_id

    async def answer(self, request_id: int) -> Map:
        return await self.find(lambda frame: frame.get("id") == request_id)

    async def request(self, op: str, **fields: Any) -> Map:
        """The answer to a request, result or error."""
        return await self.answer(await self.ask(op, **fields))

    async def result(self, op: str, **fields: Any) -> Map:
        answer = await self.request(op, **fields)
        assert answer["op"] == "result", answer
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    @property
    def close_code(self) -> int | None:
        received = self.socket.protocol.close_rcvd
        return None if received is None else received.code

    async def wait_closed(self) -> int | None:
        """The code that the server closed with; None when it gave no reason."""
        with trio.fail_after(PATIENCE_SECONDS):
            await self.closed.wait()
        return self.close_code

    def deltas(self, session_id: str) -> list[str]:
        return [
            frame["delta"]
            for frame in self.frames
            if frame.get("variant") == "delta" and frame["session_id"] == session_id
        ]

    def ops(self, *ops: str) -> list[Map]:
        return [frame for frame in self.frames if frame["op"] in ops]


class World:
    """A running gateway, and ways to reach it. `downlinks` are the pipes to clients, newest last."""

    def __init__(self, gateway: Gateway, sessions: MemorySessions) -> None:
        self.gateway = gateway
        self.sessions = sessions
        self.listener: MemoryListener | None = None
        self.port = 0
        self.problem: str | None = None
        self.downlinks: list[Pipe] = []
        self.trust: ssl.SSLContext | None = None
        """What clients speak TLS with; None: they do not."""
        self.served = trio.Event()
        """Set when `Gateway.serve` has returned."""
        self.serving = trio.CancelScope()

    def cancel(self) -> None:
        """Cancels `Gateway.serve`."""
        self.serving.cancel()

    async def serve(self, *, task_status: trio.TaskStatus[list[tuple[str, int]]]) -> None:
        listeners = None if self.listener is None else [self.listener]
        with self.serving:
            await self.gateway.serve(listeners=listeners, task_status=task_status)
        self.served.set()

    async def stream(self, downlink: Pipe | None = None) -> trio.abc.HalfCloseableStream:
        """A fresh stream to the gateway."""
        if self.listener is None:
            return await trio.open_tcp_stream("127.0.0.1", self.port)
        pipe = downlink or Pipe()
        self.downlinks.append(pipe)
        return self.listener.dial(pipe)

    @asynccontextmanager
    async def client(
        self, format: Format = "json", *, hello: bool = True, downlink: Pipe | None = None, **options: Any
    ) -> AsyncIterator[Client]:
        """A client that has said `hello`, unless told otherwise."""
        stream = await self.stream(downlink)
        settings: dict[str, Any] = {
            "subprotocols": [Subprotocol(SUBPROTOCOLS[format])],
            "ping_interval": None,
            "max_size": None,
            "compression": None,
            "proxy": None,
        }
        url = "ws://localhost/ws"
        if self.trust is not None:
            url, settings["ssl"] = "wss://localhost/ws", self.trust
        async with (
            trio.open_nursery() as nursery,
            connect(url, stream=stream, **(settings | options)) as socket,
        ):
            client = Client(socket, format)
            await nursery.start(client.collect)
            if hello:
                welcome = await client.request("hello", client="test/1")
                assert welcome["op"] == "welcome", welcome
            try:
                yield client
            finally:
                await trio.aclose_forcefully(stream)
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def gateway_world(
    settings: GatewaySettings | None = None,
    *,
    network: bool = False,
    certificate: Certificate | None = None,
    documents: dict[str, Document] | None = None,
    authenticator: Authenticator | None = None,
    authorizer: Authorizer | None = None,
    ahead: list[float] | None = None,
    served: Sessions | None = None,
) -> AsyncIterator[World]:
    """A gateway over memory links, or with `network` on a real loopback port, with TLS if there is a certificate.

    It serves `served`, or else the world's own `sessions`. Its wall clock is `world_time`, plus what stands in `ahead`.
    """
    sessions = MemorySessions()
    given = structs.replace(settings or GatewaySettings(), port=0)
    if certificate is not None:
        given = structs.replace(given, tls=certificate.for_server())
    async with trio.open_nursery() as nursery:
        worlds: list[World] = []
        gateway = Gateway(
            sessions if served is None else served,
            given,
            authenticator=authenticator or OpenAccess(),
            authorizer=authorizer,
            server="turnwire/test",
            documents=documents or {},
            problem=lambda: worlds[0].problem,
            rng=random.Random(1),
            now=lambda: world_time() + (ahead[0] if ahead else 0.0),
        )
        world = World(gateway, sessions)
        worlds.append(world)
        if certificate is not None:
            world.trust = certificate.for_client()
        if not network:
            world.listener = MemoryListener()
        [(_, world.port)] = await nursery.start(world.serve)
        yield world
        nursery.cancel_scope.cancel()


@contextmanager
def no_traceback(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fails when anything at WARNING or above, or any traceback, is logged meanwhile (W9)."""
    with caplog.at_level(logging.INFO):
        yield
    loud = [record for record in caplog.records if record.levelno >= logging.WARNING or record.exc_info]
    assert not loud, [record.getMessage() for record in loud]
