"""Plain HTTP on the same port, byte for byte: files, health, and what is not there (X1, X7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from gateway_world import World, gateway_world, no_traceback
from turnwire.gateway import GatewaySettings, document, read_page


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


async def send(world: World, request: bytes) -> Reply | None:
    """The reply to these bytes; None when the server hung up without one."""
    stream = await world.stream()
    await stream.send_all(request)
    data = b""
    with trio.move_on_after(30):
        while chunk := await stream.receive_some():
            data += chunk
    await stream.aclose()
    if not data:
        return None
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    fields = (line.split(": ", 1) for line in lines)
    return Reply(int(status.split()[1]), {name.lower(): value for name, value in fields}, body)


async def get(world: World, path: str, method: str = "GET", host: str = "localhost", extra: str = "") -> Reply:
    reply = await send(world, f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{extra}\r\n".encode())
    assert reply is not None
    return reply


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A built page, with a file beside it that nobody must see."""
    directory = tmp_path / "page"
    (directory / "assets").mkdir(parents=True)
    (directory / "index.html").write_text("<!doctype html>")
    (directory / "assets" / "app.js").write_text("1" * 300_000)
    (directory / ".hidden").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    return directory


async def test_the_page_and_its_files_are_served_with_their_types(page: Path, autojump_clock: MockClock) -> None:
    async with gateway_world(documents=read_page(page)) as world:
        for path in ("/", "/index.html", "/?session=s"):
            index = await get(world, path)
            assert (index.status, index.body) == (200, b"<!doctype html>")
            assert index.headers["content-type"] == "text/html; charset=utf-8"
        script = await get(world, "/assets/app.js")
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert script.body == b"1" * 300_000
        assert script.headers["cache-control"] == "no-cache"
        assert script.headers["x-content-type-options"] == "nosniff"
        assert script.headers["referrer-policy"] == "no-referrer"
        policy = dict(part.strip().split(" ", 1) for part in script.headers["content-security-policy"].split(";"))
        assert policy.pop("img-src") == "'self' data:"
        own = {policy.pop(f"{kind}-src") for kind in ("script", "style", "connect", "font")}
        assert own == {"'self'"}, "nothing comes from another host, and nothing goes to one"
        assert set(policy) == {"default-src", "base-uri", "form-action", "frame-ancestors"}
        assert set(policy.values()) == {"'none'"}


async def test_a_file_that_the_browser_has_is_not_sent_again(page: Path, autojump_clock: MockClock) -> None:
    async with gateway_world(documents=read_page(page)) as world:
        etag = (await get(world, "/")).headers["etag"]
        again = await get(world, "/", extra=f'If-None-Match: "other", W/{etag}\r\n')
        assert (again.status, again.body) == (304, b"")
        changed = await get(world, "/", extra='If-None-Match: "other"\r\n')
        assert changed.status == 200


async def test_without_a_built_page_the_root_says_how_to_build_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with gateway_world(documents=read_page(tmp_path / "nothing")) as world:
        reply = await get(world, "/")
        assert reply.status == 503
        assert b"make run" in reply.body


@pytest.mark.parametrize(
    "path",
    [
        "/static/../../etc/passwd",
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/assets/%2e%2e%2f%2e%2e%2fsecret.txt",
        "//etc/passwd",
        "/.hidden",
        "/assets",
        "/assets/",
        "/index.html/",
        "/INDEX.HTML",
        "http://localhost/index.html",
        "*",
        "/ws/",
        "/ws%3f",
    ],
)
async def test_X7_what_is_not_in_the_table_does_not_exist(path: str, page: Path, autojump_clock: MockClock) -> None:
    async with gateway_world(documents=read_page(page)) as world:
        reply = await get(world, path)
        assert reply.status == 404
        assert b"secret" not in reply.body
        assert "content-security-policy" in reply.headers


