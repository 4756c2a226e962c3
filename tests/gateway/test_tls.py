"""What only TLS brings: peers that do not speak it, or stop in its handshake, and files that are no certificate."""

import ssl
from pathlib import Path

import pytest
import trio

from certificates import Certificate
from gateway_world import gateway_world, no_traceback
from turnwire.gateway import Document, GatewaySettings
from turnwire.gateway.tls import tls_context

PATIENCE = 30
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path)


async def read_to_the_end(stream: trio.abc.ReceiveStream) -> bytes:
    data = b""
    try:
        while chunk := await stream.receive_some():
            data += chunk
    except trio.BrokenResourceError:
        return data  # a reset is an end as good as any
    return data


@pytest.mark.parametrize("said", [GET, b"\x16\x03\x01\x00\x05hello", b"\x00" * 100, b""], ids=["http", "tls", "0", ""])
async def test_W9_a_peer_that_does_not_speak_tls_is_ended_and_nobody_else_notices(
    said: bytes, certificate: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    settings = GatewaySettings(open_timeout_s=0.3, close_timeout_s=0.3)
    with no_traceback(caplog), trio.fail_after(PATIENCE):
        async with (
            gateway_world(settings, network=True, certificate=certificate) as world,
            world.client() as client,
            await world.stream() as stream,
        ):
            if said:
                await stream.send_all(said)
            assert b"HTTP" not in await read_to_the_end(stream)
            assert await client.result("ping") == {}
            assert world.gateway.connection_count == 1


async def test_W9_handshakes_of_tls_count_as_connections_that_are_no_websockets_yet(certificate: Certificate) -> None:
    settings = GatewaySettings(max_handshakes=2)
    with trio.fail_after(PATIENCE):
        async with (
            gateway_world(settings, network=True, certificate=certificate) as world,
            world.client() as client,
            await world.stream(),
            await world.stream(),
            await world.stream() as one_too_many,
        ):
            assert await read_to_the_end(one_too_many) == b""
            assert await client.result("ping") == {}


async def test_the_page_comes_over_tls_and_ends_in_order(certificate: Certificate) -> None:
    page = Document(b"x" * 500_000, "text/plain", '"etag"')
    with trio.fail_after(PATIENCE):
        async with gateway_world(network=True, certificate=certificate, documents={"/": page}) as world:
            inner = await world.stream()
            assert isinstance(inner, trio.SocketStream)
            stream = trio.SSLStream(inner, certificate.for_client(), server_hostname="localhost", https_compatible=True)
            async with stream:
                await stream.send_all(GET)
                answer = await read_to_the_end(stream)
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b"\r\n\r\n" + page.body)


async def test_tls_is_1_2_or_newer_and_for_http_1_1(certificate: Certificate) -> None:
    context = certificate.for_server()
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    old = certificate.for_client()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with gateway_world(network=True, certificate=certificate) as world:
        inner = await world.stream()
        assert isinstance(inner, trio.SocketStream)
        async with inner:
            with pytest.raises(trio.BrokenResourceError):
                await trio.SSLStream(inner, old, server_hostname="localhost").do_handshake()


def test_files_that_are_no_certificate_and_key_are_told_by_a_sentence(certificate: Certificate, tmp_path: Path) -> None:
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    other = Certificate(other_folder)
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no PEM")
    whole = tmp_path / "whole.pem"
    whole.write_bytes(certificate.certificate.read_bytes() + certificate.key.read_bytes())
    broken = tmp_path / "broken.pem"
    broken.write_bytes(certificate.certificate.read_bytes().replace(b"MII", b"!!!"))

    def refused(one: Path, two: Path, sentence: str) -> None:
        with pytest.raises(ValueError, match=sentence) as refusal:
            tls_context(one, two)
        assert "BEGIN" not in str(refusal.value)

    refused(garbage, certificate.key, "^there is no certificate in PEM in .*garbage.pem$")
    refused(broken, certificate.key, "^there is no certificate in PEM in .*broken.pem$")
    refused(certificate.key, certificate.key, "^there is no certificate in PEM in .*key.pem$")
    refused(certificate.certificate, garbage, "^there is no private key in PEM in .*garbage.pem$")
    refused(certificate.certificate, certificate.certificate, "^there is no private key in PEM")
    refused(certificate.certificate, certificate.locked_key, "^the key in .*locked_key.pem has a password")
    refused(certificate.certificate, other.key, "^the key in .*key.pem is not that of the certificate$")
    refused(tmp_path / "none.pem", certificate.key, "^cannot read .*none.pem: No such file")
    assert isinstance(tls_context(whole, whole), ssl.SSLContext)
