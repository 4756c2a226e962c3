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

import trio

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""A driver whose line is longer than this has gone wrong."""

Map = dict[str, Any]


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
        self._fault: str | None = None
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
            raise DriverError(self._fault or "the client program does not read its commands") from None
        return number

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._fault is not None:
                raise DriverError(self._fault)
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
            said = json.loads(line)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            self._fail(f"the client program wrote what is no line of JSON: {line[:200]!r}")
        elif not self._ready:
            self.can, self._ready = frozenset(said.get("can", ())), True
        else:
            client = self._clients.get(said.get("client", ""))
            if client is None:
                self._fail(f"the client program speaks of a client that nobody made: {line[:200]!r}")
            elif "id" in said:
                client.answers[said["id"]] = said
            elif "state" in said:
                client.states[said["session_id"]] = said["state"]
            elif "connection" in said:
                client.connection = said["connection"]

    def _fail(self, sentence: str) -> None:
        self._fault = self._fault or sentence
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


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
