"""What is special to the file: constraints that hold for any program, plans that do not grow, rows left alone."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest
import trio

from store.builders import NOW, agent, create, messages, newest, save, text, turn, user
from turnwire.store import reads
from turnwire.store.base import DeleteSession, Operation, Scope
from turnwire.store.migrations import migrate
from turnwire.store.reads import LISTINGS, PAGES
from turnwire.store.rows import ONLY_AGENT, ONLY_USER, prepare
from turnwire.store.sqlite import SqliteStore, open_sqlite
from turnwire.store.writes import apply_all, recover_one
from turnwire_protocol.codec import encode_json
from turnwire_protocol.messages import Message
from turnwire_protocol.parts import AGENT_PART_TYPES, USER_PART_TYPES


@pytest.fixture
def connection() -> Iterator[apsw.Connection]:
    """A database with two Messages, as any program that opens the file has it."""
    connection = apsw.Connection(":memory:")
    connection.execute("PRAGMA foreign_keys = ON")
    migrate(connection)
    operations = [create(), create("b"), *save(user(1), agent(2), turn("t", "running")), *save(turn("t", "failed"))]
    apply_all(connection, [prepare(operation) for operation in operations])
    yield connection
    connection.close()


PATIENCE_SECONDS = 60


def add_part(connection: apsw.Connection, role: str, type: str, *, message_id: str, session_id: str = "s") -> None:
    values = (session_id, message_id, role, "x", 9, type, "{}")
    connection.execute(f"INSERT INTO parts VALUES ({', '.join('?' * len(values))})", values)


@pytest.mark.parametrize("type", sorted(USER_PART_TYPES | AGENT_PART_TYPES | {"hologram"}))
def test_P2_the_database_refuses_the_other_roles_parts_and_takes_unknown_ones(
    connection: apsw.Connection, type: str
) -> None:
    for role, message_id, foreign in (("user", "s-m1", ONLY_AGENT), ("agent", "s-m2", ONLY_USER)):
        connection.execute("BEGIN")
        if type in foreign:
            with pytest.raises(apsw.ConstraintError, match="type_by_role"):
                add_part(connection, role, type, message_id=message_id)
        else:
            add_part(connection, role, type, message_id=message_id)
        connection.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("role", "message_id", "session_id"),
    [("agent", "s-m1", "s"), ("user", "s-m2", "s"), ("user", "s-m1", "b"), ("user", "unknown", "s")],
)
def test_P2_a_part_belongs_to_a_message_of_its_role_and_session(
    connection: apsw.Connection, role: str, message_id: str, session_id: str
) -> None:
    with pytest.raises(apsw.ConstraintError, match="FOREIGN KEY"):
        add_part(connection, role, "text", message_id=message_id, session_id=session_id)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET sequence = 3, revision = 2 WHERE sequence = 2",
        "UPDATE messages SET message_id = 'x', revision = 2 WHERE sequence = 2",
        "UPDATE messages SET session_id = 'b', revision = 2 WHERE sequence = 2",
        "UPDATE messages SET role = 'user', revision = 2 WHERE sequence = 2",
        "UPDATE messages SET created_at = 0, revision = 2 WHERE sequence = 2",
        "UPDATE messages SET visibility = 'internal'",
        "UPDATE messages SET revision = 2",
        "UPDATE messages SET revision = 2, head = '{}'",
        "DELETE FROM messages WHERE sequence = 2",
        "UPDATE parts SET sequence = 2",
        "UPDATE parts SET part_id = 'x' WHERE message_id = 's-m1'",
        "UPDATE parts SET message_id = 's-m2' WHERE message_id = 's-m1'",
        "UPDATE turns SET status = 'running', finished_at = NULL",
        "UPDATE turns SET status = 'completed'",
        "INSERT INTO turns (turn_id, session_id, status, created_at, finished_at) VALUES ('u', 's', 'failed', 1, 1)",
        "INSERT INTO turns (turn_id, session_id, status, created_at) VALUES ('u', 's', 'lost', 1)",
        "INSERT INTO turns (turn_id, session_id, status, created_at) VALUES ('u', 's', 'running', 1)",
        "UPDATE sessions SET config = '{'",
        "UPDATE sessions SET message_count = 'three'",
    ],
)
def test_M5_no_program_can_break_history(connection: apsw.Connection, statement: str) -> None:
    with pytest.raises(apsw.ConstraintError):
        connection.execute(statement)


def test_M5_the_database_numbers_messages_without_holes(connection: apsw.Connection) -> None:
    copy = """INSERT INTO messages
        SELECT 'x', session_id, turn_id, role, ?1, 1, visibility, created_at, updated_at, unfinished, preview,
        json_set(head, '$.message_id', 'x', '$.sequence', ?1) FROM messages WHERE sequence = 2"""
    for sequence in (1, 2, 4, 0, -1):
        with pytest.raises(apsw.ConstraintError, match="next sequence"):
            connection.execute(copy, (sequence,))
    connection.execute(copy, (3,))
    assert connection.execute("SELECT message_count FROM sessions WHERE session_id = 's'").get == 3


def test_S3_a_part_that_did_not_change_is_not_written_again(connection: apsw.Connection) -> None:
    first = agent(3, *(text(f"p{n}", n) for n in range(1, 6)))
    apply_all(connection, [prepare(operation) for operation in save(first)])
    written: list[tuple[int, str]] = []
    connection.set_update_hook(lambda action, database, table, rowid: written.append((action, table)))
    changed = [text("p1"), text("p3", 3, "other"), text("p4", 4), text("p5", 5), text("p6", 6)]
    apply_all(connection, [prepare(operation) for operation in save(agent(3, *changed, revision=2))])
    connection.set_update_hook(None)
    assert sorted(action for action, table in written if table == "parts") == sorted(
        [apsw.SQLITE_DELETE, apsw.SQLITE_UPDATE, apsw.SQLITE_INSERT]
    )


def test_S5_the_stored_columns_say_what_the_json_says(connection: apsw.Connection) -> None:
    apply_all(connection, [prepare(operation) for operation in save(agent(2, text("a", 3), revision=4, turn_id="t"))])
    rows = connection.execute("SELECT json, part_id, sequence, type FROM parts").fetchall()
    for json, part_id, sequence, type in rows:
        part = msgspec.json.decode(str(json))
        assert (part["part_id"], part["sequence"], part["type"]) == (part_id, sequence, type)
    assert connection.execute("SELECT turn_id, revision, unfinished FROM messages WHERE sequence = 2").get == (
        "t",
        4,
        0,
    )


@pytest.mark.parametrize("include_internal", [False, True])
@pytest.mark.parametrize("archived", [False, True])
def test_Z5_pages_and_listings_search_an_index_and_sort_nothing(
    connection: apsw.Connection, include_internal: bool, archived: bool
) -> None:
    for query, values in ((PAGES[include_internal], ("s", 100, 51)), (LISTINGS[archived], (NOW, "", 51))):
        plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
        # What is sorted for group_concat are the Parts of one Message; the Session's length is no part of it.
        bounded = ("CORRELATED SCALAR SUBQUERY", "USE TEMP B-TREE FOR group_concat")
        steps = [step for step in plan if not step.startswith(bounded)]
        assert steps, plan
        assert all(step.startswith("SEARCH") and " USING " in step for step in steps), plan


def instructions(connection: apsw.Connection, work: Callable[[apsw.Connection], object]) -> int:
    """How many instructions SQLite's machine runs for `work`, to about ten: a cost that no clock disturbs."""
    count = 0

    def step() -> bool:
        nonlocal count
        count += 10
        return False

    connection.set_progress_handler(step, 10)
    work(connection)
    connection.set_progress_handler(None, 10)
    return count


