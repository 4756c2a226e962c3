"""`turnwire db`: check, back up and migrate a database file from the command line."""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from turnwire.store.base import StoreIncompatible, StoreLocked, StoreUnavailable
from turnwire.store.maintenance import back_up, check_file, migrate_file

EXIT_FAILURE: Final = 1

EXAMPLES: Final = """\
examples:
  turnwire db check turnwire.db
      integrity, references and the rules of history; also while a server runs
  turnwire db backup turnwire.db backups/today.db
      a copy of one moment, checked; also while a server runs
  turnwire db migrate --dry-run turnwire.db
      whether the newest version can be reached, changing nothing; `serve` migrates by itself

exit codes:
  0  done: the file is sound, copied, or of the newest version
  1  it is not, or that cannot be done; a sentence says why
  2  wrong arguments
"""


def add_parser(commands: Any) -> None:
    """Adds `db` to the commands of `turnwire`."""
    parser = commands.add_parser(
        "db",
        help="check, back up or migrate a database file",
        description="Checks, backs up or migrates a database file.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")
    check = tasks.add_parser("check", help="say what is wrong with the file, if anything", allow_abbrev=False)
    backup = tasks.add_parser("backup", help="copy the file while it is used", allow_abbrev=False)
    migrate = tasks.add_parser("migrate", help="bring the file to the newest version", allow_abbrev=False)
    for each in (check, backup, migrate):
        each.add_argument("path", metavar="PATH", type=Path, help="the file that `serve --data` names")
    backup.add_argument("target", metavar="TARGET", type=Path, help="the file to make; it must not exist")
    migrate.add_argument("--dry-run", action="store_true", help="try it, and change nothing")


def run(options: argparse.Namespace) -> int:
    """Does one task and says what came of it; returns the exit code."""
    try:
        match options.task:
            case "check":
                return _check(options.path)
            case "backup":
                return _back_up(options.path, options.target)
            case _:
                return _migrate(options.path, dry_run=options.dry_run)
    except (StoreIncompatible, StoreLocked, StoreUnavailable, OSError) as error:
        print(f"turnwire db {options.task}: {error}", file=sys.stderr)
        return EXIT_FAILURE


def _check(path: Path) -> int:
    faults = check_file(path)
    for fault in faults:
        print(f"{path}: {fault}")
    if not faults:
        print(f"{path}: sound")
    return EXIT_FAILURE if faults else 0


def _back_up(path: Path, target: Path) -> int:
    back_up(path, target, progress=_show if sys.stderr.isatty() else _keep_still)
    print(f"{target}: a copy of {path}, {target.stat().st_size} bytes")
    return 0


def _migrate(path: Path, *, dry_run: bool) -> int:
    before, newest = migrate_file(path, dry_run=dry_run)
    if before == newest:
        print(f"{path}: version {newest}, the newest one")
    elif dry_run:
        print(f"{path}: version {before} can be brought to version {newest}; nothing was changed")
    else:
        print(f"{path}: brought from version {before} to version {newest}")
    return 0


def _show(done: int, total: int) -> None:
    print(f"\r{done} of {total} pages", end="\n" if done == total else "", file=sys.stderr, flush=True)


def _keep_still(done: int, total: int) -> None:
    pass
