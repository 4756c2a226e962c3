"""A client that stops reading: the server's memory stays bounded, nobody else notices, and it becomes whole again."""

from pathlib import Path

import msgspec
import pytest
import trio
from msgspec import Struct
from websockets.trio.client import connect

from harness import PATIENCE_SECONDS, WireClient, server_process, texts, wire_client

ANSWERS = 100
ANSWER_BYTES = 200_000
CHUNK_BYTES = 8_000
OTHERS = 20
ROOM_BYTES = 16_000_000
"""What the server may grow by: its outboxes (1 MiB each), and less than the 20 MB that the stalled one misses."""


class Head(Struct):
    """The few fields of a frame that a fast reader looks at."""

    op: str
    seq: int = 0
    variant: str = ""
    type: str = ""
    parts: int = 0


class Reader:
    """A client that only checks that `seq` has no hole, as fast as Python can."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.seq = 0
        self.finished = 0
        self.ops: set[str] = set()
        self.progress = trio.Event()
        self.joined = trio.Event()

    async def run(self, url: str, session_id: str) -> None:
        decode = msgspec.json.Decoder(Head).decode
        async with connect(url, max_size=2**24, compression=None) as socket:
            await socket.send('{"op":"hello","id":1}')
            await socket.send(f'{{"op":"subscribe","id":2,"session_id":"{session_id}"}}')
            async for data in socket:
                self._take(decode(data))

    def _take(self, frame: Head) -> None:
        self.ops.add(frame.op)
        if frame.op == "snapshot":
            self.seq = frame.seq
            self.joined.set()
        elif frame.op == "mutation":
            assert frame.seq == self.seq + 1, f"client {self.number} missed something"
            self.seq = frame.seq
            if (frame.variant, frame.type) == ("turn", "finish"):
                self.finished += 1
                self.progress.set()
                self.progress = trio.Event()

    async def until_finished(self, turns: int) -> None:
        while self.finished < turns:
            await self.progress.wait()


@pytest.mark.slow
async def test_Z1_R2_a_stalled_client_costs_bounded_memory_and_delays_nobody(data: Path) -> None:
    # However slow this machine is, the stall must not end the connection: that is another rule's test.
    async with server_process(data, "--write-timeout-seconds", "3600") as server, wire_client(server.url) as author:
        session_id = (await author.request("session.create"))["session"]["session_id"]
        async with (
            trio.open_nursery() as nursery,
            connect(server.url, max_size=2**24, max_queue=1, ping_interval=None, compression=None) as socket,
            trio.open_nursery() as stalled_nursery,
        ):
            stalled = WireClient(socket, "json", stalled_nursery)
            stalled.keep_mutations = False
            # It joins, and until `run` starts nothing is read from its socket.
            await stalled.send({"op": "hello", "id": 1_000_001})
            await stalled.send({"op": "subscribe", "id": 1_000_002, "session_id": session_id})
            view = stalled.view_of(session_id)

            readers = [Reader(number) for number in range(OTHERS)]
            for reader in readers:
                nursery.start_soon(reader.run, server.url, session_id)
            for reader in readers:
                await reader.joined.wait()
            base = server.resident_bytes
            peak = base
            for number in range(1, ANSWERS + 1):
                await author.request(
                    "prompt",
                    session_id=session_id,
                    text=f"/text {ANSWER_BYTES} {CHUNK_BYTES}",
                    client_request_id=f"r{number}",
                )
                with trio.fail_after(PATIENCE_SECONDS):
                    for reader in readers:
                        await reader.until_finished(number)
                peak = max(peak, server.resident_bytes)
            assert peak - base < ROOM_BYTES, f"the server grew by {peak - base} bytes"
            for reader in readers:
                assert "reload" not in reader.ops

            stalled_nursery.start_soon(stalled.run)
            await stalled.until(lambda: stalled.reloads > 0)
            await stalled.until(lambda: view.status == "live" and view.seq == readers[0].seq)
            page = await author.request("messages", session_id=session_id)
            assert view.messages == page["items"]
            assert len(texts(page["items"][-1])) == ANSWER_BYTES
            stalled_nursery.cancel_scope.cancel()
            nursery.cancel_scope.cancel()
