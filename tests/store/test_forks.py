"""Forks: copies with new ids and an origin, and nothing that is still being written (M5, P1)."""

from typing import Any

import pytest

from store.builders import NOW, agent, create, messages, newest, save, sequences, text, turn, user
from store.test_contract import AGENT_PARTS, USER_PARTS
from turnwire.store.base import (
    ConstraintViolated,
    ForkSession,
    MessageNotFound,
    MessageOpen,
    NotFound,
    SaveMessage,
    Store,
)
from turnwire.store.context import Summary
from turnwire_protocol.messages import Config, Origin, StoredJson


def fork(through: str | None = None, *, new: str = "f", old: str = "s") -> ForkSession:
    return ForkSession(session_id=old, new_session_id=new, through_message_id=through, now=NOW + 9)


def as_copy(message: dict[str, Any], copy: dict[str, Any]) -> dict[str, Any]:
    """What the copy of a Message must be: all the same, but for identity and origin."""
    origin = {"session_id": message["session_id"], "message_id": message["message_id"]}
    return {**message, "session_id": copy["session_id"], "message_id": copy["message_id"], "origin": origin}


async def fill(store: Store) -> list[dict[str, Any]]:
    await store.commit(
        [
            create(title="Zug 'x'", config=Config("m", "always-allow"), metadata=StoredJson(b'{"a": 1.50}')),
            create("other"),
            *save(
                user(1, session_id="other"),
                turn("t1", "running"),
                user(1, parts=USER_PARTS, turn_id="t1"),
                agent(2, *AGENT_PARTS, turn_id="t1", revision=7),
                user(3, visibility="internal", parts=()),
                agent(4),
            ),
        ]
    )
    return await messages(store)


async def test_M5_a_fork_copies_messages_with_new_ids_and_an_origin(store: Store) -> None:
    source = await fill(store)
    await store.commit([fork()])
    copies = await messages(store, "f")
    assert copies == [as_copy(*pair) for pair in zip(source, copies, strict=True)]
    ids = {message["message_id"] for message in copies}
    assert len(ids) == 4
    assert not ids & {message["message_id"] for message in source}
    record = await store.session("f")
    old = await store.session("s")
    assert (record.title, record.config, record.metadata) == (old.title, old.config, old.metadata)
    assert (record.created_at, record.message_count, record.preview) == (NOW + 9, 4, old.preview)
    assert record.origin == Origin("s", "s-m4")
    assert await messages(store) == source


async def test_M5_a_fork_goes_through_the_message_named(store: Store) -> None:
    source = await fill(store)
    await store.commit([fork("s-m2")])
    copies = await messages(store, "f")
    assert copies == [as_copy(*pair) for pair in zip(source[:2], copies, strict=True)]
    assert (await store.session("f")).origin == Origin("s", "s-m2")


async def test_M5_a_fork_goes_on_by_itself(store: Store) -> None:
    await fill(store)
    await store.commit([fork("s-m2"), SaveMessage(user(3, session_id="f", message_id="own"))])
    assert sequences(await newest(store, "f")) == [1, 2, 3]
    assert sequences(await newest(store)) == [1, 2, 3, 4]
    await store.commit([fork(new="g", old="f")])
    deep = await messages(store, "g")
    assert {message["origin"]["session_id"] for message in deep} == {"f"}
    assert (await store.session("g")).origin == Origin("f", "own")


async def test_M5_a_fork_of_an_empty_session_is_empty(store: Store) -> None:
    await store.commit([create()])
    await store.commit([fork()])
    record = await store.session("f")
    assert (record.message_count, record.origin) == (0, Origin("s"))


async def test_M7_what_is_still_being_written_is_not_copied(store: Store) -> None:
    await store.commit([create(), *save(user(1), agent(2, text("p", state="streaming"), state="streaming"), user(3))])
    await store.commit([fork()])
    assert sequences(await newest(store, "f")) == [1]
    for named in ("s-m2", "s-m3"):
        with pytest.raises(MessageOpen):
            await store.commit([fork(named, new="g")])
    with pytest.raises(NotFound):
        await store.session("g")


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (fork("nothing"), MessageNotFound),
        (fork("other-m1"), MessageNotFound),
        (fork(old="unknown"), NotFound),
        (fork(new="other"), ConstraintViolated),
        (fork(new="s"), ConstraintViolated),
    ],
    ids=["unknown message", "of another session", "unknown session", "taken", "itself"],
)
async def test_a_fork_that_cannot_be_made_changes_nothing(
    store: Store, operation: ForkSession, error: type[Exception]
) -> None:
    source = await fill(store)
    with pytest.raises(error):
        await store.commit([create("also"), operation])
    for session_id in ("also", "f"):
        with pytest.raises(NotFound):
            await store.session(session_id)
    assert await messages(store) == source


async def test_P2_fields_of_a_newer_writer_are_copied(store: Store) -> None:
    await fill(store)
    await store.commit([fork()])
    raw = (await newest(store, "f")).items[0].json.text
    assert b'"context":"</note>"' in raw
    assert b'"y":[null,true,-9007199254740991]' in raw


async def test_C2_summaries_of_what_is_copied_come_along(store: Store) -> None:
    await fill(store)
    for through in (1, 4):
        await store.context.save_summary(
            Summary(session_id="s", through_sequence=through, text=f"to {through}", created_at=NOW)
        )
    await store.commit([fork("s-m2")])
    assert await store.context.summary("f") == Summary(session_id="f", through_sequence=1, text="to 1", created_at=NOW)
