"""A real server with a key: who comes in, who sees what, and what its log says of it (X1, X2, X3)."""

import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from websockets.exceptions import InvalidStatus

from harness import PATIENCE_SECONDS, Refused, server_process, wire_client
from turnwire.gateway.tokens import CLOCK_SKEW_SECONDS, create_token, read_key
from turnwire.settings import SettingError, settings_from

SECRET = "a secret that nobody can guess, really"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "turnwire.key"
    path.write_text(SECRET)
    return path


def token(key: Path, subject: str, *, age_s: float = 0, **claims: Any) -> str:
    """Made `age_s` seconds ago, and then good for an hour unless `lifetime_s` is given."""
    return create_token(read_key(key), subject=subject, now=time.time() - age_s, **{"lifetime_s": 3_600, **claims})


async def test_X3_a_server_with_an_audience_takes_the_tokens_that_are_made_for_it(key: Path, tmp_path: Path) -> None:
    flags = ("--key-file", str(key), "--audience", "chat")
    async with server_process(tmp_path / "t.db", *flags) as server:
        async with wire_client(server.url, hello=False) as client:
            assert (await client.request("hello", token=token(key, "ada", audience="chat")))["principal"]
        for audience in (None, "other"):
            async with wire_client(server.url, hello=False) as client:
                with pytest.raises(Refused, match="unauthenticated"):
                    await client.request("hello", token=token(key, "ada", audience=audience))


async def test_X3_clients_of_a_server_with_a_key_see_their_own_sessions(key: Path, tmp_path: Path) -> None:
    ada, bob = token(key, "ada"), token(key, "bob")
    async with server_process(tmp_path / "t.db", "--key-file", str(key), "--log-level", "debug") as server:
        async with (
            wire_client(server.url, hello=False) as one,
            wire_client(server.url, hello=False, additional_headers={"Authorization": f"Bearer {bob}"}) as two,
            wire_client(server.url, hello=False) as nobody,
        ):
            assert (await one.request("hello", token=ada))["principal"] == {"id": "ada"}
            assert (await two.request("hello"))["principal"] == {"id": "bob"}
            session_id = (await one.request("session.create", title="Mine"))["session"]["session_id"]
            view = await one.subscribe(session_id)
            await one.request("prompt", session_id=session_id, text="/echo Hello", client_request_id="r1")
            await one.until(lambda: view.turn is None and len(view.messages) == 2)
            assert (await two.request("session.list"))["items"] == []
            for op in ("session.get", "subscribe", "messages", "session.delete"):
                with pytest.raises(Refused, match="not_found"):
                    await two.request(op, session_id=session_id)
            with pytest.raises(Refused, match="unauthenticated"):
                await nobody.request("hello")
            await nobody.until(lambda: nobody.closed is not None)
            assert nobody.closed == (4401, "unauthenticated")
        with pytest.raises(InvalidStatus) as refused:
            async with wire_client(f"{server.url}?token={ada}"):
                pass
        assert refused.value.response.status_code == 400
        guest = token(key, "guest", roles=["guest"], grants={session_id: "viewer"})
        async with wire_client(server.url, hello=False) as client:
            await client.request("hello", token=guest)
            assert [item["session_id"] for item in (await client.request("session.list"))["items"]] == [session_id]
            assert len((await client.subscribe(session_id)).messages) == 2
            with pytest.raises(Refused, match="forbidden"):
                await client.request("prompt", session_id=session_id, text="hi", client_request_id="r2")
        await server.terminate()
        log = server.log.read_text()
        assert "stopping" in log
        for each in (ada, bob, guest):
            assert not any(piece in log for piece in each.split(".")[1:]), "a token in the log"


async def test_X3_the_owner_of_a_session_is_its_owner_after_a_restart(key: Path, tmp_path: Path) -> None:
    async with server_process(tmp_path / "t.db", "--key-file", str(key)) as server:
        async with wire_client(server.url, hello=False) as client:
            await client.request("hello", token=token(key, "ada"))
            await client.request("session.create", session_id="s")
        await server.kill()
    async with server_process(tmp_path / "t.db", environment={"TURNWIRE_KEY_FILE": str(key)}) as server:
        for sub, seen in (("ada", ["s"]), ("bob", [])):
            async with wire_client(server.url, hello=False) as client:
                await client.request("hello", token=token(key, sub))
                assert [item["session_id"] for item in (await client.request("session.list"))["items"]] == seen


async def test_X3_a_connection_is_closed_when_its_token_expires(key: Path, tmp_path: Path) -> None:
    async with (
        server_process(tmp_path / "t.db", "--key-file", str(key)) as server,
        wire_client(server.url, hello=False) as client,
    ):
        # It is past its time already, by almost as much as clocks may differ.
        old = token(key, "ada", age_s=CLOCK_SKEW_SECONDS, lifetime_s=LEFT_SECONDS)
        await client.request("hello", token=old)
        await client.until(lambda: client.closed is not None)
        assert client.closed == (4401, "the token has expired")


LEFT_SECONDS = 3
"""A token that is good for no longer can still be used at once."""


def own_address() -> str | None:
    """An address of this machine that is none of loopback, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
            address: str = probe.getsockname()[0]
        except OSError:
            return None
    return None if address.startswith("127.") else address


async def test_X1_with_a_key_others_may_ask_under_the_names_that_are_allowed(key: Path, tmp_path: Path) -> None:
    flags = ("--host", "0.0.0.0", "--key-file", str(key), "--allowed-hosts", "chat.example")
    async with server_process(tmp_path / "t.db", *flags) as server:
        address = own_address() or "127.0.0.1"
        for name, allowed in (("127.0.0.1", True), ("chat.example", True), ("evil.example", False)):
            stream = await trio.open_tcp_stream(address, server.port)
            async with AsyncExitStack() as stack:
                opening = wire_client(f"ws://{name}:{server.port}/ws", hello=False, stream=stream)
                if allowed:
                    client = await stack.enter_async_context(opening)
                    assert (await client.request("hello", token=token(key, "ada")))["principal"] == {"id": "ada"}
                else:
                    with pytest.raises(InvalidStatus) as refused:
                        await stack.enter_async_context(opening)
                    assert refused.value.response.status_code == 403


def test_X1_an_address_that_others_can_reach_needs_a_key(tmp_path: Path) -> None:
    fault = "--host: {} can be reached from other machines, so --key-file is needed"
    flags = ("--host", "0.0.0.0", "--port", "0", "--data", str(tmp_path / "t"))
    command = [sys.executable, "-m", "turnwire", "serve", *flags]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (answer.returncode, answer.stderr) == (2, f"turnwire serve: {fault.format('0.0.0.0')}\n")
    assert not (tmp_path / "t").exists()
    for host in ("::", "192.0.2.1", "chat.example"):
        with pytest.raises(SettingError) as refused:
            settings_from({"host": host, "port": "0", "data": str(tmp_path / "t")}, {})
        assert str(refused.value) == fault.format(host)
