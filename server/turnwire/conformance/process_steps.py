"""Steps about the server's process: it is killed, told to stop, and started again."""

from typing import Protocol

import trio

from turnwire.conformance.patterns import match
from turnwire.conformance.scene import Doing, Scene
from turnwire.conformance.streams import Dialer
from turnwire_protocol import server_steps as steps


class ServerControl(Dialer, Protocol):
    """A server that can be started and killed."""

    async def kill(self) -> None:
        """It is gone when this returns."""

    def terminate(self) -> None:
        """SIGTERM."""

    async def exited(self) -> int:
        """Waits for the end of the process; its exit code."""

    async def start(self) -> None:
        """Starts it again on the same data and port, and waits until it listens."""


class ProcessSteps:
    """The process of a server that the pack has started."""

    def __init__(self, scene: Scene, control: ServerControl | None) -> None:
        self._scene = scene
        self._control = control
        self.doing: Doing = {
            steps.Kill: self._kill,
            steps.Terminate: self._terminate,
            steps.Exited: self._exited,
            steps.Start: self._start,
        }

    def _process(self) -> ServerControl:
        assert self._control is not None, "a timeline that controls the process must say that it needs `control`"
        return self._control

    async def _kill(self, step: steps.Kill) -> None:
        await self._process().kill()

    async def _terminate(self, step: steps.Terminate) -> None:
        self._process().terminate()
        await trio.lowlevel.checkpoint()

    async def _exited(self, step: steps.Exited) -> None:
        match(step.code, await self._process().exited(), self._scene.variables)

    async def _start(self, step: steps.Start) -> None:
        await self._process().start()
