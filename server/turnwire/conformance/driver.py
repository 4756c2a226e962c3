"""A client program that is under test, driven by JSON lines over its standard input and output.

The lines are described in SPEC.md ("Conformance"). One process plays many clients, each under a name of its own.
"""

import json
import shlex
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final

import msgspec
import trio
from msgspec import Struct

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""A driver whose line is longer than this has gone wrong."""

QUOTED_BYTES: Final = 200
"""How much of a wrong line is shown."""

Map = dict[str, Any]


class _Ready(Struct):
    driver: str
    can: tuple[str, ...]


class _Said(Struct):
    """What a client has come to (`id`), shows (`session_id`), or says of its connection."""

    client: str
    id: int | None = None
    result: Map | None = None
    error: Map | None = None
    session_id: str | None = None
    state: Map | None = None
    connection: Map | None = None


class DriverError(Exception):
    """The client program ended, or said something that is no line of the protocol."""


class DrivenClient:
    """One client in the program: what it was told, and what it has said of itself."""

    def __init__(self, name: str, driver: "Driver") -> None:
        self.name = name
        self.answers: dict[int, Map] = {}
        self.states: dict[str, Map] = {}
        """What it shows, by Session."""
        self.connection: Map = {}
        self._driver = driver

    async def tell(self, command: str, fields: Map) -> int:
        """Gives a command; its number in `answers`."""
        return await self._driver.tell(self.name, command, fields)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds after a line. Raises DriverError when none can come any more."""
        await self._driver.until(condition)


class Driver:
    """The process. `can` is what it says that its clients can do."""

    def __init__(self, process: trio.Process) -> None:
        self.can: frozenset[str] = frozenset()
        self._process = process
        self._clients: dict[str, DrivenClient] = {}
        self._numbers = count(1)
        self.fault: str | None = None
        """Why nothing more can come of it."""
        self.faulted = trio.Event()
        self._ready = False
        self._writing = trio.Lock()
        self._changed = trio.Event()

    def client(self, name: str) -> DrivenClient:
        """A new client of this name."""
        client = self._clients[name] = DrivenClient(name, self)
        return client

    async def tell(self, client: str, command: str, fields: Map) -> int:
        number = next(self._numbers)
        line = json.dumps({"id": number, "client": client, "do": command, **fields}) + "\n"
        assert self._process.stdin is not None
        try:
            async with self._writing:
                await self._process.stdin.send_all(line.encode())
        except trio.BrokenResourceError:
            raise DriverError(self.fault or "the client program does not read its commands") from None
        return number

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self.fault is not None:
                raise DriverError(self.fault)
            await self._changed.wait()

    async def wait_ready(self) -> None:
        """Waits for the first line. Raises DriverError."""
        await self.until(lambda: self._ready)

    async def read(self) -> None:
        """Takes in lines until the program ends."""
        assert self._process.stdout is not None
        buffer = bytearray()
        async for chunk in self._process.stdout:
            *lines, rest = (buffer + chunk).split(b"\n")
            buffer = bytearray(rest)
            if len(buffer) > MAX_LINE_BYTES:
                self._fail(f"the client program wrote a line of more than {MAX_LINE_BYTES} bytes")
                return
            for line in lines:
                self._take(bytes(line))
            self._wake()
        self._fail(f"the client program ended with {await self._process.wait()}")

    def _take(self, line: bytes) -> None:
        try:
            said = msgspec.json.decode(line, type=_Said if self._ready else _Ready)
        except msgspec.DecodeError as error:
            self._fail(f"the client program wrote what is no line of a driver: {_quoted(line)} ({error})")
            return
        if isinstance(said, _Ready):
            self.can, self._ready = frozenset(said.can), True
            return
        client = self._clients.get(said.client)
        if client is None:
            self._fail(f"the client program speaks of a client that nobody made: {_quoted(line)}")
        elif said.id is not None and (said.result is None) != (said.error is None):
            client.answers[said.id] = {"result": said.result} if said.error is None else {"error": said.error}
        elif said.session_id is not None and said.state is not None:
            client.states[said.session_id] = said.state
        elif said.connection is not None:
            client.connection = said.connection
        else:
            self._fail(f"the client program wrote a line that says nothing: {_quoted(line)}")

    def _fail(self, sentence: str) -> None:
        self.fault = self.fault or sentence
        self.faulted.set()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _quoted(line: bytes) -> str:
    return repr(line[:QUOTED_BYTES].decode(errors="replace"))


@asynccontextmanager
async def driven(command: str) -> AsyncIterator[Driver]:
    """The client program, running; it is killed at the end. Raises OSError when it cannot be started."""
    process = await trio.lowlevel.open_process(
        shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None
    )
    driver = Driver(process)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(driver.read)
            yield driver
            nursery.cancel_scope.cancel()
    finally:
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
