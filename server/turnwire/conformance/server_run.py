"""Playing one timeline against a server: each step, its deadline, and what it says when it fails."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import trio
from websockets.exceptions import InvalidHandshake, InvalidStatus

from turnwire.conformance.compare import check_history, comparable, difference, short
from turnwire.conformance.patterns import Mismatch, UnknownVariable, Variables, fill, match, matches
from turnwire.conformance.peer import Dialer, Link, Peer, answer_to, state_of
from turnwire.conformance.verdict import Failure
from turnwire.conformance.witness import Broken, Map
from turnwire_protocol import timelines as steps
from turnwire_protocol.timelines import ServerTimeline
from turnwire_protocol.view import SessionView

STEP_SECONDS: Final = 20.0
"""How long a step may take that says nothing else: far more than any server needs."""

MAX_PAGES: Final = 1_000
"""A history that has more pages than this goes round in circles."""


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


class ServerRun:
    """One timeline against the server behind `dialer`. `token` goes into each `hello`, where there is one."""

    def __init__(
        self,
        timeline: ServerTimeline,
        dialer: Dialer,
        nursery: trio.Nursery,
        *,
        let: Variables,
        control: ServerControl | None = None,
        token: str | None = None,
        seconds: float = STEP_SECONDS,
    ) -> None:
        self._timeline = timeline
        self._dialer = dialer
        self._nursery = nursery
        self._control = control
        self._token = token
        self._seconds = seconds
        self._variables: Variables = dict(let)
        self._peers: dict[str, Peer] = {}
        self._doing: dict[type, Callable[[Any], Awaitable[None]]] = {
            steps.Connect: self._connect,
            steps.Send: self._send,
            steps.Ask: self._ask,
            steps.Answer: self._answer,
            steps.Expect: self._expect,
            steps.View: self._view,
            steps.Equal: self._equal,
            steps.History: self._history,
            steps.Stall: self._stall,
            steps.ReadOn: self._read_on,
            steps.Cut: self._cut,
            steps.Close: self._close,
            steps.Closed: self._closed,
            steps.Ticks: self._ticks,
            steps.Http: self._http,
            steps.Kill: self._kill,
            steps.Terminate: self._terminate,
            steps.Exited: self._exited,
            steps.Start: self._start,
            steps.Repeat: self._repeat,
        }

    async def play(self) -> None:
        """Raises Failure at the first step that fails."""
        for number, step in enumerate(self._timeline.steps, start=1):
            seconds = self._seconds if step.seconds is None else step.seconds
            where = f"step {number} ({step.__struct_config__.tag})"
            self._last = "nothing came"
            try:
                with trio.fail_after(seconds):
                    await self._doing[type(step)](step)
            except trio.TooSlowError:
                raise Failure(f"{where}: not within {seconds:g} s: {self._last}", self._timeline.rules[0]) from None
            except Broken as broken:
                raise Failure(f"{where}: {broken.sentence}", broken.rule) from None
            except (Mismatch, UnknownVariable, OSError, InvalidHandshake) as error:
                raise Failure(f"{where}: {error}", self._timeline.rules[0]) from None

    async def _repeat(self, step: steps.Repeat) -> None:
        for _ in range(step.times):
            for name in step.fresh:
                self._variables.pop(name, None)
            for inner in step.steps:
                await self._doing[type(inner)](inner)

    async def leave(self) -> None:
        """Ends all connections."""
        for peer in self._peers.values():
            await peer.aclose()

    # ------------------------------------------------------------------------------------------------------ connecting

    def _peer(self, name: str) -> Peer:
        if name not in self._peers:
            raise UnknownVariable(f"client {name} has not connected yet")
        return self._peers[name]

    async def _connect(self, step: steps.Connect) -> None:
        peer = self._peers.setdefault(step.by, Peer(step.by, self._nursery))
        peer.follow = step.follow
        headers = {name: str(self._filled(value)) for name, value in step.headers.items()}
        try:
            await peer.open(
                self._dialer, format=step.format, subprotocols=step.subprotocols, headers=headers, slow=step.slow
            )
        except InvalidStatus as refusal:
            if refusal.response.status_code != step.refused:
                raise Mismatch(f"the opening was answered by {refusal.response.status_code}") from None
            return
        if step.refused is not None:
            raise Mismatch(f"a WebSocket was opened, and should have been refused with {step.refused}")
        if step.hello:
            hello = {"op": "hello", "client": "turnwire-conformance/1"}
            await self._answered(peer, await peer.send(self._request(hello)), {}, None)

    async def _cut(self, step: steps.Cut) -> None:
        peer = self._peer(step.by)
        await peer.link.stream.cut(step.how)
        await peer.until(lambda: peer.link.code is not None, gone=True)

    async def _close(self, step: steps.Close) -> None:
        await self._peer(step.by).link.connection.aclose(step.code)

    async def _closed(self, step: steps.Closed) -> None:
        peer = self._peer(step.by)
        self._last = "the connection stands"
        await peer.until(lambda: peer.link.code is not None, gone=True)
        match(step.code, peer.link.code, self._variables)

    async def _stall(self, step: steps.Stall) -> None:
        self._peer(step.by).link.stream.stall()
        await trio.lowlevel.checkpoint()

    async def _read_on(self, step: steps.ReadOn) -> None:
        self._peer(step.by).link.stream.read_on()
        await trio.lowlevel.checkpoint()

    # -------------------------------------------------------------------------------------------- sending and answers

    async def _send(self, step: steps.Send) -> None:
        peer = self._peer(step.by)
        if step.text is not None:
            await peer.send_raw(str(self._filled(step.text)))
        elif step.hex is not None:
            await peer.send_raw(bytes.fromhex(step.hex))
        else:
            await peer.send(self._request(step.frame), step.name)

    async def _ask(self, step: steps.Ask) -> None:
        peer = self._peer(step.by)
        await self._answered(peer, await peer.send(self._request(step.frame)), step.result, step.error)

    async def _answer(self, step: steps.Answer) -> None:
        peer = self._peer(step.by)
        await self._answered(peer, peer.named[step.to], step.result, step.error)

    async def _answered(self, peer: Peer, request_id: int | None, result: Any, error: Any) -> None:
        if request_id is None:
            raise UnknownVariable("a request without an id has no answer to wait for")
        link = peer.link
        self._last = f"no answer to request {request_id}"
        if not await peer.until(lambda: answer_to(link, request_id) is not None):
            raise Mismatch(f"the connection ended with {link.code} before an answer came")
        answer = answer_to(link, request_id)
        assert answer is not None
        if (answer["op"] == "error") != (error is not None):
            raise Mismatch(f"answered by {answer}")
        if error is not None:
            match(error, answer, self._variables)
        elif result is not None:
            match(result, answer.get("result", answer), self._variables)

    def _request(self, template: Any) -> Map:
        """A request with its variables filled in, a `hello` with the token of this run."""
        request: Map = self._filled(template)
        if request.get("op") == "hello" and self._token is not None:
            request.setdefault("token", self._token)
        return request

    def _filled(self, template: Any) -> Any:
        return fill(template, self._variables, self._fresh)

    def _fresh(self, name: str) -> str:
        value: str = f"{name}-{secrets.token_hex(6)}"
        self._variables[name] = value
        return value

    # -------------------------------------------------------------------------------------------------------- frames

    async def _expect(self, step: steps.Expect) -> None:
        peer = self._peer(step.by)
        link = peer.link
        wanted = list(step.all) or [step.frame]
        while wanted:
            frame = await self._next_frame(peer, link, wanted)
            found = next((pattern for pattern in wanted if matches(pattern, frame, self._variables)), None)
            if found is not None:
                wanted.remove(found)
                continue
            self._last = f"looking for {wanted[0]}, the last frame was {short(frame)}"
            for pattern in step.without:
                if matches(pattern, frame, dict(self._variables)):
                    raise Mismatch(f"before {wanted[0]} there must be nothing like {short(frame)}")

    async def _next_frame(self, peer: Peer, link: Link, wanted: list[Any]) -> Map:
        if not await peer.until(lambda: len(link.frames) > link.cursor):
            raise Mismatch(f"the connection ended with {link.code} before {wanted[0]} came")
        link.cursor += 1
        return link.frames[link.cursor - 1]

    async def _ticks(self, step: steps.Ticks) -> None:
        peer = self._peer(step.by)
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

    # --------------------------------------------------------------------------------------------------------- views

    async def _view(self, step: steps.View) -> None:
        peer = self._peer(step.by)
        view = peer.views[self._filled(step.session)]

        def like() -> bool:
            try:
                match(step.state, state_of(view), self._variables)
            except Mismatch as mismatch:
                self._last = str(mismatch)
                return False
            return True

        if not await peer.until(like):
            raise Mismatch(f"the connection ended with {peer.link.code}: {self._last}")

    async def _equal(self, step: steps.Equal) -> None:
        session_id = self._filled(step.session)
        peers = [self._peer(name) for name in step.clients]
        views = [peer.views[session_id] for peer in peers]

        def place() -> tuple[str | None, int]:
            return max((view.epoch, view.seq) for view in views if view.status == "live")

        for _ in range(2):  # the second round only confirms that nobody has moved on meanwhile
            for peer, view in zip(peers, views, strict=True):
                self._last = f"client {peer.name} is {view.status} at {view.epoch}/{view.seq}"

                def arrived(view: SessionView = view) -> bool:
                    return view.status == "live" and (view.epoch, view.seq) == place()

                if not await peer.until(arrived):
                    raise Mismatch(f"client {peer.name}'s connection ended with {peer.link.code}")
        start = max((view.messages[0]["sequence"] for view in views if view.messages), default=1)
        first = comparable(views[0], start)
        for peer, view in zip(peers[1:], views[1:], strict=True):
            other = comparable(view, start)
            if first != other:
                raise Mismatch(f"the views of {peers[0].name} and {peer.name} differ: {difference(first, other)}")

    async def _history(self, step: steps.History) -> None:
        peer = self._peer(step.by)
        session_id = self._filled(step.session)
        items: list[Map] = []
        before: Map = {}
        for _ in range(MAX_PAGES):
            request = {"op": "messages", "session_id": session_id, "limit": step.limit, **before}
            page: Map = {}
            variables = dict(self._variables)
            request_id = await peer.send(request)
            await self._answered(peer, request_id, {}, None)
            page = (answer_to(peer.link, request_id or 0) or {})["result"]
            if len(page["items"]) > step.limit:
                raise Broken("M2", f"a page of {len(page['items'])} items, {step.limit} were asked for")
            items = [*page["items"], *items]
            self._variables = variables
            if not page["has_more"]:
                break
            before = {"before_sequence": page["next_before_sequence"]}
        else:
            raise Broken("M3", "the pages have no end")
        check_history(items, page["total"], peer.views.get(session_id))
        if step.messages is not None:
            match(step.messages, items, self._variables)

    # ----------------------------------------------------------------------------------------------- HTTP and process

    async def _http(self, step: steps.Http) -> None:
        stream = await self._dialer.open_stream()
        async with stream:
            headers = {"Host": self._dialer.url.split("/")[2], "Connection": "close", **step.headers}
            lines = [f"GET {step.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
            await stream.send_all("\r\n".join(lines).encode())
            head = b""
            while b"\r\n" not in head:
                chunk = await stream.receive_some()
                if not chunk:
                    raise Mismatch(f"GET {step.path} was not answered")
                head += bytes(chunk)
        status = int(head.split(b" ")[1])
        if status != step.status:
            raise Mismatch(f"GET {step.path} was answered by {status}, expected {step.status}")

    def _process(self) -> ServerControl:
        assert self._control is not None, "a timeline that controls the process must say that it needs `control`"
        return self._control

    async def _kill(self, step: steps.Kill) -> None:
        await self._process().kill()

    async def _terminate(self, step: steps.Terminate) -> None:
        self._process().terminate()
        await trio.lowlevel.checkpoint()

    async def _exited(self, step: steps.Exited) -> None:
        match(step.code, await self._process().exited(), self._variables)

    async def _start(self, step: steps.Start) -> None:
        await self._process().start()
