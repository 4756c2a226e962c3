"""The driver of a client with one deliberate fault, which its only argument names; the pack has to find it."""

import sys
from collections.abc import Callable
from typing import Any

import trio
from websockets.trio.client import ClientConnection

from turnwire.conformance import python_client
from turnwire.conformance.python_client import PythonClient
from turnwire_protocol.view import SessionView

Map = dict[str, Any]


class Clumsy(SessionView):
    """A view that does not look at numbers."""

    def receive(self, frame: Any) -> Any:
        if frame.get("op") == "mutation" and self.status == "live":
            held = next((item for item in self.messages if item["message_id"] == frame.get("message_id")), None)
            revision = {"revision": held["revision"] + 1} if held else {}
            frame = {**frame, "epoch": self.epoch, "seq": self.seq + 1, **revision}
        return super().receive(frame)


class KeepsEpochs(SessionView):
    """A view that takes every epoch for the first one, so small numbers of a new one are dropped."""

    def receive(self, frame: Any) -> Any:
        return super().receive({**frame, "epoch": "e1"} if "epoch" in frame else frame)


class Broken(PythonClient):
    def __init__(self, fault: str, name: str, nursery: trio.Nursery) -> None:
        super().__init__(name, nursery)
        self._fault = fault

    async def _say(self, socket: ClientConnection, request: Map, take: Callable[[Map], None]) -> None:
        if self._fault == "makes a new client_request_id" and request["op"] == "prompt":
            request = {**request, "client_request_id": f"r{next(self._ids)}"}
        if self._fault == "sends unknown fields" and request["op"] == "subscribe":
            request = {**request, "urgent": True}
        if self._fault == "speaks before hello" and request["op"] == "hello":
            await super()._say(socket, {"op": "ping"}, lambda answer: None)
        await super()._say(socket, request, take)

    async def _subscribe(self, number: int, fields: Map) -> None:
        await super()._subscribe(number, fields)
        kind = {"ignores gaps": Clumsy, "adds what it has already": Clumsy, "keeps old epochs": KeepsEpochs}.get(
            self._fault
        )
        if kind is not None:
            self._views[fields["session_id"]] = kind(fields["session_id"])


def main() -> None:
    fault = sys.argv[1]
    if fault == "never tires of 4403":
        vars(python_client)["retry_of"] = lambda code: "retry"
    trio.run(python_client.main, lambda name, nursery: Broken(fault, name, nursery))


main()
