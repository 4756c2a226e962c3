"""A model service on a loopback port that speaks real HTTP and real server-sent events, as each test tells it to."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import h11
import pytest
import trio


class Exchange:
    """One request on the service's side: what was asked, and the means to answer or to fail."""

    def __init__(self, stream: trio.SocketStream, body: Any, headers: dict[str, str], target: str) -> None:
        self.body = body
        self.headers = headers
        self.target = target
        self._stream = stream
        self._http: h11.Connection

    @classmethod
    async def receive(cls, stream: trio.SocketStream, http: h11.Connection) -> "Exchange | None":
        """The next request, or None when the client has hung up."""
        head: h11.Request | None = None
        body = b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                try:
                    http.receive_data(await stream.receive_some())
                except trio.BrokenResourceError:
                    return None
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {name.decode(): value.decode() for name, value in head.headers}
                exchange = cls(stream, json.loads(body), headers, head.target.decode())
                exchange._http = http
                return exchange
            else:
                return None

    async def respond(self, status: int, body: bytes | str | dict[str, Any], **headers: str) -> None:
        """A whole answer; keyword `retry_after` is the header `retry-after`."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body.encode() if isinstance(body, str) else body
        kind = "application/json" if isinstance(body, dict) else "text/plain"
        lines = {"content-type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
        await self._start(status, {**lines, "content-length": str(len(data))})
        await self.send(data)
        await self.finish()

    async def start(self) -> None:
        """The head of an event stream."""
        await self._start(200, {"content-type": "text/event-stream; charset=utf-8"})

    async def send(self, data: bytes) -> None:
        """Raw bytes of the body, in one HTTP chunk."""
        await self._send(h11.Data(data))

    async def event(self, payload: dict[str, Any] | str) -> None:
        """One event of the stream; one with a `type` has it as its name, too."""
        await self.send(event_bytes(payload))

    async def finish(self) -> None:
        """The proper end of the answer; the connection stays."""
        await self._send(h11.EndOfMessage())

    async def cut(self) -> None:
        """Hangs up, whatever was being said."""
        await self._stream.aclose()

    async def hung_up(self) -> None:
        """Returns when the client closes the connection."""
        try:
            while await self._stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass

    async def _start(self, status: int, headers: dict[str, str]) -> None:
        await self._send(h11.Response(status_code=status, headers=list(headers.items())))

    async def _send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        data = self._http.send(event)
        if data:
            await self._stream.send_all(data)


def event_bytes(payload: dict[str, Any] | str) -> bytes:
    """A server-sent event."""
    text = json.dumps(payload) if isinstance(payload, dict) else payload
    name = f"event: {payload['type']}\n" if isinstance(payload, dict) and "type" in payload else ""
    return f"{name}data: {text}\n\n".encode()


Answer: TypeAlias = Callable[[Exchange], Awaitable[None]]


class Service:
    """Answers each request with the next of `answers`; `connections` counts the connections that clients made."""

    def __init__(self) -> None:
        self.url = ""
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self._answers: list[Answer] = []

    def will(self, *answers: Answer) -> None:
        self._answers.extend(answers)

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection."""
        self.connections += 1
        http = h11.Connection(h11.SERVER)
        async with stream:
            while (exchange := await Exchange.receive(stream, http)) is not None:
                self.exchanges.append(exchange)
                try:
                    await self._answers.pop(0)(exchange)
                except trio.BrokenResourceError:
                    return  # the client has heard enough
                if http.our_state is not h11.DONE:
                    return
                http.start_next_cycle()


@asynccontextmanager
async def serving() -> AsyncIterator[Service]:
    """A running service."""
    service = Service()
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, service.serve, 0)
        port = listeners[0].socket.getsockname()[1]
        service.url = f"http://127.0.0.1:{port}/v1"
        yield service
        nursery.cancel_scope.cancel()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """A model service that answers as the test tells it."""
    async with serving() as running:
        yield running
