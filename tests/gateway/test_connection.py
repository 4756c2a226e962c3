"""One client from `hello` to the end: requests, answers and refusals on the wire (W1-W4, W9)."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway_world import Map, gateway_world, no_traceback
from turnwire.gateway import GatewaySettings
from turnwire_protocol.codec import FORMATS, Format, encode
from turnwire_protocol.codes import RequestError


@pytest.mark.parametrize("format", FORMATS)
async def test_W2_both_formats_carry_a_session_from_hello_to_mutation(
    format: Format, autojump_clock: MockClock
) -> None:
    async with gateway_world() as world, world.client(format) as client:
        created = await client.result("session.create", session_id="s", title="Plans")
        assert created["session"]["title"] == "Plans"
        joined = await client.result("subscribe", session_id="s")
        snapshot = await client.op("snapshot")
        assert (snapshot["epoch"], snapshot["seq"]) == (joined["epoch"], joined["seq"]) == ("epoch-1", 0)
        receipt = await client.result("prompt", session_id="s", text="hi", client_request_id="r1")
        assert receipt["outcome"] == "started"
        mutation = await client.op("mutation")
        assert (mutation["seq"], mutation["variant"]) == (1, "message")
        assert mutation["message"]["parts"][0]["text"] == "hi"
        assert world.sessions.created_by == ["local"]


async def test_W2_without_subprotocol_it_is_json(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client(subprotocols=None) as client:
        assert await client.result("ping") == {}


async def test_W2_only_unknown_subprotocols_are_refused(autojump_clock: MockClock) -> None:
    async with gateway_world() as world:
        with pytest.RaisesGroup(InvalidStatus, flatten_subgroups=True) as caught:
            async with world.client(subprotocols=["turnwire.v9.json"]):
                pass
        (refusal,) = caught.value.exceptions
        while isinstance(refusal, ExceptionGroup):
            (refusal,) = refusal.exceptions
        assert isinstance(refusal, InvalidStatus)
        assert refusal.response.status_code == 400


# -------------------------------------------------------------------------------------------------------------- hello


async def test_W3_welcome_tells_what_the_server_holds_clients_to(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client(hello=False) as client:
        welcome = await client.request("hello", token="ignored on an open server", protocol=1)
        limits = {
            "max_frame": 4 << 20,
            "max_request": 1 << 20,
            "page": 50,
            "max_page": 200,
            "max_subscriptions": 100,
            "max_depth": 32,
            "max_values": 10_000,
            "max_fragments": 1024,
            "max_requests": 64,
            "max_queued_bytes": 2 << 20,
            "requests_per_s": 100.0,
            "request_burst": 1000,
            "principal_requests_per_s": 400.0,
            "principal_request_burst": 2000,
            "max_connections": 10_000,
            "max_connections_per_address": 200,
            "max_connections_per_principal": 100,
            "max_sessions_per_principal": 10_000,
            "hello_bytes": 64 << 10,
            "hello_timeout_ms": 10_000,
        }
        assert welcome == {
            "op": "welcome",
            "id": 1,
            "protocol": 1,
            "server": "turnwire/test",
            "limits": limits,
            "tick_ms": 15000,
            "principal": {"id": "local"},
        }


@pytest.mark.parametrize(
    ("first", "code", "error"),
    [
        ({"op": "ping", "id": 1}, 4401, "unauthenticated"),
        ({"op": "hello", "id": 1, "protocol": 2}, 4400, "invalid_argument"),
        ({"op": "hello", "id": 1, "colour": "red"}, 4400, "invalid_argument"),
        ({"op": "hello"}, 4400, "invalid_argument"),
        ([], 4400, "invalid_frame"),
    ],
)
async def test_W3_hello_comes_first_and_right(
    first: Any, code: int, error: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world, world.client(hello=False) as client:
            await client.send(first)
            assert (await client.op("error"))["code"] == error
            assert await client.wait_closed() == code
            assert trio.current_time() < 1, "the close is not waited for"


@pytest.mark.parametrize("tick_ms", [15_000, 500])
async def test_W3_without_hello_the_connection_ends_in_ten_seconds(
    tick_ms: int, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Ticks do not count before `hello`: nobody has been pinged yet."""
    with no_traceback(caplog):
        async with gateway_world(GatewaySettings(tick_ms=tick_ms)) as world, world.client(hello=False) as client:
            assert await client.wait_closed() == 4408
            assert trio.current_time() == pytest.approx(10)


