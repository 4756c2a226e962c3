"""A disk that is full or broken: refused loudly, nothing lost, and writing again as soon as it can be (D4)."""

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import apsw
import pytest
import trio

from store.builders import create, newest, save, sequences, text, turn, user
from turnwire.store.base import ConstraintViolated, StoreUnavailable
from turnwire.store.sqlite import open_sqlite

PATIENCE_SECONDS = 60
Fault: TypeAlias = type[apsw.Error]


class FaultyDisk(apsw.VFS):
    """The system's files, on a disk that can be told to fail."""

    def __init__(self) -> None:
        self.name = f"faulty-{id(self)}"
        self.writing: Fault | None = None
        self.syncing: Fault | None = None
        self.reading: Fault | None = None
        self.only = ""
        """Only files with names that end in this fail."""
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "FaultyFile":
        return FaultyFile(self, name, flags)


class FaultyFile(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else name or ""

    def xRead(self, amount: int, offset: int) -> bytes:
        self._check(self._disk.reading)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._check(self._disk.writing)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._check(self._disk.syncing)
        super().xSync(flags)

    def _check(self, fault: Fault | None) -> None:
        if fault is not None and self._name.endswith(self._disk.only):
            raise fault("the disk was told to fail")


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    disk = FaultyDisk()
    yield disk
    disk.unregister()


@pytest.mark.parametrize(
    "fault", [apsw.FullError, apsw.IOError, apsw.CorruptError, apsw.ReadOnlyError, apsw.CantOpenError]
)
@pytest.mark.parametrize("moment", ["writing", "syncing"])
async def test_D4_what_cannot_be_stored_is_not_acknowledged_and_the_next_success_ends_it(
    tmp_path: Path, disk: FaultyDisk, fault: Fault, moment: str
) -> None:
    async with open_sqlite(tmp_path / "turnwire.db", vfs=disk.name, retry_seconds=PATIENCE_SECONDS) as store:
        await store.commit([create(), *save(user(1))])
        commits = store.commits
        setattr(disk, moment, fault)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="database cannot be used"):
                await store.commit(save(user(2), turn("t")))
            assert store.problem
        assert store.commits == commits
        assert sequences(await newest(store)) == [1], "what is stored can be read meanwhile"
        setattr(disk, moment, None)
        await store.commit(save(user(2), turn("t")))
        assert store.problem is None
        assert sequences(await newest(store)) == [1, 2]
    async with open_sqlite(tmp_path / "turnwire.db") as store:
        assert sequences(await newest(store)) == [1, 2]
        assert await store.turn("t") == turn("t")


async def test_D4_a_store_recovers_by_itself(tmp_path: Path, disk: FaultyDisk) -> None:
    async with open_sqlite(tmp_path / "turnwire.db", vfs=disk.name, retry_seconds=0.01) as store:
        await store.commit([create()])
        disk.writing = apsw.FullError
        with pytest.raises(StoreUnavailable):
            await store.commit(save(user(1)))
        assert store.problem
        disk.writing = None
        with trio.fail_after(PATIENCE_SECONDS):
            await store.wait_writable()
        assert store.problem is None


async def test_D4_a_refused_commit_is_no_sign_that_writing_works_again(tmp_path: Path, disk: FaultyDisk) -> None:
    async with open_sqlite(tmp_path / "turnwire.db", vfs=disk.name, retry_seconds=PATIENCE_SECONDS) as store:
        await store.commit([create()])
        disk.writing = apsw.FullError
        with pytest.raises(StoreUnavailable):
            await store.commit(save(user(1)))
        with pytest.raises(ConstraintViolated):
            await store.commit([create()])
        assert store.problem, "nothing was written for it"
        disk.writing = None
        with pytest.raises(ConstraintViolated):
            await store.commit([create()])
        assert store.problem is None, "a probe was written before it"


async def test_D4_a_broken_disk_does_not_keep_the_store_from_closing(tmp_path: Path, disk: FaultyDisk) -> None:
    path = tmp_path / "turnwire.db"
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_sqlite(path, vfs=disk.name) as store:
            await store.commit([create()])
            disk.writing = disk.syncing = disk.reading = apsw.IOError
        disk.writing = disk.syncing = disk.reading = None
        async with open_sqlite(path, vfs=disk.name) as store:
            assert (await store.session("s")).session_id == "s"


async def test_D4_a_group_that_cannot_be_committed_fails_as_a_whole(tmp_path: Path, disk: FaultyDisk) -> None:
    async with open_sqlite(tmp_path / "turnwire.db", vfs=disk.name, retry_seconds=PATIENCE_SECONDS) as store:
        await store.commit([create(f"s{number}") for number in range(20)])
        failed: list[str] = []

        async def write(session_id: str) -> None:
            try:
                await store.commit(save(user(1, session_id=session_id)))
            except StoreUnavailable:
                failed.append(session_id)

        disk.syncing = apsw.IOError
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(write, f"s{number}")
        disk.syncing = None
        assert len(failed) == 20
        for session_id in failed:
            assert (await store.session(session_id)).message_count == 0
            await store.commit(save(user(1, session_id=session_id)))


