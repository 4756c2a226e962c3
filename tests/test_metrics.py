"""Metrics: a real server is scraped while it is used, and its numbers are those of what was done."""

import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from websockets.frames import Close, Frame, Opcode

from faults import faulty_process
from harness import PATIENCE_SECONDS, Refused, server_process, wire_client
from turnwire.conformance.processes import free_port
from turnwire.flags import FLAGS
from turnwire.measures import Histogram

Numbers = dict[str, float]


def numbers_of(text: str) -> Numbers:
    """`name{label="value"}` to its value."""
    found: Numbers = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


async def scrape(url: str) -> Numbers:
    async with httpx2.AsyncClient() as client:
        response = await client.get(url)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/plain")
        return numbers_of(response.text)


def test_a_histogram_counts_each_value_once_at_its_bound() -> None:
    histogram = Histogram((1, 2, 5))
    for value in (0.5, 1, 1.5, 2, 7):
        histogram.observe(value)
    assert list(histogram.cumulated()) == [(1, 2), (2, 4), (5, 4), (float("inf"), 5)]
    assert (histogram.count, histogram.total) == (5, 12)


async def test_there_are_no_metrics_unless_they_are_asked_for(tmp_path: Path) -> None:
    async with server_process(tmp_path / "t.db") as server, httpx2.AsyncClient() as client:
        assert (await client.get(f"http://{server.address}/metrics")).status_code == 404


