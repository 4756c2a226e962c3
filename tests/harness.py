"""What tests of the whole system share: a real server process, and a real client on a real WebSocket.

No test helper here knows how the server works inside; it speaks the wire and sends signals.
"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from websockets.exceptions import ConnectionClosed
from websockets.trio.client import ClientConnection, connect
from websockets.typing import Subprotocol

import warm_start
from turnwire_protocol.codec import Format, decode_map, encode
from turnwire_protocol.frames import SUBPROTOCOL_JSON, SUBPROTOCOL_MSGPACK
from turnwire_protocol.view import SessionView
from warm_start import ForkedProcess

LISTENING = "turnwire: listening on "
PATIENCE_SECONDS = 60.0
"""How long a test waits for something that must come. No test passes or fails by the time that something takes."""

FROM_NOTHING = ("-m", "turnwire")
"""The program of a server that Python is started for, as a person does it."""

Map = dict[str, Any]


class ServerProcess:
    """One `turnwire serve` in a process of its own."""

    def __init__(self, process: trio.Process | ForkedProcess, output: trio.abc.ReceiveStream, log: Path) -> None:
        self.process = process
        self._output = output
        self.log = log
        self.address = ""

    @property
    def url(self) -> str:
        return f"ws://{self.address}/ws"

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    async def wait_until_listening(self, scheme: str) -> None:
        text = b""
        while b"\n" not in text:
            chunk = await self._output.receive_some()
            if not chunk:
                raise AssertionError(f"the server ended before it listened:\n{self.log.read_text()}")
            text += bytes(chunk)
        line = text.decode().splitlines()[0]
        start = f"{LISTENING}{scheme}://"
        assert line.startswith(start), line
        self.address = line.removeprefix(start)

    async def kill(self) -> None:
        """`kill -9`, and the process is gone when this returns."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def terminate(self) -> int:
        """SIGTERM; gives the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await self.process.wait()

    @property
    def resident_bytes(self) -> int:
        """The memory that the process occupies now."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def server_process(
    data: Path,
    *flags: str,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] | None = None,
    scheme: str = "http",
) -> AsyncIterator[ServerProcess]:
    """A server on `data`, killed at the end if it still runs. Its log is `<data>.log`.

    It is forked from a process that has imported `turnwire`; with a `program`, Python is started for that.
    """
    log = data.with_suffix(".log")
    arguments = ("serve", "--port", str(port), "--data", str(data), *flags)
    process, output = await _started(program, arguments, {**os.environ, **(environment or {})}, log)
    async with output:
        server = ServerProcess(process, output, log)
        try:
            with trio.fail_after(PATIENCE_SECONDS):
                await server.wait_until_listening(scheme)
            yield server
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def _started(
    program: Sequence[str] | None, arguments: Sequence[str], environment: Mapping[str, str], log: Path
) -> tuple[trio.Process | ForkedProcess, trio.abc.ReceiveStream]:
    with log.open("ab") as log_file:
        if program is None:
            return warm_start.start(arguments, environment=environment, stderr=log_file.fileno())
        command = [sys.executable, *program, *arguments]
        process = await trio.lowlevel.open_process(
            command, stdout=subprocess.PIPE, stderr=log_file, env=dict(environment)
        )
    assert process.stdout is not None
    return process, process.stdout


class Refused(Exception):
    """An `error` frame that answered a request."""

    def __init__(self, frame: Map) -> None:
        super().__init__(f"{frame['code']}: {frame['message']}")
        self.frame = frame
        self.code: str = frame["code"]