async def test_W8_health_and_readiness_tell_apart_alive_and_able(autojump_clock: MockClock) -> None:
    async with gateway_world() as world:
        ready = await get(world, "/readyz")
        assert (ready.status, msgspec.json.decode(ready.body)) == (200, {"ready": True})
        world.problem = "the disk is full"
        ready = await get(world, "/readyz")
        assert (ready.status, msgspec.json.decode(ready.body)) == (503, {"ready": False, "reason": "the disk is full"})
        world.problem = None
        world.gateway.announce()
        ready = await get(world, "/readyz")
        assert (ready.status, msgspec.json.decode(ready.body)) == (503, {"ready": False, "reason": "draining"})
        alive = await get(world, "/healthz", host="10.0.0.7:8787")
        assert (alive.status, msgspec.json.decode(alive.body)) == (200, {"alive": True})


async def test_the_schema_is_a_document_like_any_other(autojump_clock: MockClock) -> None:
    async with gateway_world(documents={"/schema.json": document(b"{}", "application/json")}) as world:
        schema = await get(world, "/schema.json")
        assert (schema.status, schema.body, schema.headers["content-type"]) == (200, b"{}", "application/json")


async def test_HEAD_is_GET_without_the_body(page: Path, autojump_clock: MockClock) -> None:
    async with gateway_world(documents=read_page(page)) as world:
        reply = await get(world, "/assets/app.js", method="HEAD")
        assert (reply.status, reply.headers["content-length"], reply.body) == (200, "300000", b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
@pytest.mark.parametrize("path", ["/", "/ws"])
async def test_W9_other_methods_are_refused(
    method: str, path: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world:
            reply = await get(world, path, method=method)
            assert reply.status == 405
            assert "GET" in reply.headers["allow"]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: \x00\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n" * 4,
    ],
)
async def test_W9_what_is_no_request_gets_a_clean_400(
    request_bytes: bytes, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world:
            reply = await send(world, request_bytes)
            assert reply is not None
            assert reply.status == 400
            assert len(reply.body) == int(reply.headers["content-length"])


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 500 + b"\r\n", 431),
        (b"GET /ws HTTP/1.1\r\nHost: localhost\r\n\r\n", 426),
        (b"GET /ws HTTP/1.0\r\nHost: localhost\r\n\r\n", 505),
    ],
)
async def test_W9_other_faults_get_their_own_status(
    request_bytes: bytes, status: int, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world:
            reply = await send(world, request_bytes)
            assert reply is not None
            assert reply.status == status


@pytest.mark.parametrize("path", ["/", "/ws", "/nothing"])
@pytest.mark.parametrize(
    ("host", "extra"),
    [
        ("evil.example", ""),
        ("localhost", "Origin: https://evil.example\r\n"),
        ("localhost", "Origin: null\r\n"),
    ],
)
async def test_X1_strange_hosts_and_origins_get_403(
    path: str, host: str, extra: str, autojump_clock: MockClock
) -> None:
    async with gateway_world() as world:
        upgrade = (
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        )
        assert (await get(world, path, host=host, extra=upgrade + extra)).status == 403


@pytest.mark.parametrize("header", ["Host: localhost", "Origin: http://localhost", "Authorization: Bearer x"])
@pytest.mark.parametrize("path", ["/", "/ws"])
async def test_X1_what_decides_who_comes_in_may_not_be_said_twice(
    path: str, header: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A proxy in front might have looked at the other one."""
    upgrade = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    )
    times = 1 if header.startswith("Host") else 2  # `get` says one, too
    with no_traceback(caplog):
        async with gateway_world() as world:
            reply = await get(world, path, extra=upgrade + f"{header}\r\n" * times)
            assert (reply.status, b"once only" in reply.body) == (400, True)


async def test_X1_a_page_of_our_own_may_connect(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client(origin="http://localhost") as client:
        assert await client.result("ping") == {}


async def test_W9_a_request_that_never_ends_is_cut_off(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world:
            stream = await world.stream()
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: local")
            assert await stream.receive_some() == b""
            assert trio.current_time() <= 21


async def test_W3_an_opening_larger_than_what_may_come_before_hello_is_not_answered(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    opening = (
        "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nX: {}\r\n\r\n"
    )
    with no_traceback(caplog):
        async with gateway_world(GatewaySettings(hello_bytes=1000)) as world:
            room = 1000 - len(opening.format(""))
            reply = await send(world, opening.format("x" * room).encode())
            assert reply is not None
            assert reply.status == 101
            assert await send(world, opening.format("x" * (room + 1)).encode()) is None
