"""From token to connection and back: how one comes in, how long one stays, and what is never written down (X2, X3)."""

import gc
import logging
from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed

from gateway_world import KEY, gateway_world, no_traceback, token_for
from gateway_world import token_authenticator as authenticator
from turnwire.gateway import GatewaySettings, Principal
from turnwire.gateway.tokens import CLOCK_SKEW_SECONDS
from turnwire_protocol.codec import FORMATS, Format
from turnwire_protocol.codes import RequestError


@pytest.mark.parametrize(
    "token", [None, "", "nonsense", "a.b.c", token_for("ada", key=b"another secret, long enough as well"), "x" * 16_384]
)
@pytest.mark.parametrize("format", FORMATS)
async def test_R6_who_has_no_good_token_is_told_so_and_closed_with_4401(
    token: str | None, format: Format, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with (
            gateway_world(authenticator=authenticator()) as world,
            world.client(format, hello=False) as client,
        ):
            error = await client.request("hello", **({} if token is None else {"token": token}))
            assert (error["code"], error["retryable"]) == ("unauthenticated", False)
            assert await client.wait_closed() == 4401
            assert trio.current_time() < 1
            await trio.sleep(30)
            assert world.gateway.connection_count == 0


async def test_W3_a_token_longer_than_hello_takes_is_a_bad_argument(autojump_clock: MockClock) -> None:
    async with gateway_world(authenticator=authenticator()) as world, world.client(hello=False) as client:
        error = await client.request("hello", token="x" * 16_385)
        assert (error["code"], error["field"]) == ("invalid_argument", "token")
        assert await client.wait_closed() == 4400


async def test_X2_the_token_may_come_in_the_header_and_the_one_in_hello_goes_before_it(
    autojump_clock: MockClock,
) -> None:
    async with gateway_world(authenticator=authenticator()) as world:
        headers = {"Authorization": f"bearer  {token_for('ada')}"}
        async with world.client(hello=False, additional_headers=headers) as client:
            assert (await client.request("hello"))["principal"] == {"id": "ada"}
        async with world.client(hello=False, additional_headers=headers) as client:
            assert (await client.request("hello", token=token_for("bob")))["principal"] == {"id": "bob"}
        async with world.client(hello=False, additional_headers={"Authorization": "Basic YTpi"}) as client:
            assert (await client.request("hello"))["code"] == "unauthenticated"


async def test_X2_the_header_with_the_token_is_not_kept(autojump_clock: MockClock) -> None:
    header = f"Bearer {token_for('forgotten')}"
    async with (
        gateway_world(authenticator=authenticator()) as world,
        world.client(hello=False, additional_headers={"Authorization": header}) as client,
    ):
        assert (await client.request("hello"))["op"] == "welcome"
        assert client.socket.request is not None
        kept = [each for each in gc.get_objects() if type(each) is Headers and header in each.get_all("Authorization")]
        assert kept == [client.socket.request.headers], "only the client's own"


async def test_X3_the_connection_ends_with_its_token(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world(authenticator=authenticator()) as world, world.client(hello=False) as client:
            await client.request("hello", token=token_for("ada", lifetime_s=100))
            session = world.sessions.add("s", owner="ada")
            await client.result("subscribe", session_id="s")
            await trio.sleep(100 + CLOCK_SKEW_SECONDS - 0.5)
            assert await client.result("ping") == {}
            assert await client.wait_closed() == 4401
            assert trio.current_time() == pytest.approx(100 + CLOCK_SKEW_SECONDS, abs=0.1)
            await trio.sleep(30)
            assert not session.channel.watched


async def test_X3_requests_that_wait_when_the_token_expires_are_not_begun(autojump_clock: MockClock) -> None:
    async with gateway_world(authenticator=authenticator()) as world, world.client(hello=False) as client:
        await client.request("hello", token=token_for("ada", lifetime_s=10))
        session = world.sessions.add("s", owner="ada")
        world.sessions.hold = trio.Event()
        for number in range(3):
            await client.ask("prompt", session_id="s", text="late", client_request_id=f"r{number}")
        assert await client.wait_closed() == 4401
        world.sessions.hold.set()
        await trio.sleep(60)
        assert len(session.items) <= 1, "what was begun may end (T4)"


async def test_X3_the_wall_clock_counts_also_when_the_machine_has_slept(autojump_clock: MockClock) -> None:
    """A clock that does not run while the machine sleeps is not what a token's `exp` is about."""
    ahead = [0.0]
    async with (
        gateway_world(authenticator=authenticator(), ahead=ahead) as world,
        world.client(hello=False) as client,
    ):
        await client.request("hello", token=token_for("ada", lifetime_s=3600))
        ahead[0] = 7200.0
        assert await client.wait_closed() == 4401
        assert trio.current_time() < 16, "at the next tick"


async def test_X3_a_token_is_renewed_in_place(autojump_clock: MockClock) -> None:
    async with gateway_world(authenticator=authenticator()) as world, world.client(hello=False) as client:
        await client.request("hello", token=token_for("ada", lifetime_s=60))
        world.sessions.add("s", owner="ada")
        await client.result("subscribe", session_id="s")
        await trio.sleep(50)
        renewed = await client.request("hello", token=token_for("ada", lifetime_s=60, now=50))
        assert (renewed["op"], renewed["principal"]) == ("welcome", {"id": "ada"})
        await trio.sleep(50)
        world.sessions.say("s", "still here")
        await client.op("mutation")
        assert await client.wait_closed() == 4401
        assert trio.current_time() == pytest.approx(110 + CLOCK_SKEW_SECONDS, abs=1)


@pytest.mark.parametrize(
    ("sub", "key", "code"),
    [
        ("bob", KEY, "forbidden"),
        ("ada", b"another secret, long enough as well", "unauthenticated"),
    ],
)
async def test_X3_a_renewal_that_is_refused_changes_nothing(
    sub: str, key: bytes, code: str, autojump_clock: MockClock
) -> None:
    async with gateway_world(authenticator=authenticator()) as world, world.client(hello=False) as client:
        await client.request("hello", token=token_for("ada", lifetime_s=60))
        world.sessions.add("s", owner="ada")
        refused = await client.request("hello", token=token_for(sub, lifetime_s=9999, key=key))
        assert refused["code"] == code
        assert (await client.request("session.get", session_id="s"))["op"] == "result"
        assert await client.wait_closed() == 4401
        assert trio.current_time() == pytest.approx(60 + CLOCK_SKEW_SECONDS, abs=0.1)


async def test_X3_a_renewed_token_that_grants_less_ends_what_it_does_not_grant(autojump_clock: MockClock) -> None:
    async with gateway_world(authenticator=authenticator()) as world, world.client(hello=False) as client:
        await client.request("hello", token=token_for("ada", grants={"s": "viewer", "t": "viewer"}))
        for name in ("s", "t"):
            world.sessions.add(name, owner="bob")
            await client.result("subscribe", session_id=name)
        await client.request("hello", token=token_for("ada", grants={"t": "viewer"}))
        assert (await client.op("unsubscribed"))["session_id"] == "s"
        assert (await client.request("session.get", session_id="s"))["code"] == "not_found"
        assert (await client.request("session.get", session_id="t"))["op"] == "result"


class Directory:
    """An Authenticator of an embedding program, which has to ask somebody."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.seconds = 1.0

    async def authenticate(self, token: str | None) -> Principal:
        await trio.sleep(self.seconds)
        if self.fault is not None:
            raise self.fault
        return Principal(id=token or "nobody", roles=frozenset({"user"}))


async def test_X3_an_authenticator_of_ones_own_may_take_its_time_within_that_of_hello(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    directory = Directory()
    async with gateway_world(authenticator=directory) as world:
        async with world.client(hello=False) as client:
            assert (await client.request("hello", token="ada"))["principal"] == {"id": "ada"}
            await trio.sleep(10_000)
            assert await client.result("ping") == {}, "it said nothing of an end"
        directory.seconds = 11
        async with world.client(hello=False) as client:
            await client.ask("hello", token="ada")
            assert await client.wait_closed() == 4408
        directory.seconds = 0
        for fault, code, close in (
            (RequestError("unavailable", "the directory is down"), "unavailable", 1013),
            (RequestError("forbidden", "ada was banned"), "forbidden", 4403),
            (ZeroDivisionError("a bug"), "internal", 1011),
        ):
            directory.fault = fault
            async with world.client(hello=False) as client:
                assert (await client.request("hello", token="ada"))["code"] == code
                assert await client.wait_closed() == close
    assert [record.message for record in caplog.records if record.exc_info] == ["hello failed"]


async def test_X3_a_client_that_goes_while_it_renews_takes_its_place_with_it(autojump_clock: MockClock) -> None:
    directory = Directory()
    settings = GatewaySettings(max_connections_per_principal=1)
    async with gateway_world(settings, authenticator=directory) as world:
        async with world.client(hello=False) as client:
            await client.request("hello", token="ada")
            await client.ask("hello", token="ada")
        await trio.sleep(5)
        async with world.client(hello=False) as client:
            assert (await client.request("hello", token="ada"))["op"] == "welcome"


async def flow(secret_tokens: list[str], **options: Any) -> None:
    """Everything that a token can go through: header and hello, good and bad, renewed, expired, misplaced."""
    async with gateway_world(authenticator=authenticator(), **options) as world:
        good, other, bad = secret_tokens
        headers = {"Authorization": f"Bearer {good}"}
        for first in (
            {"op": "hello", "id": 1},
            {"op": "hello", "id": 1, "token": bad},
            {"op": "hello", "id": 1, "token": [bad]},
            {"op": "hello", "id": 1, "token": bad * 100},
            {"op": "hello", "id": 1, "token": bad, bad: bad},
            {"op": bad, "id": 1},
            {"op": "hello", "id": 1, "protocol": bad},
        ):
            async with world.client(hello=False, additional_headers=headers) as client:
                with suppress(ConnectionClosed):
                    await client.send(first)
                    await client.find(lambda frame: frame["op"] in ("welcome", "error"))
                    await client.request("hello", token=other)
                    await client.request("hello", token=bad)
        for path in (f"/ws?token={good}", f"/?access_token={good}", f"/ws?TOKEN={good}", f"/{good}"):
            stream = await world.stream()
            await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{bad}\r\n\r\n".encode())
            await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {bad}\r\n\r\n".encode())
            with trio.move_on_after(60):
                while await stream.receive_some():
                    pass
            await stream.aclose()
        async with world.client(hello=False) as client:
            await client.socket.send('{"op":"hello","id":1,"token":"' + bad)
            await client.wait_closed()
        async with world.client(hello=False) as client:
            await client.request("hello", token=other)
            assert await client.wait_closed() == 4401


async def test_X2_no_token_is_ever_logged(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    """Not even when everything is logged that any library of the server would log."""
    tokens = [
        token_for("ada"),
        token_for("ada", lifetime_s=50),
        token_for("eve", key=b"some other secret of 32 bytes!!!"),
    ]
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("websockets.client").setLevel(logging.WARNING)  # the other side writes what it sends
        try:
            await flow(tokens)
        finally:
            logging.getLogger("websockets.client").setLevel(logging.NOTSET)
    assert len(caplog.records) > 10
    formatter = logging.Formatter("%(message)s")
    for record in caplog.records:
        text = formatter.format(record) + repr(record.args)
        for token in tokens:
            assert not any(piece in text for piece in token.split(".")), text


@pytest.mark.parametrize(
    "path",
    [
        "/ws?token=x",
        "/ws?a=1&access_token=x",
        "/ws?%74oken=x",
        "/?token",
        "/x?ToKeN=x",
        "/healthz?token=x",
        "/ws?%20token+=x",
    ],
)
async def test_X2_a_token_in_the_query_is_refused_with_the_reason(path: str, autojump_clock: MockClock) -> None:
    async with gateway_world() as world:
        stream = await world.stream()
        await stream.send_all(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        reply = b""
        while chunk := await stream.receive_some():
            reply += chunk
        assert reply.startswith(b"HTTP/1.1 400 ")
        assert b"must not stand in a URL" in reply
        assert b"x" not in reply.partition(b"?")[2]
