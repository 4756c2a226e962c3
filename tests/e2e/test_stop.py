"""Every way in which a server process ends: orderly, told twice, by force, and what clients and the store see (W8)."""

import os
import signal
import sys
from pathlib import Path

import httpx2
import pytest
import trio
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.trio.client import connect

from faults import faulty_process, readiness
from harness import FROM_NOTHING, PATIENCE_SECONDS, Refused, ServerProcess, WireClient, server_process, wire_client

LOG_SUFFIX = "-wal"
HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def client_frame(text: str) -> bytes:
    return Frame(Opcode.TEXT, text.encode()).serialize(mask=True)


async def start_turn(client: WireClient, text: str) -> str:
    """A Turn that runs when this returns; gives the Session's id."""
    session_id: str = (await client.request("session.create"))["session"]["session_id"]
    view = await client.subscribe(session_id)
    await client.request("prompt", session_id=session_id, text=text, client_request_id="r1")
    await client.until(lambda: view.turn is not None)
    return session_id


async def told_to_stop(server: ServerProcess, client: WireClient) -> None:
    server.process.send_signal(signal.SIGTERM)
    await client.until(lambda: any(frame["op"] == "draining" for frame in client.frames))


async def test_W8_while_it_drains_a_server_is_alive_but_not_ready_and_starts_no_turn(data: Path) -> None:
    async with (
        server_process(data, "--grace-seconds", "3600") as server,
        wire_client(server.url) as client,
        wire_client(server.url, hello=False) as late,
    ):
        session_id = await start_turn(client, "/silence 3600")
        await told_to_stop(server, client)
        await late.request("hello")
        await late.until(lambda: [frame["op"] for frame in late.frames] == ["welcome", "draining"])
        assert await readiness(server) == (503, "draining")
        async with httpx2.AsyncClient() as http:
            assert (await http.get(f"http://{server.address}/healthz")).status_code == 200
        with pytest.raises(Refused, match="draining"):
            await client.request("prompt", session_id=session_id, text="more", client_request_id="r2")
        with pytest.raises(InvalidStatus) as refusal:
            async with connect(server.url):
                pass
        assert refusal.value.response.status_code == 503
        assert int(refusal.value.response.headers["Retry-After"]) >= 1
        await client.send({"op": "stop", "id": 1_000, "session_id": session_id})
        await client.until(lambda: client.closed is not None)
        assert client.closed == (1012, "the server restarts")
        await late.until(lambda: late.closed is not None)
        assert late.closed == (1012, "the server restarts")
        assert [frame["result"]["stopped"] for frame in client.frames if frame.get("id") == 1_000] == [True]
        assert await server.process.wait() == 0, "the last turn has ended, so nothing is waited for"


async def test_W8_a_turn_that_ends_within_the_grace_ends_as_if_nothing_were(data: Path) -> None:
    async with server_process(data, "--grace-seconds", "3600") as server, wire_client(server.url) as client:
        session_id = await start_turn(client, "/stream 100 10")
        await told_to_stop(server, client)
        await client.until(lambda: client.closed is not None)
        assert client.views[session_id].messages[-1]["state"] == "done"
        assert [part["type"] for part in client.views[session_id].messages[-1]["parts"]] == ["text"]
        assert await server.process.wait() == 0


async def test_R5_each_client_is_told_another_time_to_come_back(server: ServerProcess) -> None:
    hints: set[int] = set()
    async with trio.open_nursery() as nursery:

        async def listen(*, task_status: trio.TaskStatus[None]) -> None:
            async with wire_client(server.url) as client:
                task_status.started()
                await client.until(lambda: client.closed is not None)
                hints.update(frame["retry_after_ms"] for frame in client.frames if frame["op"] == "draining")

        for _ in range(20):
            await nursery.start(listen)
        server.process.send_signal(signal.SIGTERM)
    assert len(hints) > 10
    assert max(hints) - min(hints) > 500


async def test_W8_the_log_of_the_database_is_empty_after_an_orderly_stop(data: Path) -> None:
    async with server_process(data) as server, wire_client(server.url) as client:
        await client.request("session.create")
        log = data.with_name(data.name + LOG_SUFFIX)
        assert log.stat().st_size > 0
        assert await server.terminate() == 0
        assert not log.exists() or log.stat().st_size == 0


async def test_W8_an_interrupt_from_the_keyboard_is_as_good(data: Path) -> None:
    async with server_process(data) as server:
        server.process.send_signal(signal.SIGINT)
        assert await server.process.wait() == 0


