"""Checking, copying and migrating a file: what an operator is told, with a server on the file and without one."""

import os
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import trio

from command_line import turnwire, turnwire_here
from store.builders import agent, create, messages, newest, save, sequences, text, turn, user
from turnwire.store import maintenance
from turnwire.store.base import StoreIncompatible, StoreLocked, StoreUnavailable
from turnwire.store.maintenance import back_up, check_file, migrate_file
from turnwire.store.migrations import MIGRATIONS
from turnwire.store.sqlite import open_sqlite

NEXT = "CREATE TABLE later (number INTEGER) STRICT"
BROKEN = "CREATE TABLE sessions (number INTEGER) STRICT"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a Session of two Messages that no server uses."""
    path = tmp_path / "turnwire.db"

    async def fill() -> None:
        async with open_sqlite(path) as store:
            await store.commit([create(), *save(user(1), agent(2, text("p2")), turn("t"))])

    trio.run(fill)
    return path


def spoil(path: Path, statements: str) -> None:
    """Changes the file as a faulty program or disk would: no trigger and no constraint hinders it."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statements)
    connection.close()


def test_a_sound_file_has_no_faults(path: Path) -> None:
    assert check_file(path) == []
    answer = turnwire("db", "check", str(path))
    assert (answer.returncode, answer.stdout) == (0, f"{path}: sound\n")


@pytest.mark.parametrize(
    ("statements", "fault"),
    [
        ("DELETE FROM messages WHERE sequence = 1; DELETE FROM parts WHERE role = 'user'", "sequences 2 to 2 (M5)"),
        ("UPDATE sessions SET message_count = 3", "it counts 3 Messages, but has 2"),
        ("DELETE FROM parts WHERE role = 'agent'", "without Parts (M10)"),
        ("UPDATE messages SET visibility = 'internal' WHERE sequence = 1", "columns and its JSON do not agree"),
        ("UPDATE messages SET head = 'no json' WHERE sequence = 1", "columns and its JSON do not agree"),
        ("UPDATE parts SET json = '{' WHERE part_id = 'p2'", "part p2 of message"),
        (
            "UPDATE parts SET type = 'context', json = json_set(json, '$.type', 'context') WHERE part_id = 'p2'",
            "type context is none of role agent (P2)",
        ),
        ("DELETE FROM sessions", "belongs to no row of sessions"),
        (
            "UPDATE turns SET status = 'completed', started_at = 1, finished_at = 2;"
            " UPDATE messages SET unfinished = 1, turn_id = 't', head = json_set(head, '$.turn_id', 't')"
            " WHERE sequence = 2",
            "its turn t has finished (T2)",
        ),
        (
            "UPDATE turns SET status = 'running', started_at = 1;"
            " INSERT INTO turns (turn_id, session_id, status, created_at, started_at)"
            " VALUES ('u', 's', 'running', 1, 1)",
            "2 turns run at a time (T1)",
        ),
    ],
)
def test_what_breaks_a_rule_of_history_is_named(path: Path, statements: str, fault: str) -> None:
    spoil(path, statements)
    faults = check_file(path)
    assert any(fault in each for each in faults), faults
    answer = turnwire_here("db", "check", str(path))
    assert answer.returncode == 1
    assert fault in answer.stdout