def writing(*operations: Operation) -> Callable[[apsw.Connection], object]:
    prepared = [prepare(operation) for operation in operations]
    return lambda connection: apply_all(connection, prepared)


def costs_after(connection: apsw.Connection, length: int) -> dict[str, int]:
    """What each kind of work costs in a Session of `length` Messages."""
    for n in range(1, length + 1):
        apply_all(connection, [prepare(operation) for operation in save(agent(n, session_id="long"))])
    works: dict[str, Callable[[apsw.Connection], object]] = {
        "append": writing(*save(agent(length + 1, session_id="long"))),
        "save again": writing(*save(agent(length + 1, text("x"), state="streaming", revision=2, session_id="long"))),
        "turn": writing(*save(turn(f"t{length}", "running", session_id="long"))),
        "session": lambda connection: reads.session(connection, "long"),
        "listing": lambda connection: reads.listing(connection, None, 50, False),
        "listing of a scope": lambda connection: reads.listing(
            connection, None, 50, False, Scope("me", frozenset({"long"}))
        ),
        "page": lambda connection: reads.page(connection, "long", None, 10, False),
        "page with internal ones": lambda connection: reads.page(connection, "long", length // 2, 10, True),
        "unfinished": lambda connection: reads.unfinished_sessions(connection),
        "recovery": lambda connection: recover_one(connection, "long", NOW),
    }
    return {name: instructions(connection, work) for name, work in works.items()}


def test_Z5_no_cost_grows_with_the_session(connection: apsw.Connection) -> None:
    costs: dict[int, dict[str, int]] = {}
    for length in (30, 600):
        apply_all(connection, [prepare(create("long"))])
        costs[length] = costs_after(connection, length)
        apply_all(connection, [prepare(DeleteSession("long"))])
    assert all(cost > 0 for cost in costs[30].values())
    grown = {name: (cost, costs[600][name]) for name, cost in costs[30].items() if costs[600][name] > cost * 1.1 + 50}
    assert grown == {}


def test_Z5_deleting_a_session_costs_the_same_for_each_message(connection: apsw.Connection) -> None:
    each: dict[int, float] = {}
    for length in (30, 600):
        apply_all(connection, [prepare(create("long"))])
        costs_after(connection, length)
        each[length] = instructions(connection, writing(DeleteSession("long"))) / length
    assert each[600] < each[30] * 1.1


async def test_P2_what_a_newer_writer_stored_is_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    async with open_sqlite(path) as store:
        await store.commit([create(), *save(user(1), agent(2, text("a", state="streaming"), state="streaming"))])
    newer = apsw.Connection(str(path))
    newer.execute("PRAGMA foreign_keys = ON")
    part = '{"type":"hologram","part_id":"h","sequence":7,"depth": 1.0}'
    newer.execute("INSERT INTO parts VALUES ('s', 's-m2', 'agent', 'h', 7, 'hologram', ?)", (part,))
    newer.execute("UPDATE messages SET revision = 2, head = json_set(head, '$.revision', 2, '$.mood', 'new')")
    newer.close()
    async with open_sqlite(path) as store:
        (_, item) = (await newest(store)).items
        assert part.encode() in item.json.text
        assert (await messages(store))[1]["mood"] == "new"
        await store.recover(NOW)
        (_, recovered) = await messages(store)
        assert (recovered["mood"], recovered["parts"][1]) == ("new", msgspec.json.decode(part))


async def test_the_file_is_whole_to_other_sqlites_too(tmp_path: Path) -> None:
    """An operator has the one of the system, which may be older: to it `json_valid(NULL)` is 0, not NULL."""
    path = tmp_path / "turnwire.db"
    async with open_sqlite(path) as store:
        await store.commit([create(), *save(user(1), turn("t", "running"))])
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_M1_history_outlives_the_process(tmp_path: Path) -> None:
    stored: list[Message] = [user(1), agent(2)]
    async with open_sqlite(tmp_path / "turnwire.db") as store:
        await store.commit([create(), *save(*stored, turn("t"))])
    assert not (tmp_path / "turnwire.db-wal").exists(), "closing leaves one whole file"
    async with open_sqlite(tmp_path / "turnwire.db") as store:
        assert [item.json for item in (await newest(store)).items] == [encode_json(message) for message in stored]
        assert await store.turn("t") == turn("t")


async def test_D3_the_log_does_not_grow_with_what_is_written(tmp_path: Path) -> None:
    log = tmp_path / "turnwire.db-wal"
    async with open_sqlite(tmp_path / "turnwire.db") as store:
        await store.commit([create()])
        sizes = [await _append_mebibytes(store, log, first) for first in range(1, 41, 4)]
        assert max(sizes) < 12 * 2**20
        reader = apsw.Connection(str(tmp_path / "turnwire.db"), flags=apsw.SQLITE_OPEN_READONLY)
        reader.execute("BEGIN; SELECT * FROM sessions").fetchall()
        pinned = [await _append_mebibytes(store, log, first) for first in range(41, 61, 4)]
        assert max(pinned) > 20 * 2**20, "a reader that stays keeps the log"
        reader.close()
        assert await _append_mebibytes(store, log, 61) > 0
        assert await _append_mebibytes(store, log, 65) <= 16 * 2**20, "and it shrinks when the reader is gone"


async def _append_mebibytes(store: SqliteStore, log: Path, first: int) -> int:
    for sequence in range(first, first + 4):
        await store.commit(save(user(sequence, parts=[text(f"p{sequence}", content="x" * 2**20)])))
    return (await trio.Path(log).stat()).st_size


async def test_T3_nobody_need_wait_for_a_read_that_hangs_and_closing_does(connection: apsw.Connection) -> None:
    """A read cannot be interrupted, but given up: its connection is used again, and closed, once it has ended."""
    reached, gate = threading.Event(), threading.Event()
    readers = reads.Readers([connection], lambda read, sentence: None)

    def hang(connection: apsw.Connection) -> None:
        reached.set()
        assert gate.wait(PATIENCE_SECONDS)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(readers.run, hang)
        await trio.to_thread.run_sync(reached.wait)
        nursery.cancel_scope.cancel()
    with trio.CancelScope() as impatient:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(readers.run, lambda connection: reads.session(connection, "s"))
            await trio.testing.wait_all_tasks_blocked()
            impatient.cancel()
    assert impatient.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(readers.aclose)
        await trio.testing.wait_all_tasks_blocked()
        assert connection.execute("SELECT 1").get == 1, "it is in use, so it is not closed yet"
        gate.set()
    with pytest.raises(apsw.ConnectionClosedError):
        connection.execute("SELECT 1")