class WireClient:
    """A client that follows the rules: answers by `id`, a view for each Session, `reload` when a view asks for it."""

    def __init__(self, socket: ClientConnection, format: Format, nursery: trio.Nursery) -> None:
        self.socket = socket
        self.format: Format = format
        self.views: dict[str, SessionView] = {}
        self.frames: list[Map] = []
        """Every frame that came and was not a `mutation`, in order."""
        self.mutations: list[Map] = []
        self.keep_mutations = True
        self.finishes: dict[str, Map] = {}
        """The Mutation that ended each Turn, by `turn_id`."""
        self.closed: tuple[int | None, str] | None = None
        self.reloads = 0
        self._nursery = nursery
        self._next_id = 1
        self._answers: dict[int, Map] = {}
        self._changed = trio.Event()

    async def run(self) -> None:
        """Reads until the connection ends."""
        try:
            async for data in self.socket:
                self._receive(decode_map(data, self.format))
        except ConnectionClosed:
            pass
        finally:
            self.closed = (self.socket.close_code, self.socket.close_reason or "")
            for view in self.views.values():
                view.disconnected()
            self._wake()

    def _receive(self, frame: Map) -> None:
        if frame["op"] != "mutation":
            self.frames.append(frame)
        elif self.keep_mutations:
            self.mutations.append(frame)
        if frame["op"] == "mutation" and frame["variant"] == "turn" and frame["type"] == "finish":
            self.finishes[frame["turn_id"]] = frame
        if frame.get("id", self._next_id) < self._next_id:  # for what was sent past `request` nobody waits
            self._answers[frame["id"]] = frame
        view = self.views.get(frame.get("session_id", ""))
        if view is not None and view.receive(frame) == "reload":
            self.reloads += 1
            self._nursery.start_soon(self._reload, frame["session_id"])
        self._wake()

    async def _reload(self, session_id: str) -> None:
        try:
            await self.request("reload", session_id=session_id)
        except ConnectionClosed:
            return  # the views are told by `run`

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def send(self, frame: Map) -> None:
        data = encode(frame, self.format)
        await self.socket.send(data.decode() if self.format == "json" else data)

    async def request(self, op: str, **fields: Any) -> Map:
        """The `result` of a request (for `hello` the `welcome`). Raises Refused, ConnectionClosed."""
        request_id = self._next_id
        self._next_id += 1
        await self.send({"op": op, "id": request_id, **fields})
        await self.until(lambda: request_id in self._answers)
        answer = self._answers.pop(request_id)
        if answer["op"] == "error":
            raise Refused(answer)
        result: Map = answer.get("result", answer)
        return result

    def view_of(self, session_id: str) -> SessionView:
        """A new view, which follows what comes for this Session from now on."""
        view = self.views[session_id] = SessionView(session_id)
        return view

    async def subscribe(self, session_id: str, **fields: Any) -> SessionView:
        """Joins and waits for the snapshot."""
        view = self.view_of(session_id)
        await self.request("subscribe", session_id=session_id, **fields)
        await self.until(lambda: view.status == "live")
        return view

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds after a frame. Raises ConnectionClosed when none can come any more."""
        with trio.fail_after(PATIENCE_SECONDS):
            while not condition():
                if self.closed is not None:
                    raise ConnectionClosed(None, None)
                await self._changed.wait()

    async def turn_finished(self, turn_id: str) -> Map:
        """The `turn`/`finish` Mutation of a Turn, which this client must be subscribed to see."""
        await self.until(lambda: turn_id in self.finishes)
        return self.finishes[turn_id]


@asynccontextmanager
async def wire_client(
    url: str, *, format: Format = "json", hello: bool = True, **options: Any
) -> AsyncIterator[WireClient]:
    """A connected client that has said `hello`."""
    subprotocol = Subprotocol(SUBPROTOCOL_JSON if format == "json" else SUBPROTOCOL_MSGPACK)
    async with (
        connect(url, subprotocols=[subprotocol], max_size=2**24, **options) as socket,
        trio.open_nursery() as nursery,
    ):
        client = WireClient(socket, format, nursery)
        nursery.start_soon(client.run)
        if hello:
            await client.request("hello", client="turnwire-tests/1")
        yield client
        nursery.cancel_scope.cancel()


def texts(message: Map) -> str:
    """All text of a Message's text Parts."""
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")
