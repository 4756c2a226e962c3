"""Right requests and nearly right ones, on real Sessions: each gets a result, or an error that says where.

What a client may send that is no request at all is `test_fuzz`.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs
from trio.testing import MockClock

from drawn_requests import (
    PENDING,
    SESSIONS,
    Drawn,
    Fault,
    drawn_requests,
    faults_of,
    sent_with,
    whole_requests,
    with_fault,
)
from gateway_world import Client, Map, World, gateway_world, no_traceback
from sessions_world import open_world
from turnwire.models.scripted import ScriptedProvider
from turnwire.tools.registry import ToolRegistry
from turnwire.tools.workspace import workspace_tools
from turnwire_protocol.codec import OPS, Format, request_of
from turnwire_protocol.codes import RequestError
from turnwire_protocol.view import SessionView

ANSWERS = ("result", "error", "welcome")
ASKING = {"asks": "/ask", "approves": '/tool write_file {"path":"a.txt","text":"x"}'}
"""What makes an Interaction pending in a Session."""

NO_CARD = {"interaction_id": "nothing", "revision": 1}

ENOUGH = 0.1
"""The least share of all requests that must succeed: what is refused at the door tries nothing behind it. A quarter
does as a rule, but they are drawn by chance.
"""


class Bystander:
    """Somebody else, who follows all Sessions and one of their own."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def settle(self) -> None:
        for session_id in (*SESSIONS, "own"):
            await self.client.result("session.create", session_id=session_id)
            await self.client.result("subscribe", session_id=session_id)
        for session_id, text in ASKING.items():
            await self.client.result("prompt", session_id=session_id, client_request_id="first", text=text)
            await self.client.find(lambda frame, it=session_id: _asks(frame, it))  # type: ignore[misc]

    def pending(self, session_id: str) -> Map:
        """The Interaction that waits, or waited, in the Session."""
        parts = [
            part
            for frame in self.client.frames
            if _asks(frame, session_id)
            for part in frame["message"]["parts"]
            if part["type"] == "interaction"
        ]
        return parts[0] if parts else NO_CARD

    async def check(self) -> None:
        """Nothing was missed, the own Session still works, and so does the connection."""
        await self.client.result("prompt", session_id="own", client_request_id="last", text="/echo still here")
        await self.client.find(lambda frame: frame.get("type") == "finish" and frame["session_id"] == "own")
        for session_id in (*SESSIONS, "own"):
            view = SessionView(session_id)
            effects = [view.receive(frame) for frame in self.client.frames if frame.get("session_id") == session_id]
            assert "reload" not in effects
            assert view.status == "live" or (view.status, view.reason) == ("error", "deleted")


def _asks(frame: Map, session_id: str) -> bool:
    return (
        frame.get("variant") == "message"
        and frame["session_id"] == session_id
        and any(part["type"] == "interaction" for part in frame["message"]["parts"])
    )


@asynccontextmanager
async def real_world(folder: Path) -> AsyncIterator[World]:
    tools = ToolRegistry(workspace_tools(folder, now=lambda: 0))
    async with (
        open_world(ScriptedProvider(), tools=tools) as sessions,
        gateway_world(served=sessions.registry) as world,
    ):
        yield world


async def exchange(format: Format, folder: Path, wanted: list[Drawn], seen: Counter[str]) -> None:
    with trio.fail_after(3600):
        async with real_world(folder) as world, world.client() as other, world.client(format) as client:
            bystander = Bystander(other)
            await bystander.settle()
            for number, drawn in enumerate(wanted, start=100):
                answered = len(client.ops(*ANSWERS))
                await send(client, sent_with(drawn, number, bystander.pending))
                await client.count(answered + 1, lambda frame: frame["op"] in ANSWERS)
                answer = client.ops(*ANSWERS)[-1]
                seen[judged(drawn, number, answer)] += 1
            assert await client.result("ping") == {}
            assert len(client.ops(*ANSWERS)) == len(wanted) + 2, "hello and ping"
            await bystander.check()


async def send(client: Client, request: Map) -> None:
    """As a careless client would: integers beyond 53 bits included."""
    if client.format == "json":
        await client.socket.send(json.dumps(request))
    else:
        await client.send(request)


