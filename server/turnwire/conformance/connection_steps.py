"""Steps about connections: how they begin and end, and plain HTTP beside them."""

import re
from typing import Final

import trio
from websockets.exceptions import ConnectionClosed, InvalidStatus

from turnwire.conformance.patterns import Mismatch, match
from turnwire.conformance.peer import Peer
from turnwire.conformance.scene import Doing, Scene
from turnwire.conformance.streams import secured
from turnwire_protocol import server_steps as steps
from turnwire_protocol.timeline_steps import Close, Cut

STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})\b")
MAX_LINE_BYTES: Final = 256
"""No status line of HTTP is longer."""


class ConnectionSteps:
    """The connections of a timeline's clients."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.doing: Doing = {
            steps.Connect: self._connect,
            steps.Token: self._token,
            Cut: self._cut,
            Close: self._close,
            steps.Closed: self._closed,
            steps.Stall: self._stall,
            steps.ReadOn: self._read_on,
            steps.Http: self._http,
        }

    async def _connect(self, step: steps.Connect) -> None:
        peer = self._scene.peers.setdefault(step.by, Peer(step.by, self._scene.nursery))
        peer.follow = step.follow
        headers = {name: str(self._scene.filled(value)) for name, value in step.headers.items()}
        try:
            await peer.open(
                self._scene.dialer, format=step.format, subprotocols=step.subprotocols, headers=headers, slow=step.slow
            )
        except InvalidStatus as refusal:
            if refusal.response.status_code != step.refused:
                raise Mismatch(f"the opening was answered by {refusal.response.status_code}") from None
            return
        except ConnectionClosed:
            raise Mismatch("the connection ended before the WebSocket was open") from None
        if step.refused is not None:
            raise Mismatch(f"a WebSocket was opened, and should have been refused with {step.refused}")
        if step.hello:
            hello = {"op": "hello", "client": "turnwire-conformance/1"}
            if step.token is not None:
                hello["token"] = step.token
            await self._scene.answered(peer, await peer.send(self._scene.request(hello)), {}, None)

    async def _token(self, step: steps.Token) -> None:
        assert self._scene.signer is not None, "a timeline that makes tokens must say that it needs `tokens`"
        await trio.lowlevel.checkpoint()
        self._scene.variables[step.name] = self._scene.signer.token(
            str(self._scene.filled(step.sub)),
            step.lifetime,
            roles=step.roles,
            grants={str(self._scene.filled(session)): level for session, level in step.grants.items()},
            audience=step.audience,
        )

    async def _cut(self, step: Cut) -> None:
        peer = self._scene.peer(step.by)
        await peer.link.stream.cut(step.how)
        await peer.until(lambda: peer.link.code is not None, gone=True)

    async def _close(self, step: Close) -> None:
        await self._scene.peer(step.by).link.connection.aclose(step.code)

    async def _closed(self, step: steps.Closed) -> None:
        peer = self._scene.peer(step.by)
        self._scene.last = "the connection stands"
        await peer.until(lambda: peer.link.code is not None, gone=True)
        match(step.code, peer.link.code, self._scene.variables)

    async def _stall(self, step: steps.Stall) -> None:
        self._scene.peer(step.by).link.stream.stall()
        await trio.lowlevel.checkpoint()

    async def _read_on(self, step: steps.ReadOn) -> None:
        self._scene.peer(step.by).link.stream.read_on()
        await trio.lowlevel.checkpoint()

    async def _http(self, step: steps.Http) -> None:
        headers = {"Host": self._scene.dialer.url.split("/")[2], "Connection": "close", **step.headers}
        lines = [f"GET {step.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        dialer = self._scene.dialer
        async with await dialer.open_stream() as raw, await secured(raw, dialer.url) as stream:
            try:
                answer = await _first_line(stream, "\r\n".join(lines).encode())
            except trio.BrokenResourceError as error:
                raise Mismatch(f"GET {step.path} was not answered: {error}") from None
        status = STATUS.match(answer)
        if status is None:
            raise Mismatch(f"GET {step.path} was answered by {answer!r}")
        if int(status[1]) != step.status:
            raise Mismatch(f"GET {step.path} was answered by {int(status[1])}, expected {step.status}")


async def _first_line(stream: trio.abc.Stream, request: bytes) -> bytes:
    """Of what comes for the request; what there is when it ends sooner, or gets too long."""
    await stream.send_all(request)
    came = b""
    while b"\r\n" not in came and len(came) < MAX_LINE_BYTES:
        chunk = await stream.receive_some(MAX_LINE_BYTES)
        if not chunk:
            break
        came += bytes(chunk)
    return came.partition(b"\r\n")[0]
