"""A real server with a certificate: the page, a client, the orderly stop, and wrong files on the command line."""

import signal
import ssl
from pathlib import Path
from urllib.request import urlopen

import pytest
import trio

from certificates import Certificate
from command_line import turnwire
from harness import server_process, texts, wire_client
from turnwire.settings import SettingError, settings_from


async def fetch(url: str, trust: ssl.SSLContext) -> tuple[int, bytes]:
    def get() -> tuple[int, bytes]:
        with urlopen(url, context=trust) as answer:
            return answer.status, answer.read()

    return await trio.to_thread.run_sync(get)


async def test_W8_a_server_with_a_certificate_serves_https_and_wss_and_stops_in_order(
    data: Path, tmp_path: Path
) -> None:
    certificate = Certificate(tmp_path)
    flags = ("--tls-certificate", str(certificate.certificate), "--tls-key", str(certificate.key))
    others = ("--compression", "on", "--grace-seconds", "0.2")
    trust = certificate.for_client()
    async with server_process(data, *flags, *others, scheme="https") as server:
        assert await fetch(f"https://{server.address}/readyz", trust) == (200, b'{"ready":true}')
        status, page = await fetch(f"https://{server.address}/", trust)
        assert status == 200
        assert page.startswith(b"<!doctype html>")
        origin = f"https://{server.address}"
        async with wire_client(f"wss://{server.address}/ws", ssl=trust, origin=origin) as client:
            assert [extension.name for extension in client.socket.protocol.extensions] == ["permessage-deflate"]
            session_id = (await client.request("session.create"))["session"]["session_id"]
            view = await client.subscribe(session_id)
            receipt = await client.request(
                "prompt", session_id=session_id, text="/text 200000 4000", client_request_id="r1"
            )
            await client.turn_finished(receipt["turn_id"])
            assert len(texts(view.messages[-1])) == 200_000
            await client.request("prompt", session_id=session_id, text="/silence 3600", client_request_id="r2")
            server.process.send_signal(signal.SIGTERM)
            await client.until(lambda: client.closed is not None)
            assert client.closed == (1012, "the server restarts")
        assert await server.process.wait() == 0
        assert "Traceback" not in server.log.read_text()


def test_wrong_files_end_with_exit_code_2_and_a_sentence_that_names_the_flag(data: Path, tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)

    one, key, locked = str(certificate.certificate), str(certificate.key), str(certificate.locked_key)
    ended = turnwire("serve", "--data", str(data), "--tls-certificate", one, "--tls-key", locked)
    assert ended.returncode == 2
    assert ended.stderr.startswith("turnwire serve: --tls-certificate: the key")
    assert ended.stderr.count("\n") == 1
    with pytest.raises(SettingError, match=r"^--tls-certificate: there is no private key"):
        settings_from({"tls_certificate": one}, {})
    with pytest.raises(SettingError, match=r"^--tls-key: --tls-certificate is needed as well$"):
        settings_from({"tls_key": key}, {})
    with pytest.raises(SettingError, match=r"^TURNWIRE_TLS_CERTIFICATE: there is no certificate"):
        settings_from({}, {"TURNWIRE_TLS_CERTIFICATE": key})
