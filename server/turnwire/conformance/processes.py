"""A server that the pack starts itself, by a command line with places for port, data file and folder."""

import secrets
import shlex
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from turnwire.conformance.streams import TcpDialer

KNOCK_SECONDS: Final = 0.05
"""How long to wait before knocking again at a port where nobody listens yet."""


START_SECONDS: Final = 60.0
"""A server that has not listened by then never will."""

FOLDER: Final = "{folder}"


class ServerEnded(OSError):
    """The server process ended, or slept, when it should have listened."""


class CommandServer(TcpDialer):
    """`command` with `{port}`, `{data}` (a file) and `{folder}` (an existing one) filled in; its output is in a log."""

    def __init__(self, command: str, home: Path) -> None:
        port = free_port()
        super().__init__(f"ws://127.0.0.1:{port}/ws", "127.0.0.1", port)
        folder = home / "folder"
        folder.mkdir(parents=True)
        self.log = home / "server.log"
        self._port = port
        values = {"{port}": str(port), "{data}": str(home / "data.db"), FOLDER: str(folder)}
        self._arguments = [_filled(word, values) for word in shlex.split(command)]
        self._process: trio.Process | None = None

    async def start(self) -> None:
        """Starts the process, and waits until something listens on its port. Raises OSError: ServerEnded when that does
        not come.
        """
        with self.log.open("ab") as log:
            self._process = await trio.lowlevel.open_process(
                self._arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        with trio.move_on_after(START_SECONDS) as patience:
            while not await self._listens():
                if self._process.poll() is not None:
                    raise ServerEnded(f"the server ended with {self._process.returncode}:\n{self._last_words()}")
                await trio.sleep(KNOCK_SECONDS)
        if patience.cancelled_caught:
            sentence = f"nobody listens on port {self._port} {START_SECONDS:g} s after the server was started"
            raise ServerEnded(f"{sentence}:\n{self._last_words()}")

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    async def _listens(self) -> bool:
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", self._port)
        except OSError:
            return False
        await stream.aclose()
        return True

    async def kill(self) -> None:
        """Ends it at once; it is gone when this returns. Idempotent."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            with trio.CancelScope(shield=True):
                await self._process.wait()

    def terminate(self) -> None:
        """SIGTERM."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    async def exited(self) -> int:
        """Waits for its end; its exit code."""
        assert self._process is not None
        return await self._process.wait()


def has_folder(command: str) -> bool:
    """The command line has a place for a folder, so the server may have a workspace."""
    return FOLDER in command


def _filled(word: str, values: dict[str, str]) -> str:
    for place, value in values.items():
        word = word.replace(place, value)
    return word


LASTING_PORTS: Final = range(10_000, 30_000)
"""Below those that systems give to whoever asks for any."""


def free_port() -> int:
    """A port of this machine that nobody listens on, and that nobody is given by chance while its server restarts."""
    while True:
        port = secrets.choice(LASTING_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