async def test_what_a_server_does_is_in_its_metrics(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    async with server_process(tmp_path / "t.db", "--metrics-port", str(port), "--titles", "off") as server:
        async with wire_client(server.url) as client:
            session_id = (await client.request("session.create"))["session"]["session_id"]
            view = await client.subscribe(session_id)
            before = await scrape(url)
            assert before["turnwire_connections"] == 1
            assert before["turnwire_connections_opened_total"] == 1
            assert before["turnwire_sessions_live"] == 1
            assert before["turnwire_turns_running"] == 0
            assert before["turnwire_store_ready"] == 1
            assert before['turnwire_frames_total{direction="in"}'] == 3
            assert before['turnwire_frames_total{direction="out"}'] == 4, "welcome, two results and a snapshot"

            receipt = await client.request("prompt", session_id=session_id, text="/silence 60", client_request_id="r1")
            await client.until(lambda: view.turn is not None)
            assert (await scrape(url))["turnwire_turns_running"] == 1
            await client.request("stop", session_id=session_id)
            await client.turn_finished(receipt["turn_id"])
            receipt = await client.request("prompt", session_id=session_id, text="/stream 50 1", client_request_id="r2")
            await client.turn_finished(receipt["turn_id"])
            after = await scrape(url)
            assert after["turnwire_turns_running"] == 0
            assert after['turnwire_turns_finished_total{status="stopped"}'] == 1
            assert after['turnwire_turns_finished_total{status="completed"}'] == 1
            assert after["turnwire_model_first_event_seconds_count"] == 1
            heard = len(client.frames) + len(client.mutations)
            assert after['turnwire_frames_total{direction="out"}'] == heard
            assert after['turnwire_frames_total{direction="in"}'] == 6
            for key in ('turnwire_wire_bytes_total{direction="out"}', 'turnwire_wire_bytes_total{direction="in"}'):
                assert after[key] > before[key] > 0
            assert after["turnwire_store_commit_seconds_count"] > before["turnwire_store_commit_seconds_count"]
            assert after["turnwire_store_group_size_sum"] == after["turnwire_store_commit_seconds_count"]
            assert after["turnwire_store_log_bytes"] > 0
            assert after["turnwire_outbox_bytes"] == 0
            assert after['turnwire_reloads_total{reason="lagged"}'] == 0
            assert after["turnwire_event_loop_lag_seconds_count"] > 0
            for name in ("turnwire_event_loop_lag", "turnwire_store_commit", "turnwire_model_first_event"):
                assert after[f"{name}_seconds_sum"] > 0
            assert after["process_resident_memory_bytes"] > 0
        with trio.fail_after(PATIENCE_SECONDS):
            while (ended := await scrape(url))["turnwire_connections"]:  # noqa: ASYNC110 - another process
                await trio.sleep(0.02)
        assert ended['turnwire_connections_closed_total{code="1000"}'] == 1
        assert ended['turnwire_frames_total{direction="out"}'] >= heard, "what a connection counted outlives it"
        assert await server.terminate() == 0


CLOSED = "turnwire_connections_closed_total"
OPENING = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def client_frame(opcode: Opcode, data: bytes) -> bytes:
    return Frame(opcode, data).serialize(mask=True)


async def test_W6_what_waits_for_slow_clients_and_how_often_they_have_to_reload_is_in_the_metrics(
    tmp_path: Path,
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    # However slow this machine is, the stall must not end the connection.
    flags = ("--metrics-port", str(port), "--titles", "off", "--write-timeout-seconds", "3600")
    async with (
        server_process(tmp_path / "t.db", *flags) as server,
        wire_client(server.url) as author,
        await trio.open_tcp_stream("127.0.0.1", server.port) as stalled,
    ):
        session_id = (await author.request("session.create"))["session"]["session_id"]
        await author.subscribe(session_id)
        said = (b'{"op":"hello","id":1}', f'{{"op":"subscribe","id":2,"session_id":"{session_id}"}}'.encode())
        await stalled.send_all(OPENING + b"".join(client_frame(Opcode.TEXT, each) for each in said))
        for number in range(100):  # much more than the sockets between hold
            receipt = await author.request(
                "prompt", session_id=session_id, text="/text 200000 8000", client_request_id=f"r{number}"
            )
            await author.turn_finished(receipt["turn_id"])
            numbers = await scrape(url)
            if numbers['turnwire_reloads_total{reason="lagged"}']:
                break
        assert numbers['turnwire_reloads_total{reason="lagged"}'] == 1
        assert numbers['turnwire_reloads_total{reason="restarted"}'] == 0
        assert numbers["turnwire_outbox_bytes"] > 0


@pytest.mark.parametrize(
    ("opcode", "data", "code"),
    [
        (None, b"", "1006"),
        (Opcode.TEXT, b"no frame", "4400"),
        (Opcode.TEXT, b'{"op":"ping","id":1}', "4401"),
        (Opcode.CLOSE, Close(1001, "").serialize(), "1001"),
        (Opcode.CLOSE, Close(3000, "").serialize(), "other"),
        (Opcode.CLOSE, Close(4999, "").serialize(), "other"),
    ],
)
async def test_W8_connections_are_counted_by_the_code_that_they_ended_with(
    opcode: Opcode | None, data: bytes, code: str, tmp_path: Path
) -> None:
    """Codes that clients made up are one: whoever reaches the server could make thousands of time series else."""
    port = free_port()
    async with server_process(tmp_path / "t.db", "--metrics-port", str(port)) as server:
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
            await stream.send_all(OPENING)
            if opcode is not Opcode.TEXT:  # whoever goes before the gateway has seen it was no WebSocket yet
                await stream.send_all(client_frame(Opcode.TEXT, b'{"op":"hello","id":1}'))
                answer = b""
                while b'"op":"welcome"' not in answer:
                    answer += await stream.receive_some()
            if opcode is not None:
                await stream.send_all(client_frame(opcode, data))
                async for _ in stream:
                    pass
        ended: Numbers = {}
        with trio.fail_after(PATIENCE_SECONDS):
            while not ended:
                numbers = await scrape(f"http://127.0.0.1:{port}/metrics")
                ended = {name: number for name, number in numbers.items() if name.startswith(CLOSED)}
                await trio.sleep(0.02)
        assert ended == {f'{CLOSED}{{code="{code}"}}': 1}
        assert numbers["turnwire_connections"] == 0


async def test_T5_failures_of_the_model_and_of_the_store_are_counted(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    async with (
        faulty_process(tmp_path / "t.db", "--metrics-port", str(port), "--titles", "off") as (server, disk),
        wire_client(server.url) as client,
    ):
        session_id = (await client.request("session.create"))["session"]["session_id"]
        await client.subscribe(session_id)
        receipt = await client.request(
            "prompt", session_id=session_id, text="/fail invalid_request", client_request_id="r1"
        )
        await client.turn_finished(receipt["turn_id"])
        warnings = [item["code"] for item in client.mutations if item["variant"] == "warning"]
        assert warnings
        for code in set(warnings):
            assert (await scrape(url))[f'turnwire_model_warnings_total{{code="{code}"}}'] == warnings.count(code)
        disk.fail("write full")
        with pytest.raises(Refused, match="unavailable"):
            await client.request("session.create")
        assert (await scrape(url))["turnwire_store_ready"] == 0


async def test_X1_metrics_are_shown_under_names_of_this_machine_only_and_nothing_else_is(tmp_path: Path) -> None:
    port = free_port()
    async with (
        server_process(tmp_path / "t.db", "--metrics-port", str(port)),
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        assert (await client.get("/metrics", headers={"Host": "evil.example"})).status_code == 403
        assert (await client.get("/metrics", headers={"Origin": "https://evil.example"})).status_code == 403
        assert (await client.get("/")).status_code == 404
        assert (await client.get("/metrics?x=1")).status_code == 200


async def test_X1_on_an_address_that_others_reach_metrics_are_shown_under_any_name(tmp_path: Path) -> None:
    port = free_port()
    flags = ("--metrics-port", str(port), "--metrics-host", "0.0.0.0")
    async with server_process(tmp_path / "t.db", *flags), httpx2.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{port}/metrics", headers={"Host": "metrics.example"})
        assert answer.status_code == 200


async def test_X1_what_is_no_plain_reading_of_metrics_is_refused_and_is_no_fault_in_the_log(tmp_path: Path) -> None:
    port = free_port()
    async with server_process(tmp_path / "t.db", "--metrics-port", str(port)) as server:
        for twice in (b"Host: localhost\r\n", b"Origin: http://localhost\r\n", b"Authorization: Bearer x\r\n"):
            answer = await exchange(port, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + 2 * twice + b"\r\n")
            assert answer.startswith(b"HTTP/1.1 400 ")
        answer = await exchange(port, b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 405 ")
        answer = await exchange(port, b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"\r\n\r\n")
    assert "Traceback" not in server.log.read_text()


async def exchange(port: int, request: bytes) -> bytes:
    """Everything that is said to these bytes."""
    said = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request)
        async for data in stream:
            said += data
    return said


def test_a_metrics_port_in_use_is_a_sentence_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        command = [sys.executable, "-m", "turnwire", "serve", "--port", "0", "--data", str(tmp_path / "u.db")]
        taken = str(other.getsockname()[1])
        answer = subprocess.run(
            [*command, "--metrics-port", taken], capture_output=True, text=True, timeout=60, check=False
        )
        assert answer.returncode == 1
        assert "in use" in answer.stderr
        assert "Traceback" not in answer.stderr


def test_metrics_are_off_and_on_loopback_by_default() -> None:
    defaults = {flag.name: flag.default for flag in FLAGS}
    assert (defaults["metrics-port"], defaults["metrics-host"]) == (None, "127.0.0.1")
