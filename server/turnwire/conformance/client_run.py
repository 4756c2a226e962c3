"""Playing one timeline against a client: the steps play the server, and tell the client's driver what to do."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from turnwire.conformance.driver import DrivenClient, DriverError
from turnwire.conformance.patterns import Mismatch, UnknownVariable, Variables, fill, match, matches
from turnwire.conformance.shapes import Map
from turnwire.conformance.stage import WELCOME, Guest, Stage
from turnwire.conformance.verdict import Broken, Failure
from turnwire_protocol import client_steps as steps
from turnwire_protocol.timeline_steps import Close, Cut, Send
from turnwire_protocol.timelines import ClientTimeline

STEP_SECONDS: Final = 30.0
"""How long a step may take that says nothing else: a client may wait 20 s before it comes back."""


class ClientRun:
    """One timeline against one client of the driver."""

    def __init__(
        self, timeline: ClientTimeline, client: DrivenClient, stage: Stage, *, let: Variables, seconds: float
    ) -> None:
        self._timeline = timeline
        self._client = client
        self._stage = stage
        self._seconds = seconds
        self._variables: Variables = {**let, "url": stage.url}
        self._accepted = 0
        self._named: dict[str, int] = {}
        self._doing: dict[type, Callable[[Any], Awaitable[None]]] = {
            steps.Command: self._command,
            steps.Returns: self._returns,
            steps.Accept: self._accept,
            steps.Receive: self._receive,
            Send: self._send,
            steps.Shows: self._shows,
            steps.Connection: self._connection,
            Cut: self._cut,
            Close: self._close,
            steps.Gone: self._gone,
        }

    async def play(self) -> None:
        """Raises Failure at the first step that fails."""
        rule = self._timeline.rules[0]
        for number, step in enumerate(self._timeline.steps, start=1):
            seconds = self._seconds if step.seconds is None else step.seconds
            where = f"step {number} ({step.__struct_config__.tag})"
            self._last = "nothing came"
            try:
                with trio.fail_after(seconds):
                    await self._doing[type(step)](step)
            except trio.TooSlowError:
                raise Failure(f"{where}: not within {seconds:g} s: {self._last}", rule) from None
            except Broken as broken:
                raise Failure(f"{where}: {broken.sentence}", broken.rule) from None
            except (Mismatch, UnknownVariable, DriverError) as error:
                raise Failure(f"{where}: {error}", rule) from None

    def _filled(self, template: Any) -> Any:
        return fill(template, self._variables)

    # ---------------------------------------------------------------------------------------------- driving the client

    async def _command(self, step: steps.Command) -> None:
        fields = dict(self._filled(step.fields))
        if step.command == "connect":
            fields.setdefault("url", self._stage.url)
        number = await self._client.tell(step.command, fields)
        if step.name is not None:
            self._named[step.name] = number

    async def _returns(self, step: steps.Returns) -> None:
        if step.to not in self._named:
            raise UnknownVariable(f"no command is called {step.to}")
        number = self._named[step.to]
        self._last = f"the command {step.to} has come to nothing"
        await self._client.until(lambda: number in self._client.answers)
        answer = self._client.answers[number]
        if ("error" in answer) != (step.error is not None):
            raise Mismatch(f"the command {step.to} came to {answer}")
        if step.error is not None:
            match(step.error, answer["error"], self._variables)
        elif step.result is not None:
            match(step.result, answer.get("result"), self._variables)

    async def _shows(self, step: steps.Shows) -> None:
        session_id = self._filled(step.session)
        await self._client.until(lambda: self._like(step.state, self._client.states.get(session_id, {})))

    async def _connection(self, step: steps.Connection) -> None:
        await self._client.until(lambda: self._like(step.state, self._client.connection))

    def _like(self, pattern: Any, value: Map) -> bool:
        try:
            match(pattern, value, self._variables)
        except Mismatch as mismatch:
            self._last = str(mismatch)
            return False
        return True

    # --------------------------------------------------------------------------------------------- playing the server

    @property
    def _guest(self) -> Guest:
        if not self._accepted:
            raise UnknownVariable("no connection has been accepted yet")
        return self._stage.guests[self._accepted - 1]

    async def _accept(self, step: steps.Accept) -> None:
        self._last = "the client has not connected"
        await self._stage.until(lambda: len(self._stage.guests) > self._accepted)
        self._accepted += 1
        guest = self._guest
        self._last = "the client has not said hello"
        await self._stage.until(lambda: bool(guest.requests) or guest.code is not None)
        if not guest.requests:
            raise Mismatch("the client went without a hello")
        hello = guest.requests[0]
        guest.cursor = 1
        match(step.hello, hello, self._variables)
        if step.silent:
            return
        if step.error is not None:
            await guest.send({"op": "error", "id": hello["id"], **self._filled(step.error)})
        else:
            await guest.send({**WELCOME, "id": hello["id"], **self._filled(step.welcome)})

    async def _receive(self, step: steps.Receive) -> None:
        guest = self._guest
        while True:
            request = await self._next_request(guest)
            if matches(step.frame, request, self._variables):
                break
            self._last = f"looking for {step.frame}, the last request was {request}"
            for pattern in step.without:
                if matches(pattern, request, dict(self._variables)):
                    raise Mismatch(f"before {step.frame} there must be nothing like {request}")
        self._variables["id"] = request["id"]
        if step.result is not None:
            await guest.send({"op": "result", "id": request["id"], "result": self._filled(step.result)})
        elif step.error is not None:
            error = {"message": "as the timeline says", "retryable": False, **self._filled(step.error)}
            await guest.send({"op": "error", "id": request["id"], **error})

    async def _next_request(self, guest: Guest) -> Map:
        await self._stage.until(lambda: len(guest.requests) > guest.cursor or guest.code is not None)
        if len(guest.requests) == guest.cursor:
            raise Mismatch(f"the client ended the connection with {guest.code}: {self._last}")
        guest.cursor += 1
        return guest.requests[guest.cursor - 1]

    async def _send(self, step: Send) -> None:
        if step.text is not None:
            await self._guest.send_raw(str(self._filled(step.text)))
        elif step.hex is not None:
            await self._guest.send_raw(bytes.fromhex(step.hex))
        else:
            await self._guest.send(self._filled(step.frame))

    async def _cut(self, step: Cut) -> None:
        await self._guest.stream.cut(step.how)

    async def _close(self, step: Close) -> None:
        await self._guest.close(step.code)

    async def _gone(self, step: steps.Gone) -> None:
        guest = self._guest
        self._last = "the connection stands"
        await self._stage.until(lambda: guest.code is not None)
