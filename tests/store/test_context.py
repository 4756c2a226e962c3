"""The Composer's part of a store: summaries that go with their Session, and history that it cannot touch (C1, C2)."""

from pathlib import Path
from typing import Any

import apsw
import pytest
import trio
from msgspec.structs import replace

from store.builders import NOW, agent, create, messages, newest, save, turn, user
from turnwire.store.base import ConstraintViolated, DeleteSession, NotFound, Store, StoreUnavailable
from turnwire.store.context import Summary
from turnwire.store.context_sqlite import DERIVED, restrict
from turnwire.store.migrations import migrate
from turnwire.store.rows import prepare
from turnwire.store.sqlite import open_sqlite
from turnwire.store.writes import apply_all


def summary(through: int = 2, text: str = "They met.", **fields: Any) -> Summary:
    values: dict[str, Any] = {"session_id": "s", "created_at": NOW} | fields
    return Summary(through_sequence=through, text=text, **values)


async def history(store: Store, session_id: str = "s") -> None:
    await store.commit([create(session_id), *save(*(user(n, session_id=session_id) for n in (1, 2, 3)))])


async def test_C2_the_summary_that_reaches_furthest_is_given_back(store: Store) -> None:
    await history(store)
    assert await store.context.summary("s") is None
    for each in (summary(2), summary(3, "naïve \u0000 🙂"), summary(1)):
        await store.context.save_summary(each)
    assert await store.context.summary("s") == summary(3, "naïve \u0000 🙂")
    await store.context.save_summary(summary(3, "again", created_at=NOW + 1))
    assert await store.context.summary("s") == summary(3, "again", created_at=NOW + 1)
    assert await store.context.summary("other") is None


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (summary(session_id="x"), NotFound),
        (summary(4), ConstraintViolated),
        (summary(0), ConstraintViolated),
        (summary(text=" \n"), ConstraintViolated),
        (summary(text="\ud800"), ConstraintViolated),
        (summary(created_at=-1), ConstraintViolated),
    ],
    ids=["no session", "beyond the last", "before the first", "empty", "surrogate", "time"],
)
async def test_C2_a_summary_of_nothing_is_refused(store: Store, wrong: Summary, error: type[Exception]) -> None:
    await history(store)
    with pytest.raises(error):
        await store.context.save_summary(wrong)
    assert await store.context.summary("s") is None


async def test_T3_turns_that_were_stopped_before_they_began_are_told_from_all_others(store: Store) -> None:
    await store.commit([create()])
    for turn_id, statuses in {
        "queued": ["queued"],
        "running": ["running"],
        "completed": ["running", "completed"],
        "stopped": ["running", "stopped"],
        "cancelled": ["queued", "stopped"],
        "failed": ["queued", "failed"],
    }.items():
        never_begun: dict[str, Any] = {"started_at": None} if "queued" in statuses else {}
        await store.commit(save(*(turn(turn_id, status, **never_begun) for status in statuses)))
    everyone = ["queued", "running", "completed", "stopped", "cancelled", "failed", "unknown"]
    assert await store.context.cancelled_turns(everyone) == {"cancelled"}
    assert await store.context.cancelled_turns(["queued"]) == frozenset()


async def test_M4_summaries_are_in_no_page_and_change_none(store: Store) -> None:
    await history(store)
    before = await newest(store)
    await store.context.save_summary(summary())
    assert (
        await newest(store)
        == before
        == await store.context.page("s", before_sequence=None, limit=50, include_internal=True)
    )
    await store.commit(save(user(4)))
    assert [message["sequence"] for message in await messages(store)] == [1, 2, 3, 4]


async def test_C2_summaries_go_with_their_session(store: Store) -> None:
    await history(store)
    await history(store, "other")
    for session_id in ("s", "other"):
        await store.context.save_summary(summary(session_id=session_id))
    await store.commit([DeleteSession("s")])
    assert await store.context.summary("s") is None
    assert await store.context.summary("other") == summary(session_id="other")
    await history(store)
    assert await store.context.summary("s") is None


async def test_C1_a_closed_store_takes_no_summary(store: Store) -> None:
    await history(store)
    await store.aclose()
    with pytest.raises(StoreUnavailable):
        await store.context.save_summary(summary())
    with pytest.raises(StoreUnavailable):
        await store.context.summary("s")


async def test_C2_summaries_outlive_the_process(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "t.db") as store:
        await history(store)
        await store.context.save_summary(summary())
    async with open_sqlite(tmp_path / "t.db") as store:
        assert await store.context.summary("s") == summary()


