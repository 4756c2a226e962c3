"""What a crash left unfinished comes to rest: every open state of every Part, every unfinished Turn (S6, S7)."""

from typing import Any, get_args

import pytest

from store.builders import NOW, agent, create, messages, save, text, turn, user
from turnwire.store.base import PART_STRIDE, REVISION_STRIDE, NotFound, Recovered, Store
from turnwire.store.memory import MemoryStore
from turnwire.store.recovery import recover_message, recover_session
from turnwire.store.sqlite import SqliteStore
from turnwire_protocol.mutations import TurnError
from turnwire_protocol.parts import (
    ActionPart,
    ActionState,
    AgentPart,
    InteractionPart,
    InteractionStatus,
    ReasoningPart,
    TextPart,
    TextState,
    ToolPart,
    ToolState,
)

LATER = NOW + 60_000
NOTHING = Recovered(sessions=0, messages=0, turns=0)


def tool(state: ToolState, **fields: Any) -> ToolPart:
    return ToolPart(part_id="p", sequence=3, tool_call_id="c", tool_name="n", state=state, input={"a": 1}, **fields)


def interaction(status: InteractionStatus) -> InteractionPart:
    return InteractionPart(
        part_id="p",
        sequence=3,
        interaction_id="i",
        interaction_type="approval",
        tool_call_id="c",
        status=status,
        revision=2,
        request={},
    )


def action(state: ActionState) -> ActionPart:
    return ActionPart(part_id="p", sequence=3, action_id="a", action_type="x", state=state, title="X")


def thinking(state: TextState) -> ReasoningPart:
    return ReasoningPart(part_id="p", sequence=3, text="so far", state=state)


def answer(state: TextState) -> TextPart:
    return text("p", 3, "so far", state=state)


PARTS: list[AgentPart] = [
    *map(answer, get_args(TextState)),
    *map(thinking, get_args(TextState)),
    *map(tool, get_args(ToolState)),
    *map(interaction, get_args(InteractionStatus)),
    *map(action, get_args(ActionState)),
]
ENDS = {
    **dict.fromkeys(("input-streaming", "ready", "waiting-user"), "failed"),
    "streaming": "done",
    "running": "failed",
    "pending": "cancelled",
}
"""What each open state becomes; all other states are final."""


def state_of(part: dict[str, Any]) -> str:
    state: str = part.get("state") or part["status"]
    return state


def part_name(part: AgentPart) -> str:
    return f"{part.__struct_config__.tag}-{getattr(part, 'state', None) or getattr(part, 'status', None)}"


@pytest.mark.parametrize("part", PARTS, ids=part_name)
async def test_S7_every_open_part_of_a_streaming_message_gets_a_terminal_state(store: Store, part: AgentPart) -> None:
    message = agent(2, text("first", 1, state="done"), part, revision=5, state="streaming", turn_id="t")
    await store.commit([create(), *save(user(1), message, turn("t", "running"))])
    (_, before) = await messages(store)
    assert await store.recover(LATER) == Recovered(sessions=1, messages=1, turns=1)
    (_, after) = await messages(store)
    assert (after["state"], after["revision"], after["updated_at"]) == ("done", 5 + REVISION_STRIDE, LATER)
    assert {**after, "parts": []} == {
        **before,
        "state": "done",
        "revision": 5 + REVISION_STRIDE,
        "updated_at": LATER,
        "parts": [],
    }
    first, recovered, error = after["parts"]
    assert first == before["parts"][0]
    old = before["parts"][1]
    end = ENDS.get(state_of(old), state_of(old))
    assert state_of(recovered) == end
    if end == state_of(old):
        assert recovered == old
    elif old["type"] == "tool":
        assert recovered == {**old, "state": "failed", "error": "The server stopped before this tool finished."}
    elif old["type"] == "interaction":
        assert recovered == {**old, "status": "cancelled", "revision": after["revision"], "resolved_at": LATER}
    else:
        assert recovered == {**old, "state": end}
    assert error.pop("part_id") not in {"first", "p"}
    assert error == {
        "type": "error",
        "sequence": 3 + PART_STRIDE,
        "scope": "turn",
        "code": "runtime_interrupted",
        "message": "The server stopped while this Turn was running.",
        "recoverable": True,
    }


@pytest.mark.parametrize("part", PARTS, ids=part_name)
async def test_K1_no_open_part_outlives_a_crash_in_a_closed_message_either(store: Store, part: AgentPart) -> None:
    await store.commit([create(), *save(agent(1, part))])
    (before,) = await messages(store)
    recovered = await store.recover(LATER)
    (after,) = await messages(store)
    if state_of(before["parts"][0]) in ENDS:
        assert recovered == Recovered(sessions=1, messages=1, turns=0)
        assert state_of(after["parts"][0]) == ENDS[state_of(before["parts"][0])]
        assert (after["parts"][1]["code"], after["parts"][1]["scope"]) == ("runtime_interrupted", "session")
    else:
        assert (recovered, after) == (NOTHING, before)


