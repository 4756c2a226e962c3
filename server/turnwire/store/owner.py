"""One process for each database file: the lock beside it, and the name of who holds it (D2)."""

import fcntl
import json
import os
import socket
from pathlib import Path
from typing import BinaryIO

from turnwire.store.base import StoreLocked, StoreUnavailable


class OwnerLock:
    """An exclusive lock on `<path>.lock`, held until `release` or the end of the process, however it ends.

    The file stays when the lock is gone: removing it would let two processes hold locks on two files of one name.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    @classmethod
    def acquire(cls, database: Path) -> "OwnerLock":
        """Raises StoreLocked when another one holds it, StoreUnavailable when the lock file cannot be opened."""
        path = database.with_name(database.name + ".lock")
        try:
            file = open(path, "a+b", buffering=0)  # noqa: SIM115 - held open for as long as the lock is held
        except OSError as error:
            raise StoreUnavailable(f"cannot open {path}: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with file:
                raise StoreLocked(f"{database} is in use by {_owner(file)}; stop it, or use another file") from None
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
        return cls(file)

    def release(self) -> None:
        """Idempotent."""
        self._file.close()


def _owner(file: BinaryIO) -> str:
    file.seek(0)
    try:
        owner = json.loads(file.read())
        return f"process {owner['pid']} on {owner['host']}"
    except (ValueError, KeyError, TypeError):  # it has the lock, but has not written its name yet
        return "another process"
