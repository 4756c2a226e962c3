"""Steps about frames: requests and their answers, and what else comes."""

from typing import Any

import trio

from turnwire.conformance.compare import short
from turnwire.conformance.patterns import Mismatch, matches
from turnwire.conformance.peer import Link, Peer
from turnwire.conformance.scene import Doing, Scene
from turnwire.conformance.shapes import Map
from turnwire_protocol import server_steps as steps
from turnwire_protocol.timeline_steps import Send


class FrameSteps:
    """Requests and frames of a timeline's clients."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.doing: Doing = {
            Send: self._send,
            steps.Ask: self._ask,
            steps.Answer: self._answer,
            steps.Expect: self._expect,
            steps.Ticks: self._ticks,
        }

    async def _send(self, step: Send) -> None:
        peer = self._scene.peer(step.by)
        if step.text is not None:
            await peer.send_raw(str(self._scene.filled(step.text)))
        elif step.hex is not None:
            await peer.send_raw(bytes.fromhex(step.hex))
        else:
            await peer.send(self._scene.request(step.frame), step.name)

    async def _ask(self, step: steps.Ask) -> None:
        peer = self._scene.peer(step.by)
        await self._scene.answered(peer, await peer.send(self._scene.request(step.frame)), step.result, step.error)

    async def _answer(self, step: steps.Answer) -> None:
        peer = self._scene.peer(step.by)
        await self._scene.answered(peer, peer.id_of(step.to), step.result, step.error)

    async def _expect(self, step: steps.Expect) -> None:
        peer = self._scene.peer(step.by)
        link = peer.link
        wanted = list(step.all) or [step.frame]
        while wanted:
            frame = await self._next_frame(peer, link, wanted)
            found = next((pattern for pattern in wanted if matches(pattern, frame, self._scene.variables)), None)
            if found is not None:
                wanted.remove(found)
                continue
            self._scene.last = f"looking for {wanted[0]}, the last frame was {short(frame)}"
            for pattern in step.without:
                if matches(pattern, frame, dict(self._scene.variables)):
                    raise Mismatch(f"before {wanted[0]} there must be nothing like {short(frame)}")

    async def _next_frame(self, peer: Peer, link: Link, wanted: list[Any]) -> Map:
        if not await peer.until(lambda: len(link.frames) > link.cursor):
            raise Mismatch(f"the connection ended with {link.code} before {wanted[0]} came")
        link.cursor += 1
        return link.frames[link.cursor - 1]

    async def _ticks(self, step: steps.Ticks) -> None:
        peer = self._scene.peer(step.by)
        link = peer.link
        for number in range(step.count):
            position = len(link.frames)

            def ticked(position: int = position) -> bool:
                return any(frame["op"] == "tick" for frame in link.frames[position:])

            with trio.move_on_after(2 * link.tick_ms / 1000 + 1) as scope:
                if not await peer.until(ticked):
                    raise Mismatch(f"the connection ended with {link.code} before a tick came")
            if scope.cancelled_caught:
                raise Mismatch(f"tick {number + 1} did not come within twice {link.tick_ms} ms")