async def test_W8_a_second_signal_ends_at_once_and_the_exit_code_says_so(data: Path) -> None:
    async with server_process(data, "--grace-seconds", "3600") as server, wire_client(server.url) as client:
        session_id = await start_turn(client, "/silence 3600")
        await told_to_stop(server, client)
        server.process.send_signal(signal.SIGTERM)
        assert await server.process.wait() == 3
    async with server_process(data) as server, wire_client(server.url) as client:
        page = await client.request("messages", session_id=session_id)
        assert page["items"][-1]["parts"][-1]["code"] == "runtime_interrupted"


async def test_W8_a_client_that_reads_nothing_does_not_hold_up_the_end(data: Path) -> None:
    async with (
        server_process(data, "--grace-seconds", "0", "--close-seconds", "0.5") as server,
        wire_client(server.url) as author,
        await trio.open_tcp_stream("127.0.0.1", server.port) as stalled,
    ):
        session_id = (await author.request("session.create"))["session"]["session_id"]
        await stalled.send_all(HANDSHAKE)
        await stalled.send_all(client_frame('{"op":"hello","id":1}'))
        await stalled.send_all(client_frame(f'{{"op":"subscribe","id":2,"session_id":"{session_id}"}}'))
        await author.subscribe(session_id)
        for number in range(40):  # much more than the sockets between hold
            receipt = await author.request(
                "prompt", session_id=session_id, text="/text 200000 8000", client_request_id=f"r{number}"
            )
            await author.turn_finished(receipt["turn_id"])
        with trio.fail_after(PATIENCE_SECONDS):
            assert await server.terminate() == 0


async def test_W8_a_disk_that_hangs_does_not_hold_up_the_end_for_ever(data: Path) -> None:
    async with (
        faulty_process(data, "--grace-seconds", "0", "--close-seconds", "0", reserve_seconds=0.5) as (server, disk),
        wire_client(server.url) as client,
    ):
        await start_turn(client, "/silence 3600")
        disk.fail("sync hang")
        with trio.fail_after(PATIENCE_SECONDS):
            assert await server.terminate() == 3
        assert "ended by force" in server.log.read_text()


async def test_W8_a_turn_whose_end_cannot_be_stored_shows_in_the_exit_code(data: Path) -> None:
    async with (
        faulty_process(data, "--grace-seconds", "0") as (server, disk),
        wire_client(server.url) as client,
    ):
        session_id = await start_turn(client, "/silence 3600")
        disk.fail("write full")
        assert await server.terminate() == 3
        assert "Traceback" not in server.log.read_text()
    async with server_process(data) as server, wire_client(server.url) as client:
        page = await client.request("messages", session_id=session_id)
        assert page["items"][-1]["parts"][-1]["code"] == "runtime_interrupted"


@pytest.mark.parametrize("gap_ms", [1, 2, 5])
async def test_W8_however_many_signals_come_the_process_ends_by_itself(data: Path, gap_ms: int) -> None:
    """Supervisors and terminals send a signal many times over; the first two count, whenever the others come."""
    async with (
        server_process(data, "--grace-seconds", "3600", program=FROM_NOTHING) as server,
        wire_client(server.url) as client,
    ):
        await start_turn(client, "/silence 3600")
        async with trio.open_nursery() as nursery:

            async def insist() -> None:
                while server.process.poll() is None:
                    server.process.send_signal(signal.SIGTERM)
                    await trio.sleep(gap_ms / 1000)

            nursery.start_soon(insist)
            with trio.fail_after(PATIENCE_SECONDS):
                code = await server.process.wait()
        assert code == 3
        assert "Traceback" not in server.log.read_text()


SIGNALLED_AT = """
import os, signal, sys

pending = [signal.{name}]

def hook(event, arguments):
    if pending and event == "{event}" and {condition}:
        os.kill(os.getpid(), pending.pop())

sys.addaudithook(hook)
from turnwire.cli import main
main(sys.argv[1:])
"""
"""A server that gets a signal at one point of its start: at the first audit event of a kind."""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(
    ("event", "condition", "model"),
    [
        ("import", "arguments[0] == 'turnwire.models.openai'", "openai:m"),
        ("socket.__new__", "True", "scripted"),
        ("socket.bind", "True", "scripted"),
    ],
    ids=["while the model is made", "when trio begins", "before it listens"],
)
async def test_W8_a_signal_at_any_point_of_the_start_stops_the_server_in_order(
    name: str, event: str, condition: str, model: str, data: Path
) -> None:
    program = SIGNALLED_AT.format(name=name, event=event, condition=condition)
    flags = ("--port", "0", "--data", str(data), "--model", model)
    with trio.fail_after(PATIENCE_SECONDS):
        ended = await trio.run_process(
            [sys.executable, "-c", program, "serve", *flags],
            env={**os.environ, "OPENAI_API_KEY": "none"},
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert (ended.returncode, b"Traceback" in ended.stderr) == (0, False), ended.stderr.decode()
