"""A server process on a disk that tests can make fail, and asking it for its health."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import trio

import faulty_server
from harness import PATIENCE_SECONDS, ServerProcess, server_process
from turnwire.stopping import RESERVE_SECONDS


class Disk:
    """What the disk of one server process does; `fail("write full")` until `mend()`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.mend()

    @property
    def environment(self) -> dict[str, str]:
        return {faulty_server.FAULTS: str(self._file)}

    def fail(self, how: str) -> None:
        self._file.with_suffix(".new").write_text(how)
        self._file.with_suffix(".new").rename(self._file)

    def mend(self) -> None:
        self.fail("")


@asynccontextmanager
async def faulty_process(
    data: Path, *flags: str, reserve_seconds: float = RESERVE_SECONDS
) -> AsyncIterator[tuple[ServerProcess, Disk]]:
    """A server on `data`, and the disk under it, sound at first."""
    disk = Disk(data.with_suffix(".faults"))
    environment = {**disk.environment, faulty_server.RESERVE: str(reserve_seconds)}
    async with server_process(data, *flags, environment=environment, program=faulty_server.PROGRAM) as server:
        yield server, disk


async def readiness(server: ServerProcess) -> tuple[int, str]:
    """Status and `reason` of `/readyz`; a server that is ready gives none."""
    async with httpx2.AsyncClient() as client:
        response = await client.get(f"http://{server.address}/readyz")
        return response.status_code, response.json().get("reason", "")


async def until_ready(server: ServerProcess) -> None:
    """Asks until the server says that it is ready."""
    with trio.fail_after(PATIENCE_SECONDS):
        while (await readiness(server))[0] != 200:  # noqa: ASYNC110 - another process can only be asked again
            await trio.sleep(0.02)
