"""What the driver of the Python client promises besides what the pack can time (S9, T1)."""

import json
from functools import partial
from typing import Any

import trio
from websockets.trio.server import ServerConnection, serve

from turnwire.conformance.python_client import PythonClient

Map = dict[str, Any]


class Held(PythonClient):
    """It has been welcomed, and has yet to come to what it resumes."""

    def __init__(self, name: str, nursery: trio.Nursery) -> None:
        super().__init__(name, nursery)
        self.welcomed = trio.Event()
        self.may_resume = trio.Event()
        self.resumed = trio.Event()

    async def _resume(self, session_ids: list[str]) -> None:
        self.welcomed.set()
        await self.may_resume.wait()
        await super()._resume(session_ids)
        self.resumed.set()


async def test_S9_what_is_said_between_welcome_and_resuming_goes_out_once_and_in_order() -> None:
    asked: list[Map] = []
    complete = trio.Event()

    async def server(socket: ServerConnection) -> None:
        async for data in socket:
            frame = json.loads(data)
            if frame["op"] == "hello":
                await socket.send(json.dumps({"op": "welcome", "id": frame["id"], "tick_ms": 15_000}))
            elif frame["op"] == "stop":
                complete.set()
            else:
                asked.append(frame)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(partial(serve, server, listeners=listeners))
        port = listeners[0].socket.getsockname()[1]
        client = Held("c", nursery)
        number = 0

        async def command(do: str, **fields: Any) -> None:
            nonlocal number
            number += 1
            await client.commands[do](number, fields)

        await command("subscribe", session_id="before")
        await command("prompt", session_id="before", text="one")
        await command("connect", url=f"ws://127.0.0.1:{port}")
        await client.welcomed.wait()
        await command("subscribe", session_id="after")
        await command("prompt", session_id="before", text="two")
        client.may_resume.set()
        await client.resumed.wait()
        await command("stop", session_id="before")
        await complete.wait()
        nursery.cancel_scope.cancel()
    assert sorted(frame["session_id"] for frame in asked if frame["op"] == "subscribe") == ["after", "before"]
    assert [frame["text"] for frame in asked if frame["op"] == "prompt"] == ["one", "two"]
