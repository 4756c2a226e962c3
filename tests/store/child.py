"""A real second process, for what only another process can show: locks, and `kill -9`."""

import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio


class Child:
    """A Python process whose standard output is read line by line."""

    def __init__(self, process: trio.Process, output: trio.abc.ReceiveStream) -> None:
        self.process = process
        self._output = output
        self._buffer = b""

    async def line(self) -> str | None:
        """The next line without its end, or None when the process has closed its output."""
        while b"\n" not in self._buffer:
            chunk = await self._output.receive_some()
            if not chunk:
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    async def kill(self) -> None:
        """`kill -9`; the process is gone when this returns."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


@asynccontextmanager
async def child(script: str, *arguments: str) -> AsyncGenerator[Child]:
    """Runs `script`; kills it at the end of the block if it still runs."""
    process = await trio.lowlevel.open_process([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    async with process.stdout as output:
        started = Child(process, output)
        try:
            yield started
        finally:
            with trio.CancelScope(shield=True):
                await started.kill()
