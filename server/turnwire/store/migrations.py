"""The versions of the database file, and the way from each to the next.

The file says whose it is (`application_id`) and which version it has (`user_version`); a file that is not ours, or is
newer than this program, is refused before anything in it is touched.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

import apsw

from turnwire.store.base import StoreIncompatible

APPLICATION_ID: Final = int.from_bytes(b"TnWr", "big")

MIGRATIONS: Final[tuple[str, ...]] = tuple(
    files(__package__).joinpath(name).read_text() for name in ("schema.sql", "owners.sql", "requests.sql")
)
"""Script n leads from version n to version n + 1; a published script never changes."""


def check(connection: apsw.Connection, path: str, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Reads whose file this is. Raises StoreIncompatible, having changed nothing."""
    try:
        application, version = _number(connection, "application_id"), _number(connection, "user_version")
    except apsw.NotADBError:
        raise StoreIncompatible(f"{path} is not a database") from None
    if application != APPLICATION_ID:
        if application or version or _number(connection, "schema_version"):
            raise StoreIncompatible(f"{path} is a database of another application, not of Turnwire")
    elif version > len(migrations):
        raise StoreIncompatible(
            f"{path} has version {version}, this program knows versions up to {len(migrations)}: install a newer one"
        )


def migrate(connection: apsw.Connection, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Brings a checked file to the newest version, one transaction a step: a crash leaves a whole version."""
    for version in range(version_of(connection), len(migrations)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            _step(connection, version, migrations)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def rehearse(connection: apsw.Connection, migrations: Sequence[str] = MIGRATIONS) -> None:
    """As `migrate`, all in one transaction that is rolled back. Raises what `migrate` would raise."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(version_of(connection), len(migrations)):
            _step(connection, version, migrations)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def version_of(connection: apsw.Connection) -> int:
    """The version of a file; 0 for one that is empty."""
    return _number(connection, "user_version")


def _step(connection: apsw.Connection, version: int, migrations: Sequence[str]) -> None:
    connection.execute(migrations[version])
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version + 1}")


def _number(connection: apsw.Connection, pragma: str) -> int:
    value = connection.execute(f"PRAGMA {pragma}").get
    if not isinstance(value, int):
        raise StoreIncompatible(f"PRAGMA {pragma} gave {value!r}")
    return value
