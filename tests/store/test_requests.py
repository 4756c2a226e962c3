"""Requests are remembered for a time, and then forgotten a few at once, in every kind of store (S9)."""

import apsw
import pytest

from store.builders import NOW, create
from turnwire.store.base import (
    FORGOTTEN_AT_ONCE,
    REQUEST_MEMORY_MS,
    ConstraintViolated,
    RequestRecord,
    SaveRequest,
    Store,
)
from turnwire.store.migrations import MIGRATIONS, migrate
from turnwire.store.writes import FORGET_REQUESTS
from turnwire_protocol.messages import StoredJson

OLD = FORGOTTEN_AT_ONCE + 3


def save(number: int, created_at: int, *, session_id: str = "s") -> SaveRequest:
    return SaveRequest(
        RequestRecord(
            session_id=session_id,
            client_request_id=f"r{number}",
            digest="d",
            answer=StoredJson(b"{}"),
            created_at=created_at,
        )
    )


async def remembered(store: Store, *, session_id: str = "s") -> list[int]:
    return [number for number in range(100) if await store.request(session_id, f"r{number}") is not None]


async def test_S9_requests_are_remembered_for_a_time_and_then_forgotten_oldest_first(store: Store) -> None:
    await store.commit([create("s"), create("other")])
    for number in range(OLD):
        await store.commit([save(number, NOW + number)])
    await store.commit([save(90, NOW + REQUEST_MEMORY_MS - 1, session_id="other")])
    assert await remembered(store) == list(range(OLD)), "a moment too early"
    await store.commit([save(91, NOW + OLD + REQUEST_MEMORY_MS, session_id="other")])
    assert await remembered(store) == list(range(FORGOTTEN_AT_ONCE, OLD)), "no commit has to forget more than a few"
    await store.commit([save(92, NOW + OLD + REQUEST_MEMORY_MS, session_id="other")])
    assert await remembered(store) == []
    assert await remembered(store, session_id="other") == [90, 91, 92]


async def test_S9_a_commit_that_fails_forgets_nothing(store: Store) -> None:
    await store.commit([create("s"), save(1, NOW), save(2, NOW + REQUEST_MEMORY_MS - 1)])
    with pytest.raises(ConstraintViolated):
        await store.commit([save(3, NOW + REQUEST_MEMORY_MS), save(2, NOW + REQUEST_MEMORY_MS)])
    assert await remembered(store) == [1, 2]


async def test_S9_what_was_forgotten_may_be_used_again(store: Store) -> None:
    await store.commit([create("s"), save(1, NOW), save(2, NOW + REQUEST_MEMORY_MS)])
    await store.commit([save(1, NOW + REQUEST_MEMORY_MS)])
    assert await remembered(store) == [1, 2]


def test_S9_to_forget_takes_as_long_whatever_is_remembered() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection)
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {FORGET_REQUESTS}", (NOW, FORGOTTEN_AT_ONCE))]
    assert [step for step in steps if step.startswith("SCAN")] == []
    assert any("INDEX requests_by_age (created_at<?)" in step for step in steps)
    assert any("PRIMARY KEY (session_id=? AND client_request_id=?)" in step for step in steps)


def test_S9_a_file_from_before_requests_had_an_age_keeps_them_and_forgets_the_old_ones() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, MIGRATIONS[:2])
    connection.execute(
        "INSERT INTO sessions (session_id, config, created_at, updated_at) VALUES ('s', '{}', 1, 1);"
        "INSERT INTO requests VALUES ('s', 'old', 'd', '{}', 1), ('s', 'new', 'd', '{}', 9)"
    )
    migrate(connection)
    connection.execute(FORGET_REQUESTS, (5, FORGOTTEN_AT_ONCE))
    assert connection.execute("SELECT client_request_id FROM requests").fetchall() == [("new",)]
