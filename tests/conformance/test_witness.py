"""The standing rules: whatever a server sends, it is taken or blamed, and never a fault of the pack."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import UNSET

from turnwire.conformance.compare import check_snapshot
from turnwire.conformance.verdict import Broken
from turnwire.conformance.witness import Witness
from turnwire_protocol.view import SessionView
from vector_cases.frames import FILE_DIFF, OVERLOADED

Map = dict[str, Any]
Path = tuple[str | int, ...]

MESSAGE: Map = {"session_id": "s", "turn_id": "t", "visibility": "visible", "created_at": 1, "updated_at": 1}
PART: Map = {"part_id": "p", "sequence": 1, "type": "text", "text": "To the "}
USER = {
    **MESSAGE,
    "message_id": "m1",
    "sequence": 1,
    "revision": 1,
    "role": "user",
    "parts": [{**PART, "part_id": "p0"}, {"part_id": "p00", "sequence": 2, "type": "newer", "shape": "round"}],
}
AGENT = {
    **MESSAGE,
    "message_id": "m2",
    "sequence": 2,
    "revision": 4,
    "role": "agent",
    "state": "streaming",
    "parts": [{**PART, "state": "streaming"}],
}
PAGE = {"items": [USER, AGENT], "total": 2, "start_sequence": 1, "end_sequence": 2, "has_more": False}
SESSION = {
    "session_id": "s",
    "config": {"approval_mode": "ask"},
    "created_at": 1,
    "updated_at": 1,
    "message_count": 1,
    "executing": True,
}
LIMITS = {"max_frame": 4194304, "max_request": 1048576, "page": 50, "max_page": 200, "max_subscriptions": 100}


def snapshot(seq: int, agent: Map) -> Map:
    return {
        "op": "snapshot",
        "session_id": "s",
        "epoch": "e",
        "seq": seq,
        "session": SESSION,
        "page": {**PAGE, "items": [USER, agent]},
        "turn": {"turn_id": "t", "started_at": 1},
        "queue": [{"turn_id": "t2", "message_id": "m3"}],
        "interactions": [],
        "part": 1,
        "parts": 1,
    }


def mutation(seq: int, variant: str, **fields: Any) -> Map:
    envelope = {"op": "mutation", "epoch": "e", "seq": seq, "mutation_id": f"x{seq}", "session_id": "s"}
    return {**envelope, "created_at": 1, "variant": variant, **fields}


def of_answer(revision: int, **fields: Any) -> Map:
    return {"message_id": "m2", "revision": revision, "turn_id": "t", **fields}


def ask(request_id: int, op: str) -> Map:
    """A request of the client's."""
    return {"ask": {"op": op, "id": request_id, "session_id": "s"}}


CONVERSATION: list[Map] = [
    ask(1, "hello"),
    {"op": "welcome", "id": 1, "protocol": 1, "server": "x", "limits": LIMITS, "tick_ms": 1, "principal": {"id": "a"}},
    {"op": "tick"},
    ask(2, "subscribe"),
    {"op": "result", "id": 2, "result": {"epoch": "e", "seq": 4}},
    mutation(5, "turn", type="start", turn_id="t"),
    snapshot(4, AGENT),
    mutation(6, "delta", **of_answer(5, type="text", part_id="p", delta="lakes")),
    ask(3, "reload"),
    {"op": "result", "id": 3, "result": {"epoch": "e", "seq": 6}},
    snapshot(6, {**AGENT, "revision": 5, "parts": [{**AGENT["parts"][0], "text": "To the lakes"}]}),
    mutation(7, "part", **of_answer(6, type="text", part_id="p", part={**PART, "state": "done"})),
    mutation(8, "message", **of_answer(7, type="agent", sequence=2, message={**AGENT, "revision": 7})),
    mutation(9, "part", **of_answer(8, type="newer", part_id="p9", part={**PART, "part_id": "p9", "type": "newer"})),
    mutation(10, "session", type="title", title="x"),
    mutation(11, "session", type="config", config={"approval_mode": "ask"}),
    mutation(12, "newer", anything={}),
    mutation(13, "warning", **OVERLOADED),
    mutation(14, "file_diff", **FILE_DIFF),
    mutation(15, "turn", type="finish", turn_id="t", status="completed"),
    ask(4, "messages"),
    {"op": "result", "id": 4, "result": PAGE},
    ask(5, "stop"),
    {"op": "error", "id": 5, "code": "c", "message": "x", "retryable": False},
    {"op": "newer", "session_id": "s"},
    {"op": "reload", "session_id": "s", "reason": "lagged"},
    {"op": "unsubscribed", "session_id": "s", "reason": "deleted"},
    {"op": "draining", "retry_after_ms": 1},
]


def hear(conversation: list[Map]) -> None:
    """As a client of the pack does. Raises Broken."""
    witness, view = Witness(), SessionView("s")
    for frame in conversation:
        if "ask" in frame:
            witness.sent(frame["ask"])
            continue
        witness.received(frame, len(json.dumps(frame)))
        if frame["op"] == "snapshot":
            check_snapshot(frame, view)
        view.receive(frame)


