"""Servers that start sooner: forked from one process that has imported `turnwire` already. Run by tests as a program.

A forked server is a process like any other one, with memory, files, signals and an end of its own; what it is spared is
the start of Python and the imports, which cost more than all else that most tests do with it. `python -m turnwire` is
started for real where the start is what is tested, and for every other program.
"""

import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import trio

REQUEST_BYTES = 2**20
NUMBER_BYTES = 4
START_SECONDS = 60.0
"""A host that takes longer to fork never will."""


class Request(NamedTuple):
    """What a new process runs, where, and what its output and errors go to."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    files: list[int]


class ForkedProcess:
    """What tests do with a process, as `trio.Process` has it."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        self.pid = pid
        self._end = end
        self._code: int | None = None
        self._waiting = trio.Lock()

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        """The exit code, once it has ended; minus the signal that has ended it."""
        if self._code is None:
            try:
                self._code = heard(self._end)
            except BlockingIOError:
                return None
            trio.lowlevel.notify_closing(self._end)
            self._end.close()
        return self._code

    async def wait(self) -> int:
        async with self._waiting:
            while (code := self.poll()) is None:
                with suppress(trio.ClosedResourceError):  # another task has asked, and heard of the end
                    await trio.lowlevel.wait_readable(self._end)
        return code

    def send_signal(self, number: int) -> None:
        """To a process that has ended, nothing."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended just now, which `poll` will tell
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    arguments: Sequence[str], *, environment: Mapping[str, str], stderr: int
) -> tuple[ForkedProcess, trio.abc.ReceiveStream]:
    """A process that runs `turnwire` with these arguments, and its standard output."""
    output, its_output = os.pipe()
    request = {"arguments": list(arguments), "environment": dict(environment), "folder": str(Path.cwd())}
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(START_SECONDS)
    try:
        end.connect(host())
        socket.send_fds(end, [json.dumps(request).encode() + b"\n"], [its_output, stderr])
        pid = heard(end)
    finally:
        os.close(its_output)
    end.setblocking(False)
    return ForkedProcess(pid, end), trio.lowlevel.FdStream(output)


def tell(connection: socket.socket, number: int) -> None:
    connection.send(number.to_bytes(NUMBER_BYTES, "big", signed=True))


def heard(connection: socket.socket) -> int:
    """The next number that is told on it. Raises BlockingIOError."""
    told = connection.recv(NUMBER_BYTES)
    assert len(told) == NUMBER_BYTES, "the host of the servers has gone"
    return int.from_bytes(told, "big", signed=True)


@cache
def host() -> str:
    """Where the host of this process listens; it lives as long as this process."""
    folder = tempfile.TemporaryDirectory(prefix="turnwire-")
    path = str(Path(folder.name) / "host")
    process = subprocess.Popen([sys.executable, __file__, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"

    def end() -> None:
        process.communicate()  # it ends with its input
        folder.cleanup()

    atexit.register(end)
    return path


# ---------------------------------------------------------------------------------------------------------- the host


class Host:
    """Forks for each request until its input ends."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(128)
        self._ended, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._children: dict[int, socket.socket] = {}
        """Where the end of each is told."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests are told of it, and their end is that of the input
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def run(self) -> Request | None:
        """What this process is to become, in one that was forked; None at the end, in the host itself."""
        with selectors.DefaultSelector() as selector:
            for each in (self._listener, self._ended, sys.stdin):
                selector.register(each, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if sys.stdin in ready:
                    return None
                if self._ended in ready:
                    self._ended.recv(4096)
                    self._reap()
                if self._listener in ready and (request := self._fork()) is not None:
                    break
        self._leave()
        return request

    def _fork(self) -> Request | None:
        asked, _ = self._listener.accept()
        line, files, _, _ = socket.recv_fds(asked, REQUEST_BYTES, 2)
        while not line.endswith(b"\n"):
            line += asked.recv(REQUEST_BYTES)
        pid = os.fork()
        if pid == 0:
            asked.close()
            return Request(**json.loads(line), files=files)
        for file in files:
            os.close(file)
        tell(asked, pid)
        self._children[pid] = asked
        return None

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with self._children.pop(pid) as asked:
                tell(asked, os.waitstatus_to_exitcode(status))

    def _leave(self) -> None:
        """In a process that was forked: nothing of the host's is its own."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (self._listener, self._ended, self._wake, *self._children.values()):
            each.close()


def become(request: Request) -> None:
    """Takes over what the new process was given."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((nothing, *request.files)):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)


if __name__ == "__main__":
    from turnwire.cli import main

    the_host = Host(sys.argv[1])
    print("ready", flush=True)
    asked_for = the_host.run()
    if asked_for is not None:
        become(asked_for)
        main(asked_for.arguments)
