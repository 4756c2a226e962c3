"""Trouble under a running server: a disk that is full, broken, read-only or damaged, and many at once (D1, D3, D4)."""

import resource
from functools import partial
from pathlib import Path

import apsw
import pytest
import trio

from faults import faulty_process, readiness, until_ready
from harness import Refused, ServerProcess, server_process, texts, wire_client
from turnwire_protocol.view import SessionView

WORDS = 150
SESSIONS = 100
LOG_BYTES = 48 * 2**20
"""What a write-ahead log may reach: 8,000 pages of 4 KiB, and what is written while one checkpoint is waited for."""


@pytest.mark.parametrize("fault", ["write full", "write io", "write readonly", "sync io", "sync corrupt"])
async def test_D4_answers_stream_on_while_nothing_can_be_stored_and_end_when_it_can(data: Path, fault: str) -> None:
    async with faulty_process(data) as (server, disk), wire_client(server.url) as client:
        session_id = (await client.request("session.create"))["session"]["session_id"]
        view = await client.subscribe(session_id)
        receipt = await client.request(
            "prompt", session_id=session_id, text=f"/stream {WORDS} 5", client_request_id="r1"
        )
        await client.until(lambda: len(view.messages) == 2)
        disk.fail(fault)
        for op, fields in (
            ("prompt", {"session_id": session_id, "text": "/echo lost?", "client_request_id": "r2"}),
            ("session.create", {}),
            ("stop", {"session_id": session_id}),
            ("session.update", {"session_id": session_id, "title": "never"}),
        ):
            with pytest.raises(Refused) as refused:
                await client.request(op, **fields)
            assert (refused.value.code, refused.value.frame["retryable"]) == ("unavailable", True)
        status, reason = await readiness(server)
        assert status == 503
        assert "cannot be written" in reason
        await client.until(lambda: texts(view.messages[-1]).rstrip().endswith(f"w{WORDS}"))
        assert view.turn is not None, "an end that is not stored is not told"
        assert view.session is not None
        assert "title" not in view.session

        disk.mend()
        assert (await client.turn_finished(receipt["turn_id"]))["status"] == "completed"
        await until_ready(server)
        again = await client.request("prompt", session_id=session_id, text="/echo lost?", client_request_id="r2")
        assert again["outcome"] == "started", "it was refused, so it had not been stored"
        await client.turn_finished(again["turn_id"])
        await server.kill()
        shown = view.messages
        assert "Traceback" not in server.log.read_text()
    async with server_process(data) as server, wire_client(server.url) as client:
        page = await client.request("messages", session_id=session_id)
        assert page["items"] == shown


async def test_D4_what_cannot_be_read_is_unavailable_and_says_so_until_it_can(data: Path) -> None:
    async with server_process(data) as server, wire_client(server.url) as client:
        session_id = (await client.request("session.create"))["session"]["session_id"]
        await server.terminate()
    async with faulty_process(data) as (server, disk), wire_client(server.url) as client:
        disk.fail("read io")
        with pytest.raises(Refused, match="unavailable"):
            await client.request("messages", session_id=session_id)
        assert (await readiness(server))[0] == 503
        disk.mend()
        await until_ready(server)
        assert (await client.request("messages", session_id=session_id))["total"] == 0


async def test_D4_the_kernel_refuses_to_write_and_an_unchanged_server_stands_it(data: Path) -> None:
    async with server_process(data) as server, wire_client(server.url) as client:
        session_id = (await client.request("session.create"))["session"]["session_id"]
        await client.subscribe(session_id)
        log = data.with_name(data.name + "-wal")
        free = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (log.stat().st_size, free[1]))
        with pytest.raises(Refused, match="unavailable"):
            await client.request("prompt", session_id=session_id, text="/echo a", client_request_id="r1")
        assert (await readiness(server))[0] == 503
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, free)
        await until_ready(server)
        receipt = await client.request("prompt", session_id=session_id, text="/echo a", client_request_id="r1")
        assert (await client.turn_finished(receipt["turn_id"]))["status"] == "completed"


@pytest.mark.slow
async def test_D1_D3_a_hundred_sessions_stream_beside_a_reader_without_a_busy_database(data: Path) -> None:
    """The reader has a connection of its own and reads all the time, in short transactions."""
    largest = 0
    async with server_process(data) as server, wire_client(server.url, format="msgpack") as client:
        ids = [(await client.request("session.create"))["session"]["session_id"] for _ in range(SESSIONS)]
        views = [await client.subscribe(session_id) for session_id in ids]
        ended = trio.Event()

        async def read_on() -> None:
            nonlocal largest
            connection = apsw.Connection(str(data), flags=apsw.SQLITE_OPEN_READONLY)
            statement = "SELECT sum(length(json)) FROM (SELECT json FROM parts LIMIT 10)"
            try:
                while not ended.is_set():
                    # In a thread: the frames that come in are not to wait for megabytes that are read.
                    await trio.to_thread.run_sync(lambda: connection.execute(statement).fetchall())
                    largest = max(largest, data.with_name(data.name + "-wal").stat().st_size)
                    await trio.sleep(0.01)
            finally:
                connection.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_on)
            for session_id in ids:
                await client.request("prompt", session_id=session_id, text="/text 400000 4000", client_request_id="r")
            for view in views:
                # Not the Mutation that ends the Turn: a client that is slow may be told to reload in its place (W6).
                await client.until(partial(is_answered, view))
                assert len(texts(view.messages[-1])) == 400_000
                assert [part["type"] for part in view.messages[-1]["parts"]] == ["text"]
            ended.set()
        log = server.log.read_text()
        assert "busy" not in log
        assert "locked" not in log
        assert "Traceback" not in log
    assert largest < LOG_BYTES


def is_answered(view: SessionView) -> bool:
    roles = [message["role"] for message in view.messages]
    return view.status == "live" and view.turn is None and roles == ["user", "agent"]


async def test_W10_the_longest_page_of_a_list_fits_into_a_frame(server: ServerProcess) -> None:
    longest = "x" * (16 * 1024 - len('{"m":""}'))
    widest = "\x01" * 200  # six bytes of JSON for each character
    async with wire_client(server.url) as client:
        with pytest.raises(Refused) as refused:
            await client.request("session.create", metadata={"m": longest + "x"})
        assert (refused.value.code, refused.value.frame["field"]) == ("invalid_argument", "metadata")
        for number in range(200):
            session_id = f"{number:0128}"
            await client.request(
                "session.create",
                session_id=session_id,
                title=widest,
                config={"model": widest},
                metadata={"m": longest},
            )
            await client.request("prompt", session_id=session_id, client_request_id="r", text=widest)
        page = await client.request("session.list", limit=200)
        assert len(page["items"]) == 200
