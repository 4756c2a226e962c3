"""Any bytes that a client may send, most of them nearly requests: one typed answer each, and nothing breaks (X6).

What is a request, right or with one wrong value, is `test_fuzz_requests`.
"""

import json
from contextlib import suppress

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock
from websockets.frames import Frame, Opcode

from drawn_requests import drawn_requests
from gateway_world import Client, Map, gateway_world, no_traceback
from turnwire_protocol.codec import Format


def mutated(text: bytes, cuts: list[tuple[int, bytes]]) -> bytes:
    """The bytes with some of them replaced, at places that are taken by their rest."""
    data = bytearray(text)
    for place, piece in cuts:
        start = place % (len(data) + 1)
        data[start : start + len(piece)] = piece
    return bytes(data)


def encoded(request: Map, format: Format) -> bytes:
    return json.dumps(request).encode() if format == "json" else msgspec.msgpack.encode(request)


CUTS = st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=6)), max_size=4)


@st.composite
def messages(draw: st.DrawFn, format: Format) -> bytes:
    """Any bytes, or those of a request with some of them changed."""
    if draw(st.integers(0, 3)) == 0:
        return draw(st.binary(max_size=200))
    drawn = draw(drawn_requests())
    return mutated(encoded({"id": draw(st.integers(1, 2**52)), **drawn.request}, format), draw(CUTS))


async def say(format: Format, said: list[bytes]) -> None:
    """Each message gets one answer, or, where it is no text at all, the connection its end."""
    with trio.fail_after(60):
        async with gateway_world() as world, world.client(format) as client:
            world.sessions.add("s")
            for data in said:
                before = len(answers(client))
                try:
                    text: str | bytes = data.decode() if format == "json" else data
                except UnicodeDecodeError:
                    await client.socket.send(data, text=True)
                    assert await client.wait_closed() == 1007
                    return
                await client.socket.send(text)
                await client.count(before + 1, lambda frame: frame["op"] in ANSWERS)
                assert answers(client)[-1].get("code") != "internal"
            await client.send({"op": "ping", "id": NOBODYS_ID})
            assert (await client.answer(NOBODYS_ID))["result"] == {}
            assert len(answers(client)) == len(said) + 2, "hello and ping"


NOBODYS_ID = 2**53 - 1
ANSWERS = ("result", "error", "welcome")


def answers(client: Client) -> list[Map]:
    return client.ops(*ANSWERS)


@pytest.mark.parametrize("format", ["json", "msgpack"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_X6_any_bytes_get_a_typed_answer(format: Format, caplog: pytest.LogCaptureFixture, data: st.DataObject) -> None:
    caplog.clear()
    said = data.draw(st.lists(messages(format), min_size=1, max_size=8))
    with no_traceback(caplog):
        trio.run(say, format, said, clock=MockClock(autojump_threshold=0))


OPENING = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
FRAMES = [
    Frame(opcode, data, fin=fin).serialize(mask=True)
    for opcode, data, fin in (
        (Opcode.TEXT, b'{"op":"hello","id":1}', True),
        (Opcode.TEXT, b'{"op":"subscribe","id":2,"session_id":"s"}', True),
        (Opcode.TEXT, b'{"op":"ping",', False),
        (Opcode.CONT, b'"id":3}', True),
        (Opcode.BINARY, b"\x81\xa2op\xa4ping", True),
        (Opcode.PING, b"x", True),
        (Opcode.PONG, b"", True),
        (Opcode.CLOSE, b"\x03\xe8", True),
    )
]


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """What a client sends on one connection, in chunks: an opening and frames, with some of the bytes changed."""
    stream = OPENING + b"".join(draw(st.lists(st.sampled_from(FRAMES), max_size=10)))
    stream = mutated(stream, draw(CUTS))
    size = draw(st.integers(1, 200))
    return [stream[start : start + size] for start in range(0, len(stream), size)]


async def pour(chunks: list[bytes]) -> None:
    """The gateway survives it, serves others meanwhile, and ends the connection once the client has."""
    with trio.fail_after(120):
        async with gateway_world() as world, world.client() as other:
            session = world.sessions.add("s")
            stream = await world.stream()
            async with stream:
                for chunk in chunks:
                    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                        await stream.send_all(chunk)
                assert await other.result("ping") == {}
                await stream.send_eof()
                while await stream.receive_some():
                    pass
            await other.result("ping")
            assert not session.channel.watched


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@example(chunks=[OPENING.replace(b"GET /ws", b"GET /xx") + b"\xff" * 9])
@example(chunks=[OPENING.replace(b"Upgrade: ", b"Downgrade: ") + FRAMES[0] + b"\xff" * 9])
@example(chunks=[OPENING[:-1], b"\n\xff\xff"])
@example(chunks=[OPENING, FRAMES[4] + FRAMES[0] + FRAMES[0]])
@example(chunks=[*(OPENING[place : place + 1] for place in range(len(OPENING))), *FRAMES])
@given(chunks=streams())
def test_X6_any_bytes_on_the_socket_harm_nobody(caplog: pytest.LogCaptureFixture, chunks: list[bytes]) -> None:
    caplog.clear()
    with no_traceback(caplog):
        trio.run(pour, chunks, clock=MockClock(autojump_threshold=0))