async def test_S7_recovery_is_idempotent(store: Store) -> None:
    unfinished = save(
        user(1),
        agent(2, answer("streaming"), state="streaming", turn_id="t"),
        turn("t", "running"),
        turn("q"),
    )
    await store.commit([create(), *unfinished])
    assert await store.recover(LATER) == Recovered(sessions=1, messages=2, turns=2)
    after = (await messages(store), await store.session("s"), await store.turn("t"), await store.turn("q"))
    assert await store.recover(LATER + 1) == NOTHING
    assert (await messages(store), await store.session("s"), await store.turn("t"), await store.turn("q")) == after


async def test_K3_turns_keep_their_ids_and_end_as_failed(store: Store) -> None:
    await store.commit([create(), *save(turn("r", "running"), turn("q"), turn("d", "running"))])
    await store.commit(save(turn("d", "stopped")))
    await store.recover(LATER)
    running = TurnError("runtime_interrupted", "The server stopped while this Turn was running.")
    queued = TurnError("runtime_interrupted", "The server stopped before this Turn started.")
    assert await store.turn("r") == turn("r", "failed", finished_at=LATER, error=running)
    assert await store.turn("q") == turn("q", "failed", started_at=None, finished_at=LATER, error=queued)
    assert await store.turn("d") == turn("d", "stopped")


async def test_S7_a_turn_without_a_message_to_carry_the_error_gets_one(store: Store) -> None:
    closed = agent(2, turn_id="r")
    await store.commit([create(), *save(user(1, turn_id="r"), closed, turn("r", "running"), turn("q"), user(3))])
    before = await messages(store)
    await store.recover(LATER)
    after = await messages(store)
    assert after[:3] == before
    notices = after[3:]
    assert [(notice["sequence"], notice["turn_id"], notice["revision"]) for notice in notices] == [
        (4, "r", 1),
        (5, "q", 1),
    ]
    for notice in notices:
        assert (notice["role"], notice["state"], notice["visibility"]) == ("agent", "done", "visible")
        (error,) = notice["parts"]
        assert (error["type"], error["code"], error["sequence"]) == ("error", "runtime_interrupted", 1)
    record = await store.session("s")
    assert (record.message_count, record.updated_at, record.preview) == (5, LATER, "Hello")
    await store.commit(save(user(6)))


async def test_S7_finished_sessions_are_left_alone_and_one_can_be_recovered_alone(store: Store) -> None:
    await store.commit([create("a"), create("b"), create("c"), *save(user(1, session_id="a"))])
    await store.commit(save(turn("tb", session_id="b"), turn("tc", session_id="c")))
    assert await store.recover(LATER, session_id="a") == NOTHING
    assert await store.recover(LATER, session_id="b") == Recovered(sessions=1, messages=1, turns=1)
    assert (await store.session("c")).message_count == 0
    with pytest.raises(NotFound):
        await store.recover(LATER, session_id="unknown")
    assert await store.recover(LATER) == Recovered(sessions=1, messages=1, turns=1)


async def test_S7_recovery_takes_one_commit_a_session(store: MemoryStore | SqliteStore) -> None:
    await store.commit([create("a"), create("b"), create("c")])
    await store.commit(save(*(turn(f"t{n}", session_id=name) for n, name in enumerate("aaabbb"))))
    before = store.commits
    assert await store.recover(LATER) == Recovered(sessions=2, messages=6, turns=6)
    assert store.commits == before + 2


def test_P2_recovery_keeps_fields_and_part_types_it_does_not_know() -> None:
    message: dict[str, Any] = {
        "role": "agent",
        "message_id": "m",
        "sequence": 1,
        "revision": 9,
        "state": "streaming",
        "updated_at": NOW,
        "mood": {"new": True},
        "parts": [
            {"type": "hologram", "part_id": "h", "sequence": 1, "state": "streaming"},
            {"type": "tool", "part_id": "t", "sequence": 4, "state": "running", "error": "its own", "cost": 1.5},
            {"type": "tool", "part_id": "u", "sequence": 5, "state": "suspended"},
        ],
    }
    before = str(message)
    after = recover_message(message, now=LATER, part_id="e")
    assert str(message) == before
    assert after["mood"] == {"new": True}
    hologram, running, unknown, error = after["parts"]
    assert hologram == message["parts"][0]
    assert running == {**message["parts"][1], "state": "failed"}
    assert unknown == message["parts"][2]
    assert (error["part_id"], error["sequence"], error["scope"]) == ("e", 5 + PART_STRIDE, "session")


def test_S6_numbers_grow_with_every_crash() -> None:
    turns = [turn("t", "running")]
    first = recover_session("s", [], turns, last_sequence=3, now=LATER, new_id=iter("abcd").__next__)
    second = recover_message(first.messages[0], now=LATER, part_id="x")
    assert [part["sequence"] for part in second["parts"]] == [1, 1 + PART_STRIDE]
    assert (first.messages[0]["sequence"], second["revision"]) == (4, 1 + REVISION_STRIDE)
