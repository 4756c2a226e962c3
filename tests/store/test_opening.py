"""Opening a file: whose it is, which version it has, and who else has it open."""

import fcntl
import os
from pathlib import Path

import apsw
import pytest
import trio

from store.builders import create, newest, save, user
from store.child import child
from turnwire.store.base import StoreIncompatible, StoreLocked, StoreUnavailable
from turnwire.store.migrations import APPLICATION_ID, MIGRATIONS, check, migrate
from turnwire.store.owner import OwnerLock
from turnwire.store.sqlite import open_sqlite

PATIENCE_SECONDS = 60
OWNER = """
import sys, trio
from turnwire.store.sqlite import open_sqlite

async def main():
    async with open_sqlite(sys.argv[1]):
        print("open", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def open_and_close(path: Path) -> None:
    async with open_sqlite(path):
        pass


async def test_D2_a_second_process_is_refused_and_told_who_has_the_file(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with trio.fail_after(PATIENCE_SECONDS):
        async with child(OWNER, str(path)) as owner:
            assert await owner.line() == "open"
            for name in (path, link):
                with pytest.raises(StoreLocked, match=rf"{path} is in use by process {owner.process.pid} on "):
                    await open_and_close(name)
            await owner.kill()
            await open_and_close(path)


async def test_D2_one_process_opens_a_file_once_and_again_after_closing(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    for _ in range(2):
        async with open_sqlite(path):
            with pytest.raises(StoreLocked, match=f"process {os.getpid()} on "):
                await open_and_close(path)


async def test_opening_is_undone_when_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    path.write_bytes(b"not a database, but long enough to be read as a header " * 4)
    for _ in range(2):  # a lock that was left behind would show in the second round
        with pytest.raises(StoreIncompatible, match=f"{path} is not a database"):
            await open_and_close(path)


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"missing/turnwire\.db\.lock: No such file"):
        await open_and_close(tmp_path / "missing" / "turnwire.db")
    with pytest.raises(StoreUnavailable):
        await open_and_close(tmp_path)


@pytest.mark.parametrize(
    "script",
    ["CREATE TABLE theirs (x)", "PRAGMA application_id = 7", "PRAGMA user_version = 1", "PRAGMA user_version = -1"],
)
async def test_a_file_of_another_application_is_refused_untouched(tmp_path: Path, script: str) -> None:
    path = tmp_path / "theirs.db"
    theirs = apsw.Connection(str(path))
    theirs.execute(script)
    theirs.close()
    before = path.read_bytes()
    with pytest.raises(StoreIncompatible, match="another application"):
        await open_and_close(path)
    assert path.read_bytes() == before


async def test_a_newer_file_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    await open_and_close(path)
    newer = apsw.Connection(str(path))
    newer.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    newer.close()
    with pytest.raises(StoreIncompatible, match=rf"version {len(MIGRATIONS) + 1}, .* up to {len(MIGRATIONS)}: install"):
        await open_and_close(path)


async def test_an_empty_file_becomes_a_database_of_the_newest_version(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    path.touch()
    await open_and_close(path)
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA application_id").get == APPLICATION_ID
    assert connection.execute("PRAGMA user_version").get == len(MIGRATIONS)
    assert connection.execute("PRAGMA journal_mode").get == "wal"
    connection.close()


async def test_an_older_file_is_migrated_and_keeps_its_history(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    async with open_sqlite(path) as store:
        await store.commit([create(), *save(user(1))])
    connection = apsw.Connection(str(path))
    newer = (*MIGRATIONS, "ALTER TABLE sessions ADD COLUMN mood TEXT", "UPDATE sessions SET mood = 'new'")
    check(connection, str(path), newer)
    migrate(connection, newer)
    assert connection.execute("PRAGMA user_version").get == len(newer)
    assert connection.execute("SELECT mood, message_count FROM sessions").get == ("new", 1)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    connection.close()
    async with open_sqlite(path) as store:
        assert (await newest(store)).total == 1


def test_a_migration_that_fails_leaves_the_version_before_it() -> None:
    connection = apsw.Connection(":memory:")
    broken = (*MIGRATIONS, "CREATE TABLE half (x); SELECT * FROM nowhere")
    with pytest.raises(apsw.SQLError, match="nowhere"):
        migrate(connection, broken)
    assert connection.execute("PRAGMA user_version").get == len(MIGRATIONS)
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").get == 0
    connection.close()


async def test_a_cancelled_owner_closes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    async with trio.open_nursery() as nursery:
        opened = trio.Event()

        async def own() -> None:
            async with open_sqlite(path):
                opened.set()
                await trio.sleep_forever()

        nursery.start_soon(own)
        await opened.wait()
        nursery.cancel_scope.cancel()
    await open_and_close(path)
    assert not path.with_name("turnwire.db-wal").exists()


async def test_D2_whoever_closes_a_store_that_is_being_closed_waits_until_it_is(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    async with open_sqlite(path) as store, trio.open_nursery() as nursery:
        begun = trio.Event()

        async def close() -> None:
            begun.set()
            await store.aclose()

        nursery.start_soon(close)
        await begun.wait()
        await store.aclose()
        OwnerLock.acquire(path).release()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid":1}', b"7"])
def test_D2_a_file_whose_owner_has_not_said_its_name_is_refused_all_the_same(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    with open(f"{path}.lock", "wb") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        owner.write(content)
        owner.flush()
        with pytest.raises(StoreLocked, match="in use by another process"):
            OwnerLock.acquire(path)