def test_W5_a_snapshot_may_come_behind_mutations_that_go_on_from_it() -> None:
    reload, result, held = CONVERSATION[8:11]
    delta = mutation(7, "delta", **of_answer(6, type="text", part_id="p", delta=" and"))
    part = mutation(8, "part", **of_answer(7, type="text", part_id="p2", part={**PART, "part_id": "p2"}))
    more = mutation(9, "delta", **of_answer(8, type="text", part_id="p2", delta="seas"))
    before = CONVERSATION[:8]
    hear([*before, reload, result, delta, held, part, more])
    first, second = ({**held, "part": number, "parts": 2} for number in (1, 2))
    hear([*before, reload, result, delta, first, part, second, more])
    with pytest.raises(Broken, match="seq 6 had come before it was asked for") as broken:
        hear([*before, reload, {**result, "result": {"epoch": "e", "seq": 5}}])
    assert broken.value.rule == "W4"


def test_W4_a_snapshot_may_take_the_place_of_one_that_is_not_complete() -> None:
    first = {**CONVERSATION[6], "parts": 2}
    start, delta = CONVERSATION[5], CONVERSATION[7]
    again = mutation(7, "delta", **of_answer(6, type="text", part_id="p", delta=" and seas"))
    result = {"op": "result", "id": 3, "result": {"epoch": "e", "seq": 5}}
    hear([*CONVERSATION[:5], first, start, ask(3, "reload"), delta, result, snapshot(5, AGENT), again])


def test_W3_only_a_hello_is_answered_by_a_welcome() -> None:
    for number, answer in ((4, {**CONVERSATION[1], "id": 2}), (1, {"op": "result", "id": 1, "result": {}})):
        with pytest.raises(Broken, match="was answered by a") as broken:
            hear([*CONVERSATION[:number], answer])
        assert broken.value.rule == "W3"


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Of everything within the value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from paths(item, (*path, key))


GONE = UNSET


def changed(number: int, path: Path, value: Any) -> list[Map]:
    """The conversation with this value at this place of a frame, or with nothing there."""
    conversation = copy.deepcopy(CONVERSATION)
    holder: Any = conversation[number]
    for key in path[:-1]:
        holder = holder[key]
    if value is GONE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return conversation


def number_of(op: str, variant: str | None = None) -> int:
    """Where the first frame of this kind stands."""
    return next(
        number
        for number, frame in enumerate(CONVERSATION)
        if frame.get("op") == op and frame.get("variant", variant) == variant
    )


def test_P2_a_server_that_keeps_the_rules_is_not_blamed_nor_is_a_newer_one() -> None:
    hear(CONVERSATION)


@pytest.mark.parametrize("value", [GONE, None, True, -1, 1.5, 2**60, "", "x", [], [1], {}, {"a": 1}], ids=repr)
def test_W9_whatever_a_server_sends_the_pack_takes_it_or_names_the_rule(value: Any) -> None:
    blamed = set()
    for number, frame in enumerate(CONVERSATION):
        for path in () if "ask" in frame else paths(frame):
            try:
                hear(changed(number, path, value))
            except Broken as broken:
                blamed.add(broken.rule)
    assert {"L2", "L3", "M3", "M5", "W3", "W4"} <= blamed


@pytest.mark.parametrize(
    ("rule", "op", "variant", "path", "value"),
    [
        ("W2", "tick", None, ("op",), GONE),
        ("W2", "newer", None, ("session_id",), []),
        ("W4", "result", None, ("result",), None),
        ("W4", "snapshot", None, ("seq",), 5),
        ("L2", "mutation", "delta", ("created_at",), GONE),
        ("L3", "mutation", "delta", ("delta",), 7),
        ("L3", "mutation", "message", ("message", "revision"), 8),
        ("L3", "mutation", "message", ("message_id",), "m9"),
        ("L3", "mutation", "message", ("type",), "user"),
        ("L3", "mutation", "part", ("part", "part_id"), "p9"),
        ("L4", "mutation", "delta", ("part_id",), "p9"),
        ("M5", "snapshot", None, ("page", "items", 0, "revision"), GONE),
        ("M3", "snapshot", None, ("page", "items", 1, "sequence"), 1),
        ("P2", "snapshot", None, ("page", "items", 0, "parts", 0, "type"), "reasoning"),
        ("P2", "snapshot", None, ("page", "items", 1, "parts", 0, "type"), "context"),
        ("S5", "mutation", "delta", ("revision",), 6),
        ("S6", "mutation", "delta", ("delta",), "la"),
        ("W5", "mutation", "delta", ("seq",), 7),
        ("W10", "welcome", None, ("limits", "max_frame"), 20),
    ],
)
def test_each_standing_rule_is_blamed_for_what_breaks_it(
    rule: str, op: str, variant: str | None, path: Path, value: Any
) -> None:
    with pytest.raises(Broken) as broken:
        hear(changed(number_of(op, variant), path, value))
    assert broken.value.rule == rule, broken.value.sentence