@pytest.mark.parametrize("chunk", [100_000, 1000])
async def test_W3_before_hello_a_client_may_send_64_kib(
    chunk: int, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world, world.client(hello=False) as client:
            head, filler = '{"op":"hello","id":1,"token":"', "x" * 100_000
            with suppress(ConnectionClosed):  # the server may be faster than the sending of the rest
                await client.socket.send([head, *(filler[at : at + chunk] for at in range(0, 100_000, chunk))])
            assert await client.wait_closed() == 1009


async def test_W3_after_hello_the_larger_limit_counts_at_once(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client(hello=False) as client:
        world.sessions.add("s")
        await client.ask("hello")
        receipt = await client.request("prompt", session_id="s", text="x" * 900_000, client_request_id="r")
        assert receipt["op"] == "result"


async def test_W3_a_second_hello_is_answered_by_welcome_and_the_connection_goes_on(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        again = await client.request("hello")
        assert (again["op"], again["principal"]) == ("welcome", {"id": "local"})
        assert (await client.request("hello", protocol=2))["field"] == "protocol"
        assert await client.result("ping") == {}


# ----------------------------------------------------------------------------------------------------------- requests


async def test_W3_a_thousand_pipelined_requests_get_one_answer_each(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        world.sessions.add("s")
        asked = [await client.ask("session.get", session_id="s") for _ in range(1000)]
        answers = [await client.answer(request_id) for request_id in asked]
        refused = [answer for answer in answers if answer["op"] == "error"]
        assert {answer["code"] for answer in refused} <= {"rate_limited"}
        await trio.sleep(1)
        await client.result("ping")
        assert len([frame for frame in client.frames if frame.get("id") in set(asked)]) == 1000


async def test_W3_requests_beyond_the_queue_are_rate_limited_while_the_client_reads(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world, world.client() as client:
            world.sessions.add("s")
            world.sessions.hold = trio.Event()
            asked = [await client.ask("session.get", session_id="s") for _ in range(100)]
            refused = await client.answer(asked[-1])
            assert (refused["code"], refused["retryable"]) == ("rate_limited", True)
            world.sessions.hold.set()
            answers = [await client.answer(request_id) for request_id in asked]
            assert [answer["op"] for answer in answers] == ["result"] * 65 + ["error"] * 35


async def test_W3_an_id_that_is_still_open_is_refused(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        world.sessions.add("s")
        world.sessions.hold = trio.Event()
        for _ in range(2):
            await client.send({"op": "session.get", "id": 7, "session_id": "s"})
        refused = await client.op("error")
        assert (refused["id"], refused["code"], refused["field"]) == (7, "invalid_argument", "id")
        world.sessions.hold.set()
        assert (await client.op("result", after=len(client.frames)))["id"] == 7
        await client.send({"op": "session.get", "id": 7, "session_id": "s"})
        assert (await client.op("result", after=len(client.frames)))["id"] == 7


async def test_M2_limits_have_a_default_and_a_most(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        for number in range(250):
            world.sessions.add(f"s-{number}")
        assert len((await client.result("session.list"))["items"]) == 50
        assert len((await client.result("session.list", limit=10**9))["items"]) == 200
        assert (await client.request("session.list", limit=0))["field"] == "limit"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "text"),
        ({"text": "a", "parts": [{"type": "text", "text": "b"}]}, "parts"),
        ({"text": ""}, "text"),
        ({"text": " \n"}, "text"),
        ({"text": 7}, "text"),
        ({"parts": []}, "parts"),
        ({"parts": [{"type": "text", "text": " "}]}, "parts"),
        ({"parts": [{"type": "text"}]}, "parts[0].text"),
    ],
)
async def test_T1_a_prompt_has_either_text_or_parts_and_says_something(
    fields: Map, field: str, autojump_clock: MockClock
) -> None:
    async with gateway_world() as world, world.client() as client:
        world.sessions.add("s")
        answer = await client.request("prompt", session_id="s", client_request_id="r", **fields)
        assert (answer["code"], answer["field"]) == ("invalid_argument", field)
        assert answer["message"].startswith(f"{field}: ")


async def test_W9_a_fault_of_the_server_is_logged_and_the_connection_lives(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway_world() as world, world.client() as client:
        world.sessions.add("s")
        world.sessions.fault = ZeroDivisionError("a bug")
        answer = await client.request("session.get", session_id="s")
        assert (answer["code"], answer["retryable"]) == ("internal", True)
        assert "a bug" not in answer["message"]
        assert await client.result("ping") == {}
    assert [record.exc_info is not None for record in caplog.records if record.levelno >= logging.ERROR] == [True]


async def test_W9_refusals_of_the_sessions_reach_the_client_as_they_are(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        world.sessions.add("s")
        world.sessions.fault = RequestError("unavailable", "the disk is full")
        answer = await client.request("session.get", session_id="s")
        assert (answer["code"], answer["message"], answer["retryable"]) == ("unavailable", "the disk is full", True)


async def test_W10_an_answer_above_max_frame_is_refused_instead(autojump_clock: MockClock) -> None:
    async with gateway_world(GatewaySettings(max_frame_bytes=2000)) as world, world.client() as client:
        world.sessions.add("s", title="t" * 3000)
        assert (await client.request("session.get", session_id="s"))["code"] == "too_large"
        world.sessions.padding = 3000
        assert (await client.request("subscribe", session_id="s"))["code"] == "too_large"
        assert await client.result("ping") == {}


# ---------------------------------------------------------------------------------------------------------- bad input

BAD_JSON: list[tuple[str, str | None]] = [
    ("", "invalid_frame"),
    ("nonsense", "invalid_frame"),
    ("[1]", "invalid_frame"),
    ('{"op":"ping","id":9', "invalid_frame"),
    ('{"op":"ping","id":9,"n":NaN}', "invalid_frame"),
    ("[" * 100_000, "invalid_frame"),
    ('{"a":' * 2000 + "1" + "}" * 2000, "invalid_frame"),
    ('{"op":"session.create","id":9,"metadata":' + '{"a":' * 40 + "1" + "}" * 41, "invalid_argument"),
    ('{"op":"session.create","id":9,"metadata":{"n":1180591620717411303424}}', "invalid_argument"),
    ('{"op":"prompt","id":9,"session_id":"s","client_request_id":"r","text":"\\ud800"}', None),
    ('{"op":"fly","id":9}', "unknown_op"),
    ('{"id":9}', "invalid_argument"),
    ('{"op":9,"id":9}', "invalid_argument"),
    ('{"op":"ping","id":0}', "invalid_argument"),
    ('{"op":"ping","id":"9"}', "invalid_argument"),
    ('{"op":"ping"}', "invalid_argument"),
    ('{"op":"subscribe","id":9,"session_id":["s"]}', "invalid_argument"),
    ('{"op":"subscribe","id":9,"session_id":"no spaces"}', "invalid_argument"),
    ('{"op":"messages","id":9,"session_id":"s","limit":1.5}', "invalid_argument"),
    ('{"op":"messages","id":9,"session_id":"s","before_sequence":-1}', "invalid_argument"),
    ('{"op":"stop","id":9,"session_id":null}', "invalid_argument"),
]


@pytest.mark.parametrize(("text", "code"), BAD_JSON)
async def test_X6_bad_input_gets_a_typed_error_and_the_connection_lives(
    text: str, code: str | None, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world, world.client() as client:
            await client.socket.send(text)
            error = await client.op("error")
            assert code is None or error["code"] == code
            assert await client.result("ping") == {}


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x93\x01", encode([1], "msgpack"), msgspec.msgpack.encode({1: 2}), b"\x81\xa2op\xc7\x01\x05x"],
)
async def test_X6_bad_messagepack_gets_a_typed_error_and_the_connection_lives(
    data: bytes, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world, world.client("msgpack") as client:
            await client.socket.send(data)
            assert (await client.op("error"))["code"] in ("invalid_frame", "invalid_argument")
            assert await client.result("ping") == {}


def _binary(data: str) -> bytes:
    return data.encode()


def _text(data: str) -> str:
    return data


@pytest.mark.parametrize(("format", "wrong"), [("json", _binary), ("msgpack", _text)])
async def test_W9_the_wrong_kind_of_frame_closes_with_1003(
    format: Format,
    wrong: Callable[[str], str | bytes],
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world, world.client(format) as client:
            await client.socket.send(wrong('{"op":"ping","id":9}'))
            assert await client.wait_closed() == 1003


async def test_W9_a_request_above_the_limit_closes_with_1009(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world, world.client() as client:
            await client.socket.send("x" * (1 << 20) + "x")
            assert await client.wait_closed() == 1009


async def test_W9_text_that_is_not_utf8_closes_with_1007(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world, world.client() as client:
            await client.socket.send(b'{"op":"\xff"}', text=True)
            assert await client.wait_closed() == 1007


# ------------------------------------------------------------------------------------------------------ subscriptions


async def test_W1_one_connection_carries_many_sessions_up_to_the_limit(autojump_clock: MockClock) -> None:
    async with gateway_world(GatewaySettings(max_subscriptions=3)) as world, world.client() as client:
        for number in range(4):
            world.sessions.add(f"s-{number}")
        for number in range(3):
            await client.result("subscribe", session_id=f"s-{number}")
        refused = await client.request("subscribe", session_id="s-3")
        assert (refused["code"], refused["retryable"]) == ("conflict", False)
        await client.result("subscribe", session_id="s-0")
        await client.result("unsubscribe", session_id="s-1")
        await client.result("subscribe", session_id="s-3")
        for number in range(4):
            world.sessions.say(f"s-{number}", "hello")
        await client.result("ping")
        heard = {number for number in range(4) if client.deltas(f"s-{number}")}
        assert heard == {0, 2, 3}


async def test_W4_the_result_comes_before_the_snapshot_and_the_snapshot_before_mutations(
    autojump_clock: MockClock,
) -> None:
    async with gateway_world() as world, world.client() as client:
        world.sessions.add("s")
        world.sessions.parts = 3
        world.sessions.say("s", "before")
        joined = await client.result("subscribe", session_id="s")
        world.sessions.say("s", "after")
        await client.op("mutation")
        assert [frame["op"] for frame in client.frames[1:]] == ["result", *["snapshot"] * 3, "mutation"]
        assert [frame["part"] for frame in client.ops("snapshot")] == [1, 2, 3]
        assert joined == {"epoch": "epoch-1", "seq": 1}
        assert client.ops("mutation")[0]["seq"] == 2


async def test_W4_subscribing_twice_gives_a_new_snapshot_and_no_mutation_twice(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        world.sessions.add("s")
        await client.result("subscribe", session_id="s")
        await client.result("subscribe", session_id="s")
        world.sessions.say("s", "once")
        await client.op("mutation")
        await client.result("ping")
        assert len(client.ops("snapshot")) == 2
        assert client.deltas("s") == ["once"]


async def test_W5_a_live_client_that_subscribes_again_misses_nothing_meanwhile(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        session = world.sessions.add("s")
        await client.result("subscribe", session_id="s")
        (watcher,) = session.watchers
        world.sessions.say("s", "unflushed")
        watcher.joined(world.sessions.snapshot(session, 50, False))
        world.sessions.say("s", "after")
        await client.find(lambda frame: frame.get("delta") == "after")
        assert [frame["seq"] for frame in client.ops("mutation")] == [1, 2]


async def test_W5_reload_is_for_a_subscription_that_stands(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        world.sessions.add("s")
        assert (await client.request("reload", session_id="s"))["code"] == "not_found"
        await client.result("subscribe", session_id="s", include_internal=True, limit=7)
        await client.result("reload", session_id="s")
        assert len(client.ops("snapshot")) == 2 or await client.op("snapshot", after=len(client.frames) - 1)
        assert world.sessions.joins == 2


async def test_W4_a_failed_subscribe_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        assert (await client.request("subscribe", session_id="nowhere"))["code"] == "not_found"
        assert (await client.request("reload", session_id="nowhere"))["code"] == "not_found"


async def test_L1_unsubscribe_is_idempotent_and_final(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        session = world.sessions.add("s")
        await client.result("subscribe", session_id="s")
        await client.result("unsubscribe", session_id="s")
        await client.result("unsubscribe", session_id="s")
        assert not session.channel.watched
        world.sessions.say("s", "unheard")
        await client.result("ping")
        assert client.deltas("s") == []


async def test_W7_a_session_that_restarts_asks_for_a_reload(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        session = world.sessions.add("s")
        await client.result("subscribe", session_id="s")
        session.channel.restarted()
        notice = await client.op("reload")
        assert notice == {"op": "reload", "session_id": "s", "reason": "restarted"}
        assert (await client.request("reload", session_id="s"))["op"] == "result"
        assert world.gateway.traffic.reloads == {"lagged": 0, "restarted": 1}


async def test_L1_the_end_of_a_session_ends_the_subscription(autojump_clock: MockClock) -> None:
    async with gateway_world() as world, world.client() as client:
        session = world.sessions.add("s")
        await client.result("subscribe", session_id="s")
        session.channel.end("deleted")
        assert await client.op("unsubscribed") == {"op": "unsubscribed", "session_id": "s", "reason": "deleted"}
        assert (await client.request("reload", session_id="s"))["code"] == "not_found"


@pytest.mark.parametrize("polite", [True, False])
async def test_T4_a_client_that_goes_leaves_its_sessions_and_nothing_else(
    polite: bool, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with no_traceback(caplog):
        async with gateway_world() as world:
            session = world.sessions.add("s")
            async with world.client() as client:
                await client.result("subscribe", session_id="s")
                assert session.channel.watched
                if polite:
                    await client.socket.aclose()
            await trio.sleep(30)
            assert not session.channel.watched
            assert world.gateway.connection_count == 0


async def test_T4_a_prompt_that_was_begun_is_finished_although_its_client_has_gone(autojump_clock: MockClock) -> None:
    async with gateway_world() as world:
        session = world.sessions.add("s")
        world.sessions.hold = trio.Event()
        async with world.client() as client:
            await client.ask("prompt", session_id="s", text="still here?", client_request_id="r")
            await trio.sleep(1)
        await trio.sleep(1)
        world.sessions.hold.set()
        await trio.sleep(1)
        assert len(session.items) == 1


async def test_T4_a_client_that_goes_while_it_joins_is_not_watched_for(autojump_clock: MockClock) -> None:
    async with gateway_world() as world:
        session = world.sessions.add("s")
        world.sessions.hold = trio.Event()
        async with world.client() as client:
            await client.ask("subscribe", session_id="s")
            await trio.sleep(1)
        await trio.sleep(1)
        world.sessions.hold.set()
        await trio.sleep(1)
        assert world.sessions.joins == 1
        assert not session.channel.watched
