"""Playing one timeline against a server: each step, its deadline, and what it says when it fails."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio
from websockets.exceptions import InvalidHandshake

from turnwire.conformance.connection_steps import ConnectionSteps
from turnwire.conformance.frame_steps import FrameSteps
from turnwire.conformance.patterns import Mismatch, UnknownVariable, Variables
from turnwire.conformance.process_steps import ProcessSteps, ServerControl
from turnwire.conformance.scene import Scene
from turnwire.conformance.signer import Signer
from turnwire.conformance.streams import Dialer
from turnwire.conformance.verdict import Broken, Failure
from turnwire.conformance.view_steps import ViewSteps
from turnwire_protocol import server_steps as steps
from turnwire_protocol.timelines import ServerTimeline

STEP_SECONDS: Final = 20.0
"""How long a step may take that says nothing else: far more than any server needs."""


class ServerRun:
    """One timeline against the server behind `dialer`; `token` and `signer` as in `Scene`."""

    def __init__(
        self,
        timeline: ServerTimeline,
        dialer: Dialer,
        nursery: trio.Nursery,
        *,
        let: Variables,
        control: ServerControl | None = None,
        token: str | None = None,
        signer: Signer | None = None,
        seconds: float = STEP_SECONDS,
    ) -> None:
        self._timeline = timeline
        self._seconds = seconds
        self._scene = Scene(dialer, nursery, dict(let), token=token, signer=signer)
        self._doing: dict[type, Callable[[Any], Awaitable[None]]] = {
            **ConnectionSteps(self._scene).doing,
            **FrameSteps(self._scene).doing,
            **ViewSteps(self._scene).doing,
            **ProcessSteps(self._scene, control).doing,
            steps.Repeat: self._repeat,
        }

    async def play(self) -> None:
        """Raises Failure at the first step that fails, or for what the server says until the last client has left."""
        for number, step in enumerate(self._timeline.steps, start=1):
            seconds = self._seconds if step.seconds is None else step.seconds
            where = f"step {number} ({step.__struct_config__.tag})"
            self._scene.last = "nothing came"
            try:
                with trio.fail_after(seconds):
                    await self._doing[type(step)](step)
            except trio.TooSlowError:
                raise Failure(
                    f"{where}: not within {seconds:g} s: {self._scene.last}", self._timeline.rules[0]
                ) from None
            except Broken as broken:
                raise Failure(f"{where}: {broken.sentence}", broken.rule) from None
            except (Mismatch, UnknownVariable, OSError, InvalidHandshake) as error:
                raise Failure(f"{where}: {error}", self._timeline.rules[0]) from None
        try:
            for peer in self._scene.peers.values():
                await peer.leave(self._seconds)
        except Broken as broken:
            raise Failure(f"at its end: {broken.sentence}", broken.rule) from None

    async def _repeat(self, step: steps.Repeat) -> None:
        for _ in range(step.times):
            for name in step.fresh:
                self._scene.variables.pop(name, None)
            for inner in step.steps:
                await self._doing[type(inner)](inner)
