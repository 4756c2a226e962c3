"""The log: lines that machines can read, with named fields, and nothing in them that users, models or tokens say."""

import io
import json
import logging
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.trio.client import connect

from harness import Refused, WireClient, server_process, wire_client
from turnwire import Turnwire, tool
from turnwire.gateway.tokens import create_token, read_key
from turnwire.logs import described, formatter
from turnwire.models.base import ModelEvent, ModelRequest
from turnwire.store.base import StoreUnavailable

MARK = "Pomegranate"
"""Stands in everything that a user or a model writes here, and in every token."""

COMMANDS = (
    f"/echo {MARK}",
    f"Tell me about {MARK}",
    f"/stream 20 1 {MARK}",
    f'/tool calculator {{"expression": "{MARK}"}}',
    f'/tool nothing_like_it {{"{MARK}": 1}}',
    "/fail invalid_request",
    f"/title {MARK}",
    f"/{MARK}",
)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """All that any logger of this process says meanwhile, as JSON lines."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter("json"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.setLevel(level)
    root.removeHandler(handler)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_line_has_its_sentence_its_fields_and_where_it_comes_from(lines: io.StringIO) -> None:
    logging.getLogger("turnwire.test").warning("the turn %(turn_id)s took %(ms)d ms", {"turn_id": "t1", "ms": 5})
    (event,) = events(lines.getvalue())
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "the turn t1 took 5 ms",
        "turn_id": "t1",
        "ms": 5,
        "level": "warning",
        "logger": "turnwire.test",
    }


def test_an_exception_shows_its_way_and_says_only_what_quotes_nobody() -> None:
    try:
        try:
            raise ValueError(MARK)
        except ValueError as error:
            raise StoreUnavailable("the disk is full") from error
    except StoreUnavailable as error:
        text = described(error)
    assert text.count("Traceback (most recent call last)") == 2
    assert "test_logs.py" in text
    assert "ValueError\n" in text
    assert text.endswith("StoreUnavailable: the disk is full")
    assert MARK not in text


def test_groups_contexts_and_circles_of_exceptions_are_described() -> None:
    inner = KeyError(MARK)
    inner.__context__ = FileNotFoundError(2, "No such file or directory", f"/{MARK}")
    inner.__context__.__context__ = inner
    text = described(ExceptionGroup(MARK, [inner, apsw.FullError("database or disk is full")]))
    assert MARK not in text
    assert "KeyError" in text
    assert "FileNotFoundError: No such file or directory" in text
    assert "apsw.FullError: database or disk is full" in text


class TellTale:
    """A provider that fails with what it was asked."""

    name = "tell-tale"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        await trio.lowlevel.checkpoint()
        if request.messages:
            raise RuntimeError(f"cannot answer {request.messages}")
        yield  # type: ignore[misc]

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@tool
def blab(text: str) -> str:
    """Fails and says with what."""
    raise ValueError(f"cannot use {text}")


async def test_faults_of_tools_providers_and_subscribers_are_logged_without_what_was_said(
    tmp_path: Path, lines: io.StringIO
) -> None:
    def stumble(mutation: object) -> None:
        raise LookupError(repr(mutation))

    for app, text in (
        (Turnwire(tmp_path / "a.db", model=TellTale(), tools=[blab]), MARK),
        (Turnwire(tmp_path / "b.db", tools=[blab]), f'/tool blab {{"text": "{MARK}"}}'),
    ):
        async with app.open() as sessions:
            created = await sessions.create(title=MARK)
            async with sessions.open(created.session_id) as session:
                session.subscribe(stumble)
                turn = await session.prompt(text)
                await turn.finished()
    said = lines.getvalue()
    told = " ".join(event["event"] for event in events(said))
    assert "the model provider tell-tale failed" in told
    assert "the tool blab failed" in told
    assert "a subscriber of session" in told
    assert "RuntimeError" in said
    assert MARK not in said


def new_token(key: Path) -> str:
    return create_token(read_key(key), subject="ada", lifetime_s=3_600, now=time.time())


async def converse(client: WireClient, token: str) -> None:
    created = await client.request(
        "session.create", title=f"{MARK} title", metadata={"about": MARK}, client_request_id=f"{MARK}-1"
    )
    session_id = created["session"]["session_id"]
    await client.subscribe(session_id)
    for number, text in enumerate(COMMANDS):
        receipt = await client.request("prompt", session_id=session_id, text=text, client_request_id=f"r{number}")
        await client.turn_finished(receipt["turn_id"])
    parts = [
        {"type": "context", "tag": "page", "context": MARK},
        {"type": "file", "url": f"https://example.org/{MARK}", "media_type": "text/plain", "filename": MARK},
        {"type": "data", "data_type": "note", "data": {"text": MARK}},
        {"type": "text", "text": "/echo parts"},
    ]
    receipt = await client.request("prompt", session_id=session_id, parts=parts, client_request_id="parts")
    await client.turn_finished(receipt["turn_id"])
    for op, fields in (
        ("prompt", {"session_id": MARK, "text": MARK, "client_request_id": "x"}),
        (MARK, {}),
        ("messages", {"session_id": session_id, "limit": MARK}),
        ("hello", {"token": token}),
        ("interaction.respond", {"session_id": session_id, "interaction_id": MARK, "revision": 1, "response": {}}),
    ):
        with pytest.raises(Refused):
            await client.request(op, **fields)


async def send_nonsense(url: str, *first: str | bytes) -> None:
    async with connect(url) as socket:
        try:
            for data in first:
                await socket.send(data)
            async for _ in socket:
                pass
        except ConnectionClosed:
            return


@pytest.mark.parametrize("format", ["json", "console"])
async def test_X2_neither_tokens_nor_what_is_said_get_into_the_log(tmp_path: Path, format: str) -> None:
    key = tmp_path / "turnwire.key"
    key.write_text(f"{MARK} is a secret of more than 32 bytes")
    token = new_token(key)
    flags = ("--key-file", str(key), "--log-level", "debug", "--log-format", format, "--grace-seconds", "0")
    async with server_process(tmp_path / "t.db", *flags) as server:
        async with wire_client(server.url, additional_headers={"Authorization": f"Bearer {token}"}) as client:
            await converse(client, f"{MARK}.{token}")
        with pytest.raises(InvalidHandshake):
            async with connect(f"{server.url}?token={token}"):
                pass
        await send_nonsense(server.url, f'{{"op":"hello","id":1,"token":"{token}x"}}')
        await send_nonsense(server.url, f'{{"op":"hello","id":1,"token":"{token}","extra":"{MARK}"}}')
        await send_nonsense(server.url, f"{MARK}{{{{")
        await send_nonsense(server.url, MARK.encode())
        with pytest.raises(InvalidHandshake):
            async with connect(server.url, subprotocols=[MARK]):  # type: ignore[list-item]
                pass
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as raw:
            await raw.send_all(f"{MARK} /{MARK} HTTP/1.1\r\nX-{MARK}: {token}\r\n\r\n".encode())
            await raw.receive_some()
        assert await server.terminate() == 0
        log = server.log.read_text()
    assert "stopping" in log, "something was logged"
    assert MARK not in log
    for piece in token.split("."):
        assert piece not in log
    assert "Traceback" not in log
    if format == "json":
        for event in events(log):
            assert {"event", "level", "logger", "timestamp"} <= event.keys()


def test_X2_libraries_are_not_heard_below_a_warning_whatever_the_level_of_the_log() -> None:
    """At DEBUG those of model services write down what they send."""
    program = (
        "import logging, sys\n"
        "from turnwire import logs\n"
        "logs.configure('debug', 'json', sys.stderr)\n"
        "for name in ('openai', 'anthropic', 'httpx2', 'websockets.server', 'turnwire.store'):\n"
        f"    logging.getLogger(name).debug('{MARK}')\n"
        f"    logging.getLogger(name).info('{MARK}')\n"
        "    logging.getLogger(name).warning('trouble')\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    heard = [(event["logger"], event["level"]) for event in events(answer.stderr)]
    own = [("turnwire.store", level) for level in ("debug", "info", "warning")]
    assert heard == [(name, "warning") for name in ("openai", "anthropic", "httpx2", "websockets.server")] + own


def test_a_fault_of_the_server_itself_is_one_line_of_the_log_and_exit_code_1(tmp_path: Path) -> None:
    program = (
        "import turnwire.cli, turnwire.app\n"
        f"turnwire.app.read_page = lambda directory: {{}}['{MARK}']\n"
        f"turnwire.cli.main(['serve', '--port', '0', '--data', {str(tmp_path / 't.db')!r}])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert answer.returncode == 1
    (event,) = events(answer.stderr)
    assert event["event"] == "the server failed"
    assert "KeyError" in event["exception"]
    assert MARK not in answer.stderr
