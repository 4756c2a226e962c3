"""The WebSocket layer under the gateway against the Autobahn cases: a fast subset; all of them are `make autobahn`.

Tested is what stands below our frames: the opening handshake, framing, fragments, UTF-8, pings and closes, as
websockets and `gateway.stream` do them together, with `gateway.outbox` and `gateway.wire` for what is sent. Not tested
are the gateway's own rules, which close many of these conversations at once (`tests/gateway`, `tests/conformance`).
"""

from pathlib import Path

import pytest
import trio

from autobahn_world import failed_cases
from echo_server import echo_server

OPENING = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
MASKED_CLOSE = bytes.fromhex("8882 00000000 03e8")
CLOSE = bytes.fromhex("8802 03e8")
MASKED_PING = bytes.fromhex("8980 00000000")


@pytest.mark.slow
async def test_W2_W9_the_websocket_layer_passes_the_fast_cases(tmp_path: Path) -> None:
    """Framing, pings, reserved bits, opcodes, fragments, UTF-8, closes, and one large message of each kind."""
    count, failed = await failed_cases(
        [f"{group}.*" for group in (1, 2, 3, 4, 5, 6, 7, 10)] + ["9.1.1", "9.2.1"], [], tmp_path
    )
    assert failed == {}
    assert count > 240


@pytest.mark.slow
async def test_W2_W9_with_compression_the_websocket_layer_passes_one_case_of_each_kind(tmp_path: Path) -> None:
    """Of every content and every way of agreeing, a thousand messages of one size."""
    cases = [f"12.{content}.3" for content in range(1, 6)] + [f"13.{agreement}.3" for agreement in range(1, 8)]
    count, failed = await failed_cases(cases, [], tmp_path, compression=True)
    assert (count, failed) == (12, {})


@pytest.mark.parametrize("behind", [b"", MASKED_PING], ids=["alone", "with a frame behind it"])
async def test_W8_a_close_is_always_answered(behind: bytes) -> None:
    async with echo_server() as url:
        for _ in range(50):
            stream = await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))
            await stream.send_all(OPENING)
            head = b""
            while b"\r\n\r\n" not in head:
                head += bytes(await stream.receive_some())
            await stream.send_all(MASKED_CLOSE + behind)
            answer = b""
            while chunk := await stream.receive_some():
                answer += bytes(chunk)
            assert answer == CLOSE
            await stream.aclose()
