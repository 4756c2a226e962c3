"""A server with one deliberate fault: our Sessions and our gateway, with a liar on the line to each client."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

import trio

from gateway_world import KEY, Pipe
from lying_stream import Liar, LyingListener
from sessions_world import open_world
from turnwire.conformance.server_suite import ServerUnderTest
from turnwire.conformance.signer import Signer
from turnwire.conformance.streams import Stream
from turnwire.gateway import Gateway, GatewaySettings, document
from turnwire.gateway.tokens import key_of
from turnwire.models.scripted import ScriptedProvider
from turnwire.stopping import stop
from turnwire.store.memory import MemoryStore
from turnwire.tools.registry import ToolRegistry
from turnwire.tools.workspace import workspace_tools

PIPE_BYTES: Final = 256 * 1024
SLOW_PIPE_BYTES: Final = 16 * 1024
"""What the network holds for an ordinary client, and for one that will stall."""

SETTINGS: Final = GatewaySettings(port=0, tick_ms=500)
GRACE_SECONDS: Final = 0.5
"""How long Turns may go on after SIGTERM."""

EXIT_FORCED: Final = 3


class BrokenServer:
    """Our server, in memory and on the scripted model. Its processes come and go, and what is stored outlives them.

    Only what it does for its clients is like a process: it is a task of `nursery`.
    """

    url = "ws://localhost/ws"

    def __init__(self, make: Callable[[], Liar], folder: Path, nursery: trio.Nursery) -> None:
        self._make = make
        self._folder = folder
        self._nursery = nursery
        self._store = MemoryStore()
        self._numbers = count(1)
        self._listener: LyingListener
        self._scope: trio.CancelScope
        self._told_to_stop: trio.Event
        self._over = trio.Event()
        self._exit_code = 0

    async def open_stream(self, *, slow: bool = False) -> Stream:
        await trio.lowlevel.checkpoint()
        if self._over.is_set():
            raise ConnectionRefusedError("nobody listens")
        return self._listener.dial(Pipe(SLOW_PIPE_BYTES if slow else PIPE_BYTES))

    async def start(self) -> None:
        self._listener = LyingListener(self._make, next(self._numbers))
        self._scope, self._told_to_stop, self._over = trio.CancelScope(), trio.Event(), trio.Event()
        await self._nursery.start(self._run)

    async def kill(self) -> None:
        await self._listener.cut()
        self._scope.cancel()
        await self._over.wait()

    def terminate(self) -> None:
        self._told_to_stop.set()

    async def exited(self) -> int:
        await self._over.wait()
        return self._exit_code

    async def _run(self, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            with self._scope:
                await self._serve(task_status)
        finally:
            self._over.set()

    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        fault = self._make()
        times = count(1)
        tools = ToolRegistry(workspace_tools(self._folder, now=lambda: next(times)))
        async with (
            open_world(ScriptedProvider(), store=self._store, tools=tools) as world,
            trio.open_nursery() as nursery,
        ):
            gateway = Gateway(
                world.registry,
                SETTINGS,
                authenticator=fault.authenticator(key_of(KEY)),
                authorizer=fault.rules(world.registry.owned_by),
                server="turnwire/broken",
                documents={"/schema.json": document(b"{}", "application/schema+json")},
                problem=lambda: None,
                rng=random.Random(1),
            )
            await nursery.start(lambda task_status: gateway.serve(listeners=[self._listener], task_status=task_status))
            task_status.started()
            await self._told_to_stop.wait()
            orderly = await stop(world.registry, gateway, GRACE_SECONDS)
            self._exit_code = (0 if orderly else EXIT_FORCED) if fault.exit_code is None else fault.exit_code
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def broken_server(
    make: Callable[[], Liar], folder: Path, *, seconds: float = 30.0
) -> AsyncIterator[ServerUnderTest]:
    """Our server with this liar on every line, and as many more as a suite wants to kill; a step may take `seconds`."""
    async with trio.open_nursery() as nursery:

        @asynccontextmanager
        async def fresh() -> AsyncIterator[BrokenServer]:
            server = BrokenServer(make, folder, nursery)
            await server.start()
            try:
                yield server
            finally:
                await server.kill()

        async with fresh() as shared:
            yield ServerUnderTest(
                dialer=shared, fresh=fresh, has=frozenset({"workspace"}), signer=Signer(key_of(KEY)), seconds=seconds
            )