async def test_D4_a_failing_checkpoint_loses_nothing(
    tmp_path: Path, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sqlite(tmp_path / "turnwire.db", vfs=disk.name) as store:
        await store.commit([create()])
        disk.only, disk.writing = "turnwire.db", apsw.FullError
        with caplog.at_level(logging.WARNING):
            for sequence in range(1, 8):
                await store.commit(save(user(sequence, parts=[text(f"p{sequence}", content="x" * 2**20)])))
        assert "could not be copied into the database file" in caplog.text
        assert store.problem is None
        disk.writing = None
    async with open_sqlite(tmp_path / "turnwire.db") as store:
        assert (await newest(store)).total == 7


@pytest.mark.parametrize("fault", [apsw.IOError, apsw.CorruptError])
async def test_D4_what_cannot_be_read_is_unavailable(tmp_path: Path, disk: FaultyDisk, fault: Fault) -> None:
    path = tmp_path / "turnwire.db"
    async with open_sqlite(path, vfs=disk.name) as store:
        await store.commit([create(), *save(user(1))])
    async with open_sqlite(path, vfs=disk.name) as store:
        disk.reading = fault
        with pytest.raises(StoreUnavailable):
            await newest(store)
        disk.reading = None
        assert sequences(await newest(store)) == [1]


@pytest.mark.parametrize("fault", [apsw.IOError, apsw.CorruptError])
async def test_D4_a_read_that_failed_is_a_problem_until_it_works_whatever_else_does(
    tmp_path: Path, disk: FaultyDisk, fault: Fault
) -> None:
    path = tmp_path / "turnwire.db"
    async with open_sqlite(path, vfs=disk.name) as store:
        await store.commit([create(), *save(user(1))])
    async with open_sqlite(path, vfs=disk.name, retry_seconds=0.01) as store:
        disk.reading = fault
        with pytest.raises(StoreUnavailable):
            await newest(store)
        disk.reading = None
        assert store.problem, "no other answer has come yet"
        with trio.fail_after(PATIENCE_SECONDS):
            await store.wait_writable()
        assert store.problem is None
        await store.commit(save(user(2)))
        assert sequences(await newest(store)) == [1, 2]


async def test_D4_a_damaged_page_is_a_problem_that_hinders_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    async with open_sqlite(path) as store:
        await store.commit([create("sound"), create("hurt")])
        for sequence in range(1, 21):
            parts = [text(f"p{sequence}", content="x" * 900)]
            await store.commit(save(user(sequence, session_id="hurt", parts=parts)))
    data = bytearray(path.read_bytes())
    page = data.index(b'"p8"') // 4096 * 4096  # neither the first nor the last of the table, where the next rows go
    data[page : page + 8] = b"\xff" * 8
    path.write_bytes(data)
    async with open_sqlite(path, retry_seconds=0.01) as store:
        with pytest.raises(StoreUnavailable):
            await newest(store, "hurt")
        for sequence in range(1, 4):
            await store.commit(save(user(sequence, session_id="sound")))
            assert store.problem, "what is damaged stays damaged"
        assert sequences(await newest(store, "sound")) == [1, 2, 3]


async def test_D4_what_this_program_cannot_read_is_told_as_a_trouble_of_the_file(tmp_path: Path) -> None:
    """Such as a row that another program has changed."""
    path = tmp_path / "turnwire.db"
    async with open_sqlite(path, retry_seconds=0.01) as store:
        await store.commit([create()])
        with closing(apsw.Connection(str(path))) as other:
            other.execute("""UPDATE sessions SET config = '{"approval_mode":7}'""")
        with pytest.raises(StoreUnavailable, match="holds what this program cannot read"):
            await store.session("s")
        assert store.problem
        with closing(apsw.Connection(str(path))) as other:
            other.execute("""UPDATE sessions SET config = '{"approval_mode":"ask"}'""")
        with trio.fail_after(PATIENCE_SECONDS):
            await store.wait_writable()
        assert (await store.session("s")).config.approval_mode == "ask"


async def test_D4_a_disk_that_fails_while_opening_leaves_nothing_open(tmp_path: Path, disk: FaultyDisk) -> None:
    disk.writing = apsw.FullError
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            async with open_sqlite(tmp_path / "turnwire.db", vfs=disk.name):
                pass
    disk.writing = None
    async with open_sqlite(tmp_path / "turnwire.db", vfs=disk.name) as store:
        await store.commit([create()])
