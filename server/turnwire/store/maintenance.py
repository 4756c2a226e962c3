"""What an operator does with a database file: check it, copy it while it is used, bring it to the newest version.

Blocking, and without a server: each function opens the file, does its work and closes it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import apsw

from turnwire.store.base import StoreIncompatible, StoreUnavailable
from turnwire.store.migrations import MIGRATIONS, check, migrate, rehearse, version_of
from turnwire.store.owner import OwnerLock
from turnwire.store.writer_thread import BUSY_MS, translated

BACKUP_PAGES: Final = 1024
"""How many pages are copied between two reports of progress."""

SHOWN: Final = 100
"""How many faults of one kind are told."""

_INVARIANTS: Final = (
    (
        "session {}: it counts {} Messages, but has {} with sequences {} to {} (M5)",
        """
        SELECT session_id, message_count, count(message_id), coalesce(min(sequence), 0), coalesce(max(sequence), 0)
        FROM sessions LEFT JOIN messages USING (session_id) GROUP BY session_id
        HAVING count(message_id) <> message_count OR coalesce(max(sequence), 0) <> message_count
            OR (message_count > 0 AND min(sequence) <> 1)
        """,
    ),
    (
        "message {} of session {}: an Agent Message without Parts (M10)",
        """
        SELECT message_id, session_id FROM messages WHERE role = 'agent'
            AND NOT EXISTS (SELECT 1 FROM parts WHERE parts.message_id = messages.message_id)
        """,
    ),
    (
        "message {} of session {}: its columns and its JSON do not agree",
        """
        SELECT message_id, session_id FROM messages WHERE NOT json_valid(head) OR (
            head ->> '$.message_id', head ->> '$.session_id', head ->> '$.role', head ->> '$.sequence',
            head ->> '$.revision', head ->> '$.visibility', head ->> '$.turn_id'
        ) IS NOT (message_id, session_id, role, sequence, revision, visibility, turn_id)
        """,
    ),
    (
        "part {} of message {}: its columns and its JSON do not agree",
        """
        SELECT part_id, message_id FROM parts WHERE NOT json_valid(json)
            OR (json ->> '$.part_id', json ->> '$.sequence', json ->> '$.type') IS NOT (part_id, sequence, type)
        """,
    ),
    (
        "part {} of message {}: type {} is none of role {} (P2)",
        """
        SELECT part_id, message_id, type, role FROM parts WHERE CASE role
            WHEN 'user' THEN type IN ('reasoning', 'tool', 'interaction', 'source', 'action', 'error')
            ELSE type = 'context' END
        """,
    ),
    (
        "message {} of session {}: it is open, but its turn {} has finished (T2)",
        """
        SELECT message_id, messages.session_id, turn_id FROM messages JOIN turns USING (turn_id, session_id)
        WHERE unfinished AND finished_at IS NOT NULL
        """,
    ),
    (
        "session {}: {} turns run at a time (T1)",
        "SELECT session_id, count(*) FROM turns WHERE status = 'running' GROUP BY session_id HAVING count(*) > 1",
    ),
)
"""What constraints cannot say, or a damaged file may hold in spite of them: a sentence, and a query for its fields."""


def check_file(path: Path) -> list[str]:
    """What is wrong with the file, as sentences; also while a server uses it. Empty: it is sound.

    Raises StoreIncompatible when it is not a database of this program's version, StoreUnavailable.
    """
    with _opened(path) as connection:
        _expect_newest(connection, path)
        try:
            return _damage(connection) or [fault for each in _INVARIANTS for fault in _faults(connection, *each)]
        except (apsw.CorruptError, apsw.NotADBError) as error:
            return [f"the file is damaged: {error}"]


def back_up(path: Path, target: Path, *, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
    """Copies the file as it is at one moment to `target`, also while a server writes to it.

    `progress` gets pages done and pages in all. The copy appears under its name when it is whole, on the disk and
    checked. Raises StoreUnavailable, FileExistsError when there is a `target` already, and FileNotFoundError when there
    is no folder for it.
    """
    if os.path.lexists(target):  # also a link that leads nowhere
        raise FileExistsError(f"{target} exists: give the path of a new file")
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.absolute().parent}")
    part = target.with_name(target.name + ".part")
    with ExitStack() as undo:
        source = undo.enter_context(_opened(path))
        try:
            undo.callback(part.unlink, missing_ok=True)
            part.unlink(missing_ok=True)
            _copy(source, part, progress)
            _sync(part)
            os.link(part, target)  # unlike a rename it never replaces what has appeared meanwhile
            _sync(target.absolute().parent)
        except apsw.Error as error:
            raise translated(error) from error


def migrate_file(path: Path, *, dry_run: bool, migrations: Sequence[str] = MIGRATIONS) -> tuple[int, int]:
    """Brings the file to the newest version; gives the version that it had, and the newest.

    `dry_run` does all of it in a transaction that is rolled back. Raises StoreLocked while a server uses the file,
    StoreIncompatible, and StoreUnavailable, also for a migration that fails; the version before it stands then.
    """
    _expect_file(path)
    lock = OwnerLock.acquire(path.resolve())
    try:
        with _opened(path, write=True) as connection:
            check(connection, str(path), migrations)
            connection.execute("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL")
            before = version_of(connection)
            try:
                (rehearse if dry_run else migrate)(connection, migrations)
            except apsw.Error as error:
                raise StoreUnavailable(f"{path} cannot be brought to the newest version: {error}") from error
            return before, len(migrations)
    finally:
        lock.release()


@contextmanager
def _opened(path: Path, *, write: bool = False) -> Iterator[apsw.Connection]:
    _expect_file(path)
    try:
        connection = apsw.Connection(
            str(path), flags=apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
        )
    except apsw.Error as error:
        raise translated(error) from error
    with closing(connection):
        connection.set_busy_timeout(BUSY_MS)
        yield connection


def _expect_file(path: Path) -> None:
    if not path.is_file():
        raise StoreUnavailable(f"there is no file {path}")


def _expect_newest(connection: apsw.Connection, path: Path) -> None:
    try:
        check(connection, str(path))
        version = version_of(connection)
    except apsw.Error as error:
        raise translated(error) from error
    if version != len(MIGRATIONS):
        raise StoreIncompatible(
            f"{path} has version {version} and not {len(MIGRATIONS)}: migrate it first"
            if version
            else f"{path} is empty: it has not been used by a server yet"
        )


def _damage(connection: apsw.Connection) -> list[str]:
    found = [str(text) for (text,) in connection.execute(f"PRAGMA integrity_check({SHOWN})") if text != "ok"]
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        found.append(f"row {row} of {table} belongs to no row of {parent}")
    return found[:SHOWN]


def _faults(connection: apsw.Connection, sentence: str, query: str) -> list[str]:
    return [sentence.format(*row) for row in connection.execute(f"{query} LIMIT {SHOWN}")]


def _copy(source: apsw.Connection, target: Path, progress: Callable[[int, int], None]) -> None:
    # A snapshot that is held makes the copy one of a single moment, and lets no writer make it begin again.
    source.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
    with closing(apsw.Connection(str(target))) as copy:
        with copy.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(BACKUP_PAGES)
                progress(backup.page_count - backup.remaining, backup.page_count)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()  # one whole file, without a log beside it
        damage = _damage(copy)
    if damage:
        raise StoreUnavailable(f"the copy is damaged, as the file is: {damage[0]}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
