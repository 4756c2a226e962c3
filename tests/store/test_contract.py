"""The contract of a Store, but for pages, listings and recovery: what is kept, and what is refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from store.builders import NOW, agent, create, messages, newest, save, sequences, session, text, turn, user
from turnwire.store.base import (
    ConstraintViolated,
    CreateSession,
    DeleteSession,
    NotFound,
    Operation,
    RequestRecord,
    SaveMessage,
    SaveRequest,
    SaveTurn,
    Store,
    StoreUnavailable,
    UpdateSession,
)
from turnwire.store.memory import MemoryStore
from turnwire.store.sqlite import SqliteStore
from turnwire_protocol.codec import encode_json
from turnwire_protocol.lifecycle import TURN
from turnwire_protocol.messages import Config, Message, Origin, StoredJson, UserMessage
from turnwire_protocol.mutations import TurnError, TurnState
from turnwire_protocol.parts import (
    ActionPart,
    ContextPart,
    DataPart,
    ErrorPart,
    FilePart,
    InteractionPart,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolPart,
)

USER_PARTS = (
    TextPart(part_id="u1", sequence=1, text="naïve \u0000 \u2028 🙂"),
    ContextPart(part_id="u2", sequence=2, tag="note", context="</note>"),
    FilePart(part_id="u3", sequence=5, url="file:///a", media_type="text/plain", filename="a"),
    DataPart(
        part_id="u4", sequence=6, data_type="point", data={"x": 1.0, "y": [None, True, -(2**53) + 1]}, data_id="d"
    ),
)
AGENT_PARTS = (
    ReasoningPart(part_id="a1", sequence=1, step_id="st1", text="hm", state="done"),
    TextPart(part_id="a2", sequence=2, step_id="st1", text="", state="done"),
    ToolPart(
        part_id="a3", sequence=3, tool_call_id="c", tool_name="n", state="completed", input={"b": 1, "a": 2}, output=[]
    ),
    InteractionPart(
        part_id="a4",
        sequence=4,
        interaction_id="i",
        interaction_type="approval",
        tool_call_id="c",
        status="resolved",
        revision=3,
        request={"tool_name": "n", "input": {}},
        response={"decision": "approved"},
        resolved_by="me",
        resolved_at=NOW,
    ),
    SourcePart(part_id="a5", sequence=7, source_type="url", source_id="x", url="https://example.com/"),
    ActionPart(part_id="a6", sequence=8, action_id="y", action_type="z", state="completed", title="Z", data=0.5),
    ErrorPart(part_id="a7", sequence=9, scope="turn", code="c", message="m", recoverable=False),
)


async def refused(store: Store, operations: Sequence[Operation], error: type[Exception] = ConstraintViolated) -> None:
    with pytest.raises(error):
        await store.commit(operations)


async def test_sessions_are_given_back_as_they_were_stored(store: Store) -> None:
    record = session(
        title="Zug\u0000 'x'",
        config=Config(model="m", approval_mode="always-allow"),
        metadata=StoredJson(b'{ "unknown" : 1.50 }'),
        origin=Origin(session_id="other", message_id="m9"),
    )
    await store.commit([CreateSession(record)])
    assert await store.session("s") == record


async def test_update_replaces_what_clients_may_change_and_nothing_else(store: Store) -> None:
    await store.commit([create(title="old", origin=Origin(session_id="o")), SaveMessage(user(1))])
    change = session(title=None, config=Config(model="n"), archived_at=NOW + 3, updated_at=NOW + 4, created_at=1)
    await store.commit([UpdateSession(change)])
    kept = await store.session("s")
    assert (kept.title, kept.config, kept.archived_at, kept.updated_at) == (None, Config(model="n"), NOW + 3, NOW + 4)
    assert (kept.created_at, kept.origin, kept.message_count) == (NOW, Origin(session_id="o"), 1)


async def test_a_session_comes_back_from_the_archive_in_the_commit_of_a_message(store: Store) -> None:
    async def listed() -> list[int]:
        return [len((await store.sessions(before=None, limit=9, archived=it)).items) for it in (False, True)]

    await store.commit([create(), UpdateSession(session(archived_at=NOW))])
    assert await listed() == [0, 1]
    await refused(store, [UpdateSession(session(archived_at=None)), SaveMessage(user(2))])
    assert await listed() == [0, 1]
    await store.commit([UpdateSession(session(archived_at=None)), SaveMessage(user(1))])
    assert await listed() == [1, 0]
    assert (await store.session("s")).message_count == 1


@pytest.mark.parametrize(
    "operation",
    [
        UpdateSession(session("x")),
        DeleteSession("x"),
        SaveMessage(user(1, session_id="x")),
        SaveTurn(turn("t", session_id="x")),
        SaveRequest(
            RequestRecord(session_id="x", client_request_id="r", digest="d", answer=StoredJson(b"{}"), created_at=1)
        ),
    ],
    ids=lambda operation: type(operation).__name__,
)
async def test_an_unknown_session_is_not_found(store: Store, operation: Operation) -> None:
    await refused(store, [create(), operation], NotFound)
    for read in (store.session("s"), newest(store, "s")):
        with pytest.raises(NotFound):
            await read


async def test_a_taken_id_and_a_session_that_begins_with_counters_are_refused(store: Store) -> None:
    await store.commit([create()])
    await refused(store, [create()])
    await refused(store, [create("b", message_count=1)])
    await refused(store, [create("b", preview="x")])
    await refused(store, [create("b", metadata=StoredJson(b'{"open":'))])
    await refused(store, [create("b", title="\ud800")])


async def test_delete_removes_all_that_belongs_to_a_session_and_frees_its_ids(store: Store) -> None:
    request = SaveRequest(
        RequestRecord(session_id="s", client_request_id="r", digest="d", answer=StoredJson(b"1"), created_at=1)
    )
    content: list[Operation] = [create(), *save(user(1), agent(2), turn("t")), request]
    await store.commit([create("other"), SaveMessage(user(1, session_id="other")), *content])
    await store.commit([DeleteSession("s")])
    assert await store.turn("t") is None
    assert await store.request("s", "r") is None
    with pytest.raises(NotFound):
        await newest(store, "s")
    assert sequences(await newest(store, "other")) == [1]
    await store.commit(content)
    assert sequences(await newest(store, "s")) == [1, 2]


async def test_P2_stored_json_is_byte_for_byte_what_is_sent(store: Store) -> None:
    stored: list[Message] = [
        user(1, parts=USER_PARTS, turn_id="t", origin=Origin(session_id="o", message_id="m")),
        agent(2, *AGENT_PARTS, turn_id="t", state="streaming", visibility="internal"),
    ]
    await store.commit([create(), *save(*stored)])
    assert [item.json for item in (await newest(store)).items] == [encode_json(message) for message in stored]


async def test_S3_a_later_snapshot_replaces_the_earlier_one_and_its_missing_parts(store: Store) -> None:
    first = agent(1, text("a", 1, "x"), text("b", 2), text("c", 3), state="streaming")
    await store.commit([create(), SaveMessage(first)])
    second = agent(1, text("a", 1, "xy"), text("c", 3), text("d", 4), revision=7, turn_id="t", updated_at=NOW + 9)
    await store.commit([SaveMessage(second)])
    (item,) = (await newest(store)).items
    assert (item.message_id, item.sequence, item.revision) == ("s-m1", 1, 7)
    assert item.json == encode_json(second)


async def test_rule_1_a_commit_is_stored_as_a_whole_or_not_at_all(store: MemoryStore | SqliteStore) -> None:
    await store.commit([create(), *save(user(1), agent(2, text("a"), text("b", 2)), turn("t"))])
    before = (store.commits, await store.session("s"), (await newest(store)).items, await store.turn("t"))
    await refused(
        store,
        [
            create("new"),
            UpdateSession(session(title="changed")),
            *save(user(3), agent(2, text("c"), revision=2), turn("t", "running"), turn("t2")),
            DeleteSession("s"),
            create("s"),
            create("new"),
        ],
    )
    after = (store.commits, await store.session("s"), (await newest(store)).items, await store.turn("t"))
    assert after == before
    assert await store.turn("t2") is None
    with pytest.raises(NotFound):
        await store.session("new")
    await store.commit(save(user(3, parts=[text("c")])))
    assert store.commits == before[0] + 1


@pytest.mark.parametrize(
    "wrong",
    [
        user(3),
        user(5),
        user(4, message_id="s-m1"),
        user(1, message_id="s-m2", revision=2),
        user(2, revision=2),
        user(1, revision=2, created_at=NOW + 1),
        user(1, session_id="b", message_id="s-m1", revision=2),
        user(1),
        user(1, revision=2, parts=[text("s-m1-p1", 2)]),
        user(4, revision=0),
        user(4, revision=2**53),
        user(0),
    ],
    ids=[
        "taken sequence",
        "hole",
        "known id under another sequence",
        "another one's sequence",
        "another role",
        "another created_at",
        "another Session",
        "the same revision",
        "a Part that moved",
        "revision zero",
        "revision beyond 53 bits",
        "sequence zero",
    ],
)
async def test_M5_identity_order_and_revision_are_kept(store: Store, wrong: UserMessage) -> None:
    await store.commit([create(), create("b"), *save(user(1), agent(2, text("s-m2-p1")), agent(3))])
    before = await messages(store)
    await refused(store, [SaveMessage(wrong)])
    assert await messages(store) == before


async def test_M5_sequence_counts_from_one_in_every_session(store: Store) -> None:
    await store.commit([create(), create("b")])
    await refused(store, save(user(2)))
    await store.commit(save(user(1), user(1, session_id="b"), user(2), user(2, session_id="b")))
    assert sequences(await newest(store)) == sequences(await newest(store, "b")) == [1, 2]


async def test_P1_a_part_id_is_unique_in_its_session_only(store: Store) -> None:
    await store.commit([create(), create("b"), *save(user(1, parts=[text("p")]))])
    await refused(store, save(user(2, parts=[text("p")])))
    await refused(store, save(user(2, parts=[text("q"), text("q", 2)])))
    await refused(store, save(user(2, parts=[text("q", 2), text("r", 1)])))
    await refused(store, save(user(2, parts=[text("q", 1), text("r", 1)])))
    await store.commit(save(user(1, session_id="b", parts=[text("p")])))


async def test_P2_a_role_never_holds_the_other_roles_parts(store: Store) -> None:
    await store.commit([create()])
    for part in (*AGENT_PARTS[:1], *AGENT_PARTS[2:]):
        await refused(store, save(user(1, parts=[part])))  # type: ignore[list-item]
    await refused(store, save(agent(1, USER_PARTS[1])))  # type: ignore[arg-type]
    assert (await store.session("s")).message_count == 0


async def test_M10_an_agent_message_has_a_part(store: Store) -> None:
    await store.commit([create()])
    empty = agent(1)
    empty = type(empty)(**{name: getattr(empty, name) for name in empty.__struct_fields__} | {"parts": ()})
    await refused(store, save(empty))


async def test_W9_text_that_cannot_be_sent_is_refused_where_it_enters(store: Store) -> None:
    await store.commit([create()])
    await refused(store, save(user(1, parts=[text("p", content="\udfff")])))
    await refused(store, save(user(1, parts=[DataPart(part_id="p", sequence=1, data_type="x", data={1: {2}, (): 3})])))


async def test_M3_counters_and_preview_follow_the_messages(store: Store) -> None:
    await store.commit([create(), SaveMessage(user(1, parts=[text("a", content="  one\n two ")], updated_at=NOW + 5))])
    assert await store.session("s") == session(message_count=1, preview="one two", updated_at=NOW + 5)
    await store.commit(save(agent(2, text("b", content="x" * 500), updated_at=NOW + 3)))
    assert await store.session("s") == session(message_count=2, preview="x" * 120, updated_at=NOW + 5)
    await store.commit(save(user(3, visibility="internal"), agent(4, text("d", content=" "))))
    assert await store.session("s") == session(message_count=4, preview="x" * 120, updated_at=NOW + 5)
    await store.commit(save(agent(2, text("b2", content=""), revision=2, updated_at=NOW + 6)))
    assert await store.session("s") == session(message_count=4, preview="one two", updated_at=NOW + 6)


async def test_T2_a_turn_is_started_once_and_finished_once(store: Store) -> None:
    await store.commit([create(), create("b"), *save(turn("t"))])
    assert await store.turn("t") == turn("t")
    await refused(store, save(turn("t")))
    await store.commit(save(turn("t", "running")))
    assert await store.turn("t") == turn("t", "running")
    for wrong in (
        turn("t"),
        turn("t", "running"),
        turn("t", "completed", session_id="b"),
        turn("t", "completed", created_at=NOW + 1),
        turn("t", "completed", started_at=NOW + 2),
        turn("t", "completed", finished_at=None),
    ):
        await refused(store, save(wrong))
    done = turn("t", "failed", error=TurnError("code", "sentence"))
    await store.commit(save(done))
    assert await store.turn("t") == done
    for status in ("queued", "running", "completed", "failed", "stopped"):
        await refused(store, save(turn("t", status)))
    assert await store.turn("t") == done


@pytest.mark.parametrize("state", TURN.moves)
@pytest.mark.parametrize("to", TURN.moves)
async def test_T2_the_stored_status_follows_the_lifecycle(store: Store, state: TurnState, to: TurnState) -> None:
    await store.commit([create()])
    if state not in TURN.initial:
        await store.commit(save(turn("t", "running")))
    unstarted: dict[str, Any] = {"started_at": None} if state == "queued" and to != "running" else {}
    await store.commit(save(turn("t", state)))
    if to in TURN.moves[state]:
        await store.commit(save(turn("t", to, **unstarted)))
    else:
        await refused(store, save(turn("t", to, **unstarted)))


async def test_T2_a_queued_turn_may_end_unstarted_and_a_new_one_may_be_running(store: Store) -> None:
    await store.commit([create(), *save(turn("q"), turn("r", "running"))])
    await store.commit(save(turn("q", "stopped", started_at=None)))
    assert await store.turn("q") == turn("q", "stopped", started_at=None)
    assert await store.turn("unknown") is None
    for wrong in (
        turn("x", "completed"),
        turn("x", "queued", started_at=NOW),
        turn("x", "running", started_at=None),
        turn("x", "queued", finished_at=NOW),
        turn("x", "running", error=TurnError("c", "m")),
    ):
        await refused(store, save(wrong))


async def test_S9_a_request_is_remembered_once_for_each_session(store: Store) -> None:
    record = RequestRecord(
        session_id="s",
        client_request_id="r",
        digest="d",
        answer=StoredJson(b'{ "turn_id":"t","n":1.0}'),
        created_at=NOW,
    )
    await store.commit([create(), create("b"), SaveRequest(record)])
    assert await store.request("s", "r") == record
    assert await store.request("b", "r") is None
    await refused(store, [SaveRequest(record)])
    wrong = RequestRecord(session_id="b", client_request_id="r", digest="d", answer=StoredJson(b"{"), created_at=NOW)
    await refused(store, [SaveRequest(wrong)])


async def test_S1_only_commits_count(store: MemoryStore | SqliteStore) -> None:
    await store.commit([create()])
    await store.commit([])
    await store.session("s")
    await newest(store)
    assert store.commits == 1
    assert store.problem is None


async def test_rule_7_a_closed_store_refuses_and_closing_twice_is_harmless(store: Store) -> None:
    await store.commit([create()])
    await store.aclose()
    await store.aclose()
    assert store.problem is not None
    await refused(store, [create("b")], StoreUnavailable)
    for read in (
        store.session("s"),
        newest(store),
        store.turn("t"),
        store.sessions(before=None, limit=1, archived=False),
    ):
        with pytest.raises(StoreUnavailable):
            await read
