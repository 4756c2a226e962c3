"""Anything that a client may send, in every field of every request: one typed answer each, and nothing breaks (X6)."""

import json
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from gateway_world import Client, Map, gateway_world, no_traceback
from turnwire_protocol.codec import OPS, Format

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
VALUES = st.recursive(
    PLAIN | st.sampled_from(["s", "nowhere", "", "a b", 0, 1, -1, 1.5, "\x00", "é" * 200, 2**53]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def requests(draw: st.DrawFn) -> Map:
    """A request with a right `op` and any fields of it, with right values, wrong ones or none."""
    op = draw(st.sampled_from(sorted(OPS)))
    request: Map = {"op": op}
    for field in msgspec.structs.fields(OPS[op]):
        if field.name == "session_id" and draw(st.booleans()):
            request[field.name] = "s"
        elif field.name != "id" and draw(st.booleans()):
            request[field.name] = draw(VALUES)
    if draw(st.integers(0, 9)) == 0:
        request[draw(st.text(min_size=1, max_size=8).filter(lambda name: name not in ("id", "op")))] = draw(VALUES)
    return request


async def converse(format: Format, wanted: list[Map]) -> None:
    """Sends all requests, and checks that each gets exactly one answer and the connection is as good as new."""
    with trio.fail_after(60):
        await exchange(format, wanted)


async def exchange(format: Format, wanted: list[Map]) -> None:
    async with gateway_world() as world, world.client(format) as client:
        world.sessions.add("s")
        ids = [await send_loosely(client, number, request) for number, request in enumerate(wanted, start=100)]
        for request_id in ids:
            answer = await client.answer(request_id)
            assert answer["op"] in ("result", "welcome") or answer["message"]
            assert answer.get("code") != "internal"
        assert await client.result("ping") == {}
        answered = [frame["id"] for frame in client.frames if frame.get("id", 0) >= 100]
        assert sorted(answered) == ids


async def send_loosely(client: Client, request_id: int, request: Map) -> int:
    """As a careless client would: numbers beyond 53 bits included."""
    request = {**request, "id": request_id}
    if client.format == "json":
        await client.socket.send(json.dumps(request))
    else:
        await client.send(cut_down(request))
    return request_id


def cut_down(value: Any) -> Any:
    """What MessagePack can say at all: integers of 64 bits, and text that is UTF-8."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, int):
        return max(-(2**63), min(value, 2**64 - 1)) if not isinstance(value, bool) else value
    if isinstance(value, list):
        return [cut_down(item) for item in value]
    if isinstance(value, dict):
        return {cut_down(name): cut_down(item) for name, item in value.items()}
    return value


@pytest.mark.parametrize("format", ["json", "msgpack"])
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(wanted=st.lists(requests(), min_size=1, max_size=12))
def test_X6_every_request_gets_one_typed_answer(
    format: Format, caplog: pytest.LogCaptureFixture, wanted: list[Map]
) -> None:
    caplog.clear()
    with no_traceback(caplog):
        trio.run(converse, format, wanted, clock=MockClock(autojump_threshold=0))
