"""After a deploy everybody comes back at once: to the same Session, and to one copy of its state (R5)."""

import re
from pathlib import Path

import trio
from websockets.frames import Frame, Opcode

from harness import PATIENCE_SECONDS, server_process, wire_client

CLIENTS = 500
ANSWERS = 3
ANSWER_BYTES = 150_000
ROOM_BYTES = 75_000_000
"""What the server may grow by: 150 kB for each client, a third of the snapshot that each of them gets."""

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
END_OF_SNAPSHOT = re.compile(rb'"part":([0-9]+),"parts":\1}$')
TAIL_BYTES = 64


def client_frame(text: str) -> bytes:
    return Frame(Opcode.TEXT, text.encode()).serialize(mask=True)


async def test_R5_five_hundred_clients_that_return_at_once_share_one_snapshot(data: Path) -> None:
    async with server_process(data) as server, wire_client(server.url) as author:
        session_id = (await author.request("session.create"))["session"]["session_id"]
        view = await author.subscribe(session_id)
        for number in range(ANSWERS):
            text = f"/text {ANSWER_BYTES} 8000"
            receipt = await author.request("prompt", session_id=session_id, text=text, client_request_id=f"r{number}")
            await author.turn_finished(receipt["turn_id"])
        before = server.resident_bytes
        most = 0
        sizes: list[int] = []
        joined = 0
        all_joined = trio.Event()

        async def come_back() -> None:
            nonlocal joined, most
            async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
                subscribe = f'{{"op":"subscribe","id":2,"session_id":"{session_id}"}}'
                await stream.send_all(HANDSHAKE + client_frame('{"op":"hello","id":1}') + client_frame(subscribe))
                seen = b""
                while b'"op":"snapshot"' not in seen:
                    seen += await stream.receive_some(4096)
                joined += 1
                if joined == CLIENTS:
                    all_joined.set()
                await all_joined.wait()  # and meanwhile it reads nothing: what is left waits for it
                most = max(most, server.resident_bytes)
                size = len(seen)
                tail = seen
                while not END_OF_SNAPSHOT.search(tail):
                    chunk = await stream.receive_some(65_536)
                    size += len(chunk)
                    tail = (tail + chunk)[-TAIL_BYTES:]
                sizes.append(size)

        with trio.fail_after(PATIENCE_SECONDS):
            async with trio.open_nursery() as nursery:
                for _ in range(CLIENTS):
                    nursery.start_soon(come_back)
        assert len(sizes) == CLIENTS
        assert min(sizes) > ANSWERS * ANSWER_BYTES, "each got all of it"
        assert most - before < ROOM_BYTES, f"the server grew by {most - before} bytes"
        assert view.status == "live"