def judged(drawn: Drawn, number: int, answer: Map) -> str:
    """Whether this may be the answer; gives what it was."""
    where = (drawn, answer)
    if drawn.fault is None:
        assert answer["id"] == number, where
        assert answer.get("code") not in ("internal", "invalid_frame", "unknown_op"), where
        return "served" if answer["op"] != "error" else "refused"
    assert answer["op"] == "error", where
    if drawn.depends and answer["code"] in ("already_resolved", "not_found", "conflict"):
        return "too late to be wrong"
    unknown = drawn.fault.at == ("op",) and isinstance(drawn.fault.value, str)
    assert answer["code"] == ("unknown_op" if unknown else "invalid_argument"), where
    assert names(answer.get("field", ""), drawn.fault), where
    assert answer["message"].startswith(answer["field"]), where
    assert answer.get("id") == (None if drawn.fault.at == ("id",) else number), where
    return "wrong response" if drawn.depends else "wrong"


def names(field: str, fault: Fault) -> bool:
    """Whether this is the field of the fault, or stands within it."""
    return field == fault.field or field.startswith((f"{fault.field}.", f"{fault.field}["))


@pytest.mark.parametrize("format", ["json", "msgpack"])
def test_X6_a_request_gets_a_result_or_an_error_that_names_the_field(
    format: Format, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    seen = Counter[str]()

    # What has failed is printed whole: making it smaller would take minutes.
    @settings(max_examples=40, phases=[Phase.generate])
    @given(wanted=st.lists(drawn_requests(), min_size=5, max_size=15))
    def play(wanted: list[Drawn]) -> None:
        trio.run(exchange, format, tmp_path, wanted, seen, clock=MockClock(autojump_threshold=0))

    with no_traceback(caplog):
        play()
    total = sum(seen.values())
    assert seen["served"] > ENOUGH * total, seen
    assert seen["wrong"] > ENOUGH * total, seen


@pytest.mark.parametrize("format", ["json", "msgpack"])
@pytest.mark.parametrize("op", sorted(OPS))
async def test_X6_whatever_is_wrong_with_a_field_it_is_named(
    format: Format, op: str, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock, tmp_path: Path
) -> None:
    wanted = [Drawn(with_fault(it, fault), fault) for it in whole_requests(op) for fault in faults_of(it)]
    assert {field.name for field in structs.fields(OPS[op])} <= {drawn.fault.field for drawn in wanted if drawn.fault}
    seen = Counter[str]()
    with no_traceback(caplog):
        await exchange(format, tmp_path, wanted, seen)
    assert seen.keys() == ({"wrong", "wrong response"} if op == "interaction.respond" else {"wrong"}), seen


def test_X6_what_is_wrong_within_a_field_is_tried_too() -> None:
    tried = {(op, fault.field) for op in OPS for it in whole_requests(op) for fault in faults_of(it)}
    within = {
        "prompt": {"parts[0].type", "parts[1].tag", "parts[2].media_type", "parts[3].data", "parts[3].surprise"},
        "session.create": {"config.model", "config.approval_mode", "config.surprise", "metadata.wrong"},
        "session.update": {"config.model", "config.approval_mode", "config.surprise"},
        "interaction.respond": {"response.decision", "response.reason", "response.answers", "response.surprise"},
    }
    assert {(op, field) for op, fields in within.items() for field in fields} - tried == set()


def test_X6_half_of_the_requests_that_are_drawn_are_right() -> None:
    right, wrong = Counter[str](), Counter[str]()

    @settings(max_examples=1000, database=None, derandomize=True, phases=[Phase.generate])
    @given(drawn=drawn_requests())
    def draw(drawn: Drawn) -> None:
        request = sent_with(drawn, 1, lambda session_id: NO_CARD)
        if drawn.fault is None:
            right[request["op"]] += 1
            request_of(request)
        elif not drawn.depends:
            wrong["a value" if drawn.fault.at != ("op",) else "op"] += 1
            with pytest.raises(RequestError):
                request_of(request)

    draw()
    assert right.keys() == OPS.keys()
    assert 0.4 < sum(right.values()) / (sum(right.values()) + sum(wrong.values())) < 0.7, (right, wrong)


def test_every_session_with_an_interaction_is_asked_for_it() -> None:
    assert ASKING.keys() == PENDING.keys()
    assert {*PENDING} < {*SESSIONS}