# ------------------------------------------------------------------------------------- the connection of the Composer


@pytest.fixture
def connection() -> apsw.Connection:
    """A database with one Session of each kind of row, on a connection that is restricted from then on."""
    connection = apsw.Connection(":memory:")
    connection.execute("PRAGMA foreign_keys = ON")
    migrate(connection)
    operations = [create(), *save(user(1), agent(2), turn("t", "running"))]
    apply_all(connection, [prepare(operation) for operation in operations])
    restrict(connection)
    return connection


def tables(connection: apsw.Connection) -> list[str]:
    return [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]


def test_C1_the_composers_connection_can_write_to_no_table_of_history(connection: apsw.Connection) -> None:
    canonical = [name for name in tables(connection) if not name.startswith(DERIVED)]
    assert {"sessions", "messages", "parts", "turns", "requests"} <= set(canonical)
    for table in canonical:
        before = connection.execute(f"SELECT * FROM {table}").fetchall()
        for statement in (
            f"INSERT INTO {table} (session_id) VALUES ('x')",
            f"REPLACE INTO {table} (session_id) VALUES ('x')",
            f"UPDATE {table} SET session_id = 'x'",
            f"DELETE FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE {table} ADD COLUMN more",
        ):
            with pytest.raises(apsw.AuthError):
                connection.execute(statement)
        assert connection.execute(f"SELECT * FROM {table}").fetchall() == before


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA writable_schema = ON",
        "PRAGMA foreign_keys = OFF",
        "ATTACH ':memory:' AS context_other",
        "CREATE TABLE context_more (x)",
        "CREATE TEMP TRIGGER context_t AFTER INSERT ON context_summaries BEGIN DELETE FROM parts; END",
        "DROP TABLE context_summaries",
        "UPDATE sqlite_schema SET sql = ''",
        "VACUUM",
    ],
)
def test_C1_the_composers_connection_has_no_way_round(connection: apsw.Connection, statement: str) -> None:
    with pytest.raises(
        (apsw.AuthError, apsw.SQLError), match=r"not authorized|authorization denied|may not be modified"
    ):
        connection.execute(statement)


def test_C1_the_composers_connection_can_write_its_own_tables(connection: apsw.Connection) -> None:
    connection.execute("INSERT INTO context_summaries VALUES ('s', 1, 'text', 1)")
    connection.execute("UPDATE context_summaries SET text = 'other'")
    assert connection.execute("SELECT text FROM context_summaries").get == "other"
    connection.execute("DELETE FROM context_summaries")
    assert connection.execute("SELECT count(*) FROM context_summaries").get == 0


def test_C1_a_trigger_on_its_tables_gives_the_composer_no_way_round() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection)
    apply_all(connection, [prepare(operation) for operation in [create(), *save(user(1))]])
    connection.execute(
        "CREATE TRIGGER context_t AFTER INSERT ON context_summaries BEGIN UPDATE sessions SET title = 'x'; END"
    )
    restrict(connection)
    with pytest.raises(apsw.AuthError):
        connection.execute("INSERT INTO context_summaries VALUES ('s', 1, 'text', 1)")


@pytest.mark.parametrize("database", ["temp", "other"])
def test_C1_a_table_with_such_a_name_in_another_database_is_none_of_the_composers(database: str) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute(f"ATTACH ':memory:' AS other; CREATE TABLE {database}.context_more (number INTEGER)")
    restrict(connection)
    with pytest.raises(apsw.AuthError):
        connection.execute("INSERT INTO context_more VALUES (1)")
    assert connection.execute("SELECT count(*) FROM context_more").get == 0


async def test_C1_the_open_stores_connection_is_the_restricted_one(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "t.db") as store:
        await history(store)
        before = await newest(store)
        connection = store.context._connection  # type: ignore[attr-defined]
        with pytest.raises(apsw.AuthError):
            connection.execute("DELETE FROM messages")
        assert await newest(store) == before


async def test_C1_a_summary_saved_while_history_is_written_waits_its_turn(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "t.db") as store:
        await history(store)

        async def write() -> None:
            for revision in range(2, 60):
                await store.commit(save(replace(user(1), revision=revision)))

        async def summarise() -> None:
            for number in range(20):
                await store.context.save_summary(summary(2, f"number {number}"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            nursery.start_soon(summarise)
        saved = await store.context.summary("s")
        assert saved is not None
        assert saved.text == "number 19"
        assert (await messages(store))[0]["revision"] == 59
