"""A `turnwire` whose SQLite runs on a disk that fails on command. Run by tests as a program.

The environment variable `FAULTS` names a file. While it holds two words, such as `write full` or `sync hang`, every
such operation of SQLite on a database or its log fails with that error, or never returns. `RESERVE` is how many seconds
a stop may hang before it is ended by force.
"""

import os
import threading
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from turnwire import cli
from turnwire.stopping import Watchdog

FAULTS: Final = "TURNWIRE_TEST_FAULTS"
RESERVE: Final = "TURNWIRE_TEST_RESERVE_SECONDS"
PROGRAM: Final = (__file__,)

_ERRORS: Final[dict[str, type[apsw.Error]]] = {
    "full": apsw.FullError,
    "io": apsw.IOError,
    "corrupt": apsw.CorruptError,
    "readonly": apsw.ReadOnlyError,
}


class FaultyDisk(apsw.VFS):
    """The system's files, for all connections of this process that name no other."""

    def __init__(self, faults: Path) -> None:
        self._faults = faults
        self.base = apsw.vfs_names()[0]
        super().__init__("faulty", self.base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "FaultyFile":
        return FaultyFile(self, name, flags)

    def check(self, operation: str) -> None:
        """Fails, or hangs, if the operation was told to."""
        what = self._faults.read_text().split()
        if what and what[0] == operation:
            if what[1] == "hang":
                threading.Event().wait()
            raise _ERRORS[what[1]]("the disk was told to fail")


class FaultyFile(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(disk.base, name, flags)
        self._disk = disk

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.check("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.check("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._disk.check("sync")
        super().xSync(flags)


if __name__ == "__main__":
    _disk = FaultyDisk(Path(os.environ[FAULTS]))
    _impatient = partial(Watchdog, reserve_seconds=float(os.environ[RESERVE]))
    cli.Watchdog = _impatient  # type: ignore[assignment, attr-defined]
    cli.main()
