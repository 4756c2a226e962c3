"""The Python servers of the fan-out benchmark: `python peers.py NAME FRAMES PER_TURN INTERVAL_MS`.

Each prints its port; on SIGUSR2 it publishes FRAMES frames to everyone, PER_TURN at a time, every INTERVAL_MS by the
clock (0: each turn of its scheduler). A frame carries the time of its birth between `@@`. All send the same bytes.
"""

import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from turnwire_protocol.codec import encode_mutation
from turnwire_protocol.mutations import DeltaMutation

NAME, FRAMES, PER_TURN, INTERVAL_S = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]) / 1000
EPOCH = "epoch_0123456789abcdef01234567"
SESSION_ID = "ses_0123456789abcdef01234567"


def birth() -> str:
    return f"@@{time.monotonic_ns()}@@ and more"


def mutation(number: int) -> DeltaMutation:
    return DeltaMutation(
        mutation_id="mut_0123456789abcdef01234567",
        session_id=SESSION_ID,
        created_at=1_700_000_000_000,
        type="text",
        message_id="msg_0123456789abcdef",
        revision=number,
        part_id="part_0123456789abcdef",
        delta=birth(),
    )


def delta(number: int) -> bytes:
    """The payload of a peer's frame: what Turnwire sends."""
    return encode_mutation(mutation(number), epoch=EPOCH, seq=number, format="json")


def turns() -> list[range]:
    """The frames of each turn, counted from 1."""
    return [range(start, min(start + PER_TURN, FRAMES + 1)) for start in range(1, FRAMES + 1, PER_TURN)]


# ---------------------------------------------------------------------------------------------------------- on trio


async def paced_on_trio() -> AsyncIterator[range]:
    """The turns, each when it is due; the first at once."""
    import trio

    due = trio.current_time()
    for turn in turns():
        yield turn
        due += INTERVAL_S
        await trio.sleep_until(due)


def run_trio_loop() -> None:
    """The obvious server: for each client, `await socket.send`."""
    import trio
    from websockets.trio.server import ServerConnection, serve

    clients: set[ServerConnection] = set()

    async def handler(socket: ServerConnection) -> None:
        clients.add(socket)
        await socket.wait_closed()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve_here, handler)
            print(server.listeners[0].socket.getsockname()[1], flush=True)
            with trio.open_signal_receiver(signal.SIGUSR2) as signals:
                await anext(signals)
                async for turn in paced_on_trio():
                    for number in turn:
                        text = delta(number).decode()
                        for client in clients:
                            await client.send(text)
            await trio.sleep_forever()

    async def serve_here(handler: Any, *, task_status: Any) -> None:
        await serve(handler, 0, host="127.0.0.1", compression=None, ping_interval=None, task_status=task_status)

    trio.run(main)


def run_turnwire_fanout() -> None:
    """Our gateway and channel alone: every frame is numbered, encoded and handed to all clients."""
    import trio

    from bench.fanout.sessions import OneSession
    from turnwire.gateway import Gateway, GatewaySettings, OpenAccess

    async def main() -> None:
        sessions = OneSession(SESSION_ID, EPOCH)
        gateway = Gateway(
            sessions,
            GatewaySettings(port=0),
            authenticator=OpenAccess(),
            server="bench",
            documents={},
            problem=lambda: None,
            rng=random.Random(1),
        )
        async with trio.open_nursery() as nursery:
            ((_, port),) = await nursery.start(gateway.serve)
            print(port, flush=True)
            with trio.open_signal_receiver(signal.SIGUSR2) as signals:
                await anext(signals)
                async for turn in paced_on_trio():
                    for number in turn:
                        sessions.channel.publish(mutation(number))

    trio.run(main)


def run_turnwire_whole() -> None:
    """The whole path: a model's events, the loop, the projection, numbers, encoding, the gateway, SQLite beneath."""
    import trio

    from turnwire import Turnwire
    from turnwire.gateway import GatewaySettings
    from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, StepEnd
    from turnwire_protocol.parts import TextInput

    class Model:
        name = "bench"

        async def stream(self, request: Any) -> Any:
            yield BlockStart(0, "text")
            async for turn in paced_on_trio():
                for _ in turn:
                    yield BlockDelta(0, birth())
            yield BlockEnd(0)
            yield StepEnd(blocks=(0,))

        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            app = Turnwire(Path(folder) / "bench.db", model=Model())
            async with app.open() as sessions, trio.open_nursery() as nursery:
                await sessions.create(session_id=SESSION_ID)
                from turnwire.gateway import Gateway, OpenAccess

                gateway = Gateway(
                    sessions,
                    GatewaySettings(port=0),
                    authenticator=OpenAccess(),
                    server="bench",
                    documents={},
                    problem=lambda: None,
                    rng=random.Random(1),
                )
                ((_, port),) = await nursery.start(gateway.serve)
                print(port, flush=True)
                with trio.open_signal_receiver(signal.SIGUSR2) as signals:
                    await anext(signals)
                    await sessions.prompt(SESSION_ID, parts=(TextInput("go"),), client_request_id="go")
                    await trio.sleep_forever()

    trio.run(main)


# ------------------------------------------------------------------------------------------------------- on asyncio


async def paced_on_asyncio(asyncio: Any) -> AsyncIterator[range]:
    """The turns from the signal on, each when it is due."""
    come = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR2, come.set)
    await come.wait()
    due = loop.time()
    for turn in turns():
        yield turn
        due += INTERVAL_S
        await asyncio.sleep(max(0, due - loop.time()))


def run_asyncio_broadcast() -> None:
    import asyncio  # noqa: TID251 - a peer, not ours

    from websockets.asyncio.server import ServerConnection, broadcast, serve

    clients: set[ServerConnection] = set()

    async def handler(socket: ServerConnection) -> None:
        clients.add(socket)
        await socket.wait_closed()

    async def main() -> None:
        async with serve(handler, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
            print(next(iter(server.sockets)).getsockname()[1], flush=True)
            async for turn in paced_on_asyncio(asyncio):
                for number in turn:
                    broadcast(clients, delta(number).decode())
            await asyncio.Event().wait()

    asyncio.run(main())


def run_picows() -> None:
    import asyncio  # noqa: TID251 - a peer, not ours

    import uvloop
    from picows import WSListener, WSMsgType, WSTransport, WSUpgradeRequest, ws_create_server

    clients: set[WSTransport] = set()

    class Listener(WSListener):
        def on_ws_connected(self, transport: WSTransport) -> None:
            clients.add(transport)

        def on_ws_disconnected(self, transport: WSTransport) -> None:
            clients.discard(transport)

    def listener(request: WSUpgradeRequest) -> Listener:
        return Listener()

    async def main() -> None:
        server = await ws_create_server(listener, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        async for turn in paced_on_asyncio(asyncio):
            for number in turn:
                data = delta(number)
                for client in clients:
                    client.send(WSMsgType.TEXT, data)
        await asyncio.Event().wait()

    uvloop.run(main())


PEERS: dict[str, Callable[[], None]] = {
    "trio_loop": run_trio_loop,
    "asyncio_broadcast": run_asyncio_broadcast,
    "picows": run_picows,
    "turnwire_fanout": run_turnwire_fanout,
    "turnwire_whole": run_turnwire_whole,
}

if __name__ == "__main__":
    PEERS[NAME]()