def test_a_damaged_file_is_said_to_be_so(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for page in range(2 * 4096, len(data), 4096):
        data[page : page + 8] = b"\xff" * 8
    path.write_bytes(data)
    assert check_file(path)
    answer = turnwire_here("db", "check", str(path))
    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr


def test_what_is_no_file_of_ours_is_refused_with_a_sentence(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(b"this is not a database, however long it may be" * 100)
    empty = tmp_path / "empty.db"
    empty.touch()
    for task in ("check", "migrate"):
        answer = turnwire_here("db", task, str(other))
        assert (answer.returncode, answer.stderr) == (1, f"turnwire db {task}: {other} is not a database\n")
    assert "it has not been used" in turnwire_here("db", "check", str(empty)).stderr
    missing = turnwire_here("db", "check", str(tmp_path / "missing.db"))
    assert (missing.returncode, missing.stderr) == (
        1,
        f"turnwire db check: there is no file {tmp_path / 'missing.db'}\n",
    )
    assert not (tmp_path / "missing.db").exists()
    assert turnwire_here("db", "check").returncode == 2
    assert turnwire_here("db", "polish", str(other)).returncode == 2


async def test_a_backup_beside_a_server_that_writes_is_of_one_moment(tmp_path: Path) -> None:
    path, target = tmp_path / "turnwire.db", tmp_path / "copy.db"
    async with open_sqlite(path) as store:
        await store.commit([create()])
        for sequence in range(1, 41):
            await store.commit(save(user(sequence, parts=[text(f"p{sequence}", content="x" * 2**18)])))
        copied = trio.Event()
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                sequence = 40
                while not copied.is_set():
                    sequence += 1
                    await store.commit(save(user(sequence), turn(f"t{sequence}")))

            nursery.start_soon(write)
            await trio.to_thread.run_sync(back_up, path, target)
            copied.set()
        assert check_file(path) == []
    assert check_file(target) == []
    assert not (tmp_path / "copy.db-wal").exists()
    assert not (tmp_path / "copy.db.part").exists()
    async with open_sqlite(target) as copy:
        total = (await newest(copy)).total
        assert total >= 40
        turns = apsw.Connection(str(target)).execute("SELECT count(*) FROM turns").get
        assert turns == total - 40, "the same moment in every table"


async def test_a_backup_of_a_server_that_stands_still_is_equal(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    async with open_sqlite(path) as source:
        await source.commit([create(), *save(user(1), agent(2, text("p2")), turn("t"))])
        answer = await trio.to_thread.run_sync(turnwire, "db", "backup", str(path), str(tmp_path / "copy.db"))
        assert answer.returncode == 0, answer.stderr
        async with open_sqlite(tmp_path / "copy.db") as copy:
            assert await messages(copy, "s") == await messages(source, "s")


def test_a_backup_replaces_nothing_and_leaves_nothing_behind(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    answer = turnwire_here("db", "backup", str(path), str(target))
    assert answer.returncode == 1
    assert f"{target} exists" in answer.stderr
    assert target.read_text() == "precious"
    spoil(path, "DELETE FROM sessions")
    with pytest.raises(StoreUnavailable, match="damaged, as the file is"):
        back_up(path, tmp_path / "other.db")
    assert not list(tmp_path.glob("other.db*"))


def test_a_backup_names_the_place_that_it_cannot_be_made_at(path: Path, tmp_path: Path) -> None:
    """And not the database, which is well."""
    answer = turnwire_here("db", "backup", str(path), str(tmp_path / "no" / "where.db"))
    assert (answer.returncode, answer.stderr) == (1, f"turnwire db backup: there is no folder {tmp_path / 'no'}\n")
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "nowhere")
    answer = turnwire_here("db", "backup", str(path), str(link))
    assert answer.returncode == 1
    assert f"{link} exists" in answer.stderr


def test_a_backup_that_was_cut_off_does_not_hinder_the_next_one(path: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.db.part").write_text("what a process that was killed has left")
    back_up(path, tmp_path / "copy.db")
    assert check_file(tmp_path / "copy.db") == []
    assert not list(tmp_path.glob("*.part"))


def test_a_backup_is_on_the_disk_before_it_has_its_name_and_its_name_before_it_is_reported(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "copy.db"
    synced: list[tuple[int, bool]] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        synced.append((os.fstat(descriptor).st_ino, target.exists()))

    monkeypatch.setattr(os, "fsync", watched)
    back_up(path, target)
    assert synced == [(target.stat().st_ino, False), (tmp_path.stat().st_ino, True)]


def test_a_backup_does_not_replace_what_has_appeared_meanwhile(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"

    def interfere(_done: int, _total: int) -> None:
        target.write_text("precious")

    with pytest.raises(FileExistsError):
        back_up(path, target, progress=interfere)
    assert target.read_text() == "precious"
    assert not list(tmp_path.glob("*.part"))


def test_a_backup_does_not_begin_anew_when_the_file_is_written_to(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a copy of a large file that is written to all the time would never end."""
    monkeypatch.setattr(maintenance, "BACKUP_PAGES", 1)
    left: list[int] = []
    with closing(apsw.Connection(str(path))) as other:

        def write(done: int, total: int) -> None:
            left.append(total - done)
            assert len(left) <= total
            other.execute("UPDATE sessions SET title = ?", (f"title {done}",))

        back_up(path, tmp_path / "copy.db", progress=write)
    assert len(left) > 5
    assert left == sorted(left, reverse=True)
    with closing(apsw.Connection(str(tmp_path / "copy.db"))) as copy:
        assert copy.execute("SELECT title FROM sessions").get is None, "as it was when the copy began"


def test_a_file_of_the_newest_version_needs_no_migration(path: Path) -> None:
    answer = turnwire_here("db", "migrate", str(path))
    assert (answer.returncode, answer.stdout) == (0, f"{path}: version {len(MIGRATIONS)}, the newest one\n")


def test_a_rehearsal_changes_nothing_and_finds_what_would_fail(path: Path) -> None:
    versions = len(MIGRATIONS)
    before = path.read_bytes()
    assert migrate_file(path, dry_run=True, migrations=[*MIGRATIONS, NEXT]) == (versions, versions + 1)
    with pytest.raises(StoreUnavailable, match="cannot be brought to the newest version"):
        migrate_file(path, dry_run=True, migrations=[*MIGRATIONS, NEXT, BROKEN])
    assert path.read_bytes() == before
    assert migrate_file(path, dry_run=False, migrations=[*MIGRATIONS, NEXT]) == (versions, versions + 1)
    assert migrate_file(path, dry_run=False, migrations=[*MIGRATIONS, NEXT]) == (versions + 1, versions + 1)
    with pytest.raises(StoreIncompatible, match="install a newer one"):
        check_file(path)


async def test_D2_a_file_that_a_server_uses_is_not_migrated(path: Path) -> None:
    async with open_sqlite(path) as store:
        with pytest.raises(StoreLocked):
            migrate_file(path, dry_run=True)
        assert sequences(await newest(store)) == [1, 2]
