"""A server that may open no further file: who is connected is served, the log stays short, and it gets well again."""

import json
import resource
from contextlib import AsyncExitStack
from pathlib import Path

import trio

from harness import PATIENCE_SECONDS, ServerProcess, server_process, wire_client

SENTENCE = "no connection can be accepted"


def open_files(server: ServerProcess) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


async def told(server: ServerProcess) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while SENTENCE not in server.log.read_text():  # noqa: ASYNC110 - it happens in another process
            await trio.sleep(0.05)


async def test_W6_without_open_files_those_connected_are_served_and_others_wait(data: Path) -> None:
    async with server_process(data) as server, wire_client(server.url) as client:
        session_id = (await client.request("session.create"))["session"]["session_id"]
        view = await client.subscribe(session_id)
        room = open_files(server) + 10
        _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (room, hard))
        async with AsyncExitStack() as crowd:
            for _ in range(30):
                await crowd.enter_async_context(await trio.open_tcp_stream("127.0.0.1", server.port))
            await told(server)
            receipt = await client.request("prompt", session_id=session_id, text="/stream 50", client_request_id="r1")
            await client.turn_finished(receipt["turn_id"])
            assert view.messages[-1]["state"] == "done"
        async with wire_client(server.url) as newcomer:
            assert (await newcomer.request("session.get", session_id=session_id))["session"]["message_count"] == 2
        assert await server.terminate() == 0
        log = server.log.read_text()
        assert "Traceback" not in log
        lines = [json.loads(line) for line in log.splitlines() if SENTENCE in line]
        assert [(line["level"], line["reason"]) for line in lines] == [("error", "Too many open files")]
