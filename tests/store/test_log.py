"""The write-ahead log beside other programs that read or lock the file: what it costs commits, and what is told (D1,
D3).
"""

import logging
import queue
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path

import apsw
import pytest
import trio

from store.builders import create, save, user
from turnwire.store import writer_thread
from turnwire.store.sqlite import SqliteStore, open_sqlite
from turnwire.store.writer import Writer
from turnwire.store.writer_thread import BUSY_MS, Doubt, Job, Outcome, WriterThread

PATIENCE_SECONDS = 60
COMMITS = 2 * PATIENCE_SECONDS * 1000 // BUSY_MS
"""So many are not done in time if each waits for another program as long as a locked file is waited for."""

GROWS = "its write-ahead log has to grow"


@pytest.fixture(autouse=True)
def every_commit_is_followed_by_a_checkpoint_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_thread, "CHECKPOINT_PAGES", 1)
    monkeypatch.setattr(writer_thread, "RESET_PAGES", 1)


@contextmanager
def reader(path: Path) -> Iterator[None]:
    """Another program that holds on to what it reads, such as a backup."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.execute("BEGIN; SELECT * FROM sessions").fetchall()
        yield


async def commit_many(store: SqliteStore, first: int) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        for sequence in range(first, first + COMMITS):
            await store.commit(save(user(sequence)))


async def test_D3_no_commit_waits_long_for_a_reader_that_stays_and_the_log_tells_of_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "turnwire.db"
    async with open_sqlite(path) as store:
        await store.commit([create()])
        for time in range(2):
            with reader(path), caplog.at_level(logging.WARNING):
                await commit_many(store, 1 + time * (COMMITS + 1))
            assert caplog.text.count(GROWS) == 1 + time
            await store.commit(save(user((1 + time) * (COMMITS + 1))))  # with nobody there the log begins anew


def insert(connection: apsw.Connection) -> None:
    connection.execute("INSERT INTO sessions VALUES (1)")


def open_numbers(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE sessions (number INTEGER)").fetchall()
    connection.set_busy_timeout(BUSY_MS)
    return connection


@asynccontextmanager
async def open_writer(path: Path) -> AsyncGenerator[Writer]:
    connection = open_numbers(path)
    writer = Writer(connection, trio.lowlevel.current_trio_token(), retry_seconds=PATIENCE_SECONDS)
    writer.start()
    try:
        yield writer
    finally:
        await writer.aclose()


async def insert_and_checkpoint(writer: Writer) -> None:
    await writer.run(insert)
    await writer.run(lambda it: None)  # begins when the checkpoint behind the other one is over


async def test_D1_a_file_that_is_locked_is_waited_for_as_long_as_before_such_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "numbers.db"
    async with open_writer(path) as writer:
        with reader(path):
            await insert_and_checkpoint(writer)
            assert await writer.run(lambda it: it.execute("PRAGMA busy_timeout").get) == BUSY_MS


async def test_D3_no_checkpoint_waits_for_readers_before_the_log_has_the_size_from_which_it_has_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "numbers.db"
    monkeypatch.setattr(writer_thread, "RESET_PAGES", 10)
    async with open_writer(path) as writer:
        with reader(path):
            while pages_in_log(path) < 9:
                await insert_and_checkpoint(writer)
            assert GROWS not in caplog.text
            await insert_and_checkpoint(writer)
            assert pages_in_log(path) == 10
            assert GROWS in caplog.text


def test_D3_a_reader_that_begins_at_the_end_of_the_log_is_waited_for_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It hinders no copying, but it keeps the log from beginning anew."""
    path = tmp_path / "numbers.db"
    jobs: queue.SimpleQueue[Job[None] | Doubt | None] = queue.SimpleQueue()
    first, second = Job(insert), Job(lambda it: None)
    with ExitStack() as readers:

        def report(outcome: Outcome) -> None:
            if outcome.group == [first]:  # what follows is the checkpoint
                readers.enter_context(reader(path))
                jobs.put(second)
                jobs.put(None)
            else:
                readers.close()

        jobs.put(first)
        WriterThread(open_numbers(path), jobs, report, retry_seconds=PATIENCE_SECONDS).run()
    assert GROWS in caplog.text


def pages_in_log(path: Path) -> int:
    """The log is a header of 32 bytes and then pages of 4096, each with a header of 24."""
    return (path.with_name(f"{path.name}-wal").stat().st_size - 32) // (4096 + 24)


async def test_W8_the_log_is_copied_at_the_end_although_another_program_has_the_file_open(tmp_path: Path) -> None:
    """SQLite itself does that only for the last one that closes the file."""
    path = tmp_path / "turnwire.db"
    async with open_sqlite(path) as store:
        await store.commit([create()])
        other = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        assert other.execute("SELECT count(*) FROM sessions").get == 1
    with closing(other):
        assert path.with_name(f"{path.name}-wal").stat().st_size == 0
