"""The driver of the Python client: `SessionView` on a WebSocket, reconnecting by the rules (W5-W8, S9).

`python -m turnwire.conformance.python_client`, driven by the JSON lines of "Conformance" in SPEC.md. It is also an
example of how little a client needs besides the view.
"""

import json
import os
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final

import trio
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.trio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from turnwire.conformance.compare import state_of
from turnwire.conformance.peer import ABNORMAL, SUBPROTOCOLS
from turnwire_protocol.codec import Format, decode_map, encode
from turnwire_protocol.codes import RequestError, retry_of
from turnwire_protocol.held import MalformedFrame
from turnwire_protocol.view import SessionView

CAN: Final = ("msgpack", "older", "prompt", "reconnect", "respond", "silence", "stop", "token")
RETRY_SECONDS: Final = 0.1
"""Pause before a connection is tried again, beyond what the server's hint says."""

MISSED_TICKS: Final = 3
BAD_FRAME: Final = 4400
HELLO_CLOSE_CODES: Final = {"unauthenticated": 4401, "forbidden": 4403}

Map = dict[str, Any]


def say(line: Map) -> None:
    print(json.dumps(line), flush=True)


class PythonClient:
    """One client: keeps a connection, a view for each Session, and prompts until they are answered."""

    def __init__(self, name: str, nursery: trio.Nursery) -> None:
        self._name = name
        self._nursery = nursery
        self._views: dict[str, SessionView] = {}
        self._socket: ClientConnection | None = None
        """The connection, from `welcome` on."""
        self._format: Format = "json"
        self._tokens: list[str] = []
        self._ids = count(1)
        self._waiting: dict[int, Callable[[Map], None]] = {}
        """What to do with the answers of this connection."""
        self._prompts: dict[str, tuple[int, Map]] = {}
        """Prompts without an answer, by `client_request_id`: the command's number, and the request."""
        self._sent: set[str] = set()
        """Those of them that this connection has taken: each goes out once a connection."""
        self._snapshots = 0
        self._hint_seconds = 0.0
        self._scope = trio.CancelScope()
        self.commands: Final[dict[str, Callable[[int, Map], Awaitable[None]]]] = {
            "connect": self._connect,
            "disconnect": self._disconnect,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "prompt": self._prompt,
            "stop": self._stop,
            "respond": self._respond,
            "older": self._older,
        }

    # ------------------------------------------------------------------------------------------------------ commands

    async def _connect(self, number: int, fields: Map) -> None:
        self._format = fields.get("format", "json")
        self._tokens = list(fields.get("tokens", ()))
        self._scope = trio.CancelScope()
        self._nursery.start_soon(self._stay_connected, fields["url"])
        self._answer(number, {})

    async def _disconnect(self, number: int, _: Map) -> None:
        self._scope.cancel()
        self._answer(number, {})

    async def _subscribe(self, number: int, fields: Map) -> None:
        view = SessionView(fields["session_id"])
        self._views[view.session_id] = view
        self._show(view)
        if self._socket is not None:
            await self._request({"op": "subscribe", "session_id": view.session_id}, self._ignore)
        self._answer(number, {})

    async def _unsubscribe(self, number: int, fields: Map) -> None:
        self._views.pop(fields["session_id"], None)
        await self._request({"op": "unsubscribe", "session_id": fields["session_id"]}, self._answering(number))

    async def _prompt(self, number: int, fields: Map) -> None:
        request_id = f"{self._name}-{number}"
        request = {"op": "prompt", "client_request_id": request_id, **_fields(fields)}
        self._prompts[request_id] = (number, request)
        await self._send_prompts()

    async def _stop(self, number: int, fields: Map) -> None:
        await self._request({"op": "stop", **_fields(fields)}, self._answering(number))

    async def _respond(self, number: int, fields: Map) -> None:
        await self._request({"op": "interaction.respond", **_fields(fields)}, self._answering(number))

    async def _older(self, number: int, fields: Map) -> None:
        view = self._views[fields["session_id"]]
        before, snapshots = view.next_before_sequence, self._snapshots
        if before is None:
            self._answer(number, {})
            return

        def take(answer: Map) -> None:
            if "result" in answer and snapshots == self._snapshots:
                view.add_page(answer["result"], before)
                self._show(view)
            self._answering(number)(answer)

        await self._request({"op": "messages", "before_sequence": before, **_fields(fields)}, take)

    # ---------------------------------------------------------------------------------------------------- connections

    async def _stay_connected(self, url: str) -> None:
        with self._scope:
            refreshed = False
            while True:
                code = await self._one_connection(url)
                self._lose()
                action = retry_of(code)
                if action == "stop" or (action == "refresh_token" and (refreshed or len(self._tokens) < 2)):
                    self._tell("closed", code)
                    return
                if action == "refresh_token":
                    refreshed = True
                    del self._tokens[0]
                self._tell("reconnecting", code)
                pause, self._hint_seconds = RETRY_SECONDS + self._hint_seconds, 0.0
                await trio.sleep(pause)
        self._lose()
        self._tell("closed", 1000)

    async def _one_connection(self, url: str) -> int:
        """Lives for one connection; the code that it ended with."""
        subprotocol = Subprotocol(SUBPROTOCOLS[self._format])
        try:
            async with connect(url, subprotocols=[subprotocol], max_size=None, compression=None, proxy=None) as socket:
                return await self._converse(socket)
        except (InvalidHandshake, OSError):
            return ABNORMAL

    async def _converse(self, socket: ClientConnection) -> int:
        refusals: list[int] = []
        tick_seconds: list[float] = []

        def welcomed(answer: Map) -> None:
            if answer["op"] == "welcome":
                tick_seconds.append(answer["tick_ms"] / 1000)
                self._socket = socket
                self._nursery.start_soon(self._resume, list(self._views))
            else:
                retryable = ABNORMAL if answer.get("retryable") else BAD_FRAME
                refusals.append(HELLO_CLOSE_CODES.get(answer["code"], retryable))

        hello = {"op": "hello", "client": "turnwire-python/1", "protocol": 1}
        await self._say(socket, {**hello, **({"token": self._tokens[0]} if self._tokens else {})}, welcomed)
        try:
            while True:
                with trio.move_on_after(MISSED_TICKS * tick_seconds[0] if tick_seconds else 10.0) as silence:
                    await self._receive(decode_map(await socket.recv(), self._format))
                if silence.cancelled_caught:
                    await trio.aclose_forcefully(socket.stream)
                    return ABNORMAL
                if refusals:
                    return refusals[0]
        except ConnectionClosed:
            received = socket.protocol.close_rcvd
            return ABNORMAL if received is None else received.code
        except (RequestError, MalformedFrame):
            return ABNORMAL  # nothing that is held can be trusted; a new connection brings a new state

    async def _resume(self, session_ids: list[str]) -> None:
        """After `welcome`: the Sessions of before, and the prompts that nobody has answered (S9)."""
        self._tell("connected", None)
        for session_id in session_ids:
            await self._request({"op": "subscribe", "session_id": session_id}, self._ignore)
        await self._send_prompts()

    def _lose(self) -> None:
        self._socket = None
        self._sent.clear()
        waiting, self._waiting = self._waiting, {}
        for take in waiting.values():
            take({"op": "error", "code": "lost", "message": "the connection was lost", "retryable": True})
        for view in self._views.values():
            view.disconnected()
            self._show(view)

    async def _receive(self, frame: Map) -> None:
        if "id" in frame and frame["id"] in self._waiting:
            self._waiting.pop(frame["id"])(frame)
        if frame["op"] == "draining":
            self._hint_seconds = frame["retry_after_ms"] / 1000
        view = self._views.get(frame.get("session_id", ""))
        if view is None:
            return
        effect = view.receive(frame)
        if frame["op"] == "snapshot" and effect != "ignored":
            self._snapshots += 1
        if effect == "reload":
            await self._request({"op": "reload", "session_id": view.session_id}, self._ignore)
        self._show(view)

    # -------------------------------------------------------------------------------------------------------- sending

    async def _request(self, request: Map, take: Callable[[Map], None]) -> None:
        if self._socket is None:
            take({"op": "error", "code": "lost", "message": "there is no connection", "retryable": True})
        else:
            await self._say(self._socket, request, take)

    async def _say(self, socket: ClientConnection, request: Map, take: Callable[[Map], None]) -> None:
        request_id = next(self._ids)
        self._waiting[request_id] = take
        data = encode({"id": request_id, **request}, self._format)
        try:
            await socket.send(data.decode() if self._format == "json" else data)
        except ConnectionClosed:
            return  # `_lose` answers

    async def _send_prompts(self) -> None:
        """All that this connection has not taken yet, in their order. Without a connection they wait for the next."""
        for request_id in list(self._prompts):
            if self._socket is not None and request_id in self._prompts and request_id not in self._sent:
                self._sent.add(request_id)
                await self._send_prompt(request_id)

    async def _send_prompt(self, request_id: str) -> None:
        number, request = self._prompts[request_id]

        def take(answer: Map) -> None:
            if answer["op"] == "error" and answer["retryable"]:
                return  # it is sent again with the next connection
            self._prompts.pop(request_id, None)
            self._answering(number)(answer)

        await self._request(request, take)

    def _answering(self, number: int) -> Callable[[Map], None]:
        def take(answer: Map) -> None:
            if answer["op"] == "error":
                say({"client": self._name, "id": number, "error": answer})
            else:
                self._answer(number, answer["result"])

        return take

    def _ignore(self, _: Map) -> None:
        """What matters comes by the frames of the Session."""

    def _answer(self, number: int, result: Map) -> None:
        say({"client": self._name, "id": number, "result": result})

    def _tell(self, status: str, code: int | None) -> None:
        say({"client": self._name, "connection": {"status": status, **({} if code is None else {"code": code})}})

    def _show(self, view: SessionView) -> None:
        say({"client": self._name, "session_id": view.session_id, "state": state_of(view)})


def _fields(command: Map) -> Map:
    """A command without what is for the driver only."""
    return {name: value for name, value in command.items() if name not in ("id", "client", "do")}


async def main(make: Callable[[str, trio.Nursery], PythonClient] = PythonClient) -> None:
    """Obeys the lines of standard input until it ends; `make` makes a client of a new name."""
    clients: dict[str, PythonClient] = {}
    say({"driver": "turnwire-python/1", "can": CAN})
    async with trio.open_nursery() as nursery:
        buffer = b""
        async for chunk in trio.lowlevel.FdStream(os.dup(0)):
            *lines, buffer = (buffer + bytes(chunk)).split(b"\n")
            for line in lines:
                command = json.loads(line)
                name = command["client"]
                client = clients.get(name) or clients.setdefault(name, make(name, nursery))
                await client.commands[command["do"]](command["id"], command)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
