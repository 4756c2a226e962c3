"""Files of every older version, as older programs wrote them, are brought to the newest one with all that they hold."""

import hashlib
from pathlib import Path

import apsw
import msgspec
import pytest

from command_line import turnwire, turnwire_here
from harness import server_process, wire_client
from store.builders import NOW, messages
from turnwire.store.base import StoreIncompatible
from turnwire.store.maintenance import check_file
from turnwire.store.migrations import MIGRATIONS, migrate
from turnwire.store.sqlite import open_sqlite

NEWEST = len(MIGRATIONS)
OLDER = range(1, NEWEST)

PUBLISHED = (
    "7c6749344c96e3a27821157bfb1803fc64e62c3568e0cc3771e33b0e2cc29949",
    "303aa0f2890bdacbf073016bc59f5762ce8f67eb9cbde7e07ff919c8342f8b95",
    "c8a63f2120947b3de95f4baeb7833cf6fb7b0e391ac725f72cdaeface31c908f",
)
"""SHA-256 of each script. A new script adds a line; a line never changes, since files exist that it has made."""

PARTS = (
    ("user", "p1", {"part_id": "p1", "sequence": 1, "type": "text", "text": "Where to?"}),
    ("agent", "p2", {"part_id": "p2", "sequence": 1, "type": "text", "text": "To the ", "state": "streaming"}),
)


def test_a_published_script_is_never_changed() -> None:
    assert tuple(hashlib.sha256(script.encode()).hexdigest() for script in MIGRATIONS) == PUBLISHED


def old_file(path: Path, version: int) -> None:
    """A file of this version with a Session whose Turn a crash cut off, in the columns that every version has."""
    connection = apsw.Connection(str(path))
    migrate(connection, MIGRATIONS[:version])
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(
        "INSERT INTO sessions (session_id, title, config, created_at, updated_at) VALUES ('s', 'Trip', ?, ?, ?)",
        ('{"approval_mode":"ask"}', NOW, NOW),
    )
    for sequence, (role, part_id, part) in enumerate(PARTS, start=1):
        state = {} if role == "user" else {"state": "streaming"}
        head = {
            "message_id": f"m{sequence}",
            "session_id": "s",
            "turn_id": "t",
            "sequence": sequence,
            "revision": sequence,
            "role": role,
            **state,
            "visibility": "visible",
            "created_at": NOW,
            "updated_at": NOW,
        }
        connection.execute(
            "INSERT INTO messages (message_id, session_id, turn_id, role, sequence, revision, visibility, created_at,"
            " updated_at, unfinished, preview, head) VALUES (?, 's', 't', ?, ?, ?, 'visible', ?, ?, ?, ?, ?)",
            (
                f"m{sequence}",
                role,
                sequence,
                sequence,
                NOW,
                NOW,
                int(role == "agent"),
                part["text"],
                msgspec.json.encode(head).decode(),
            ),
        )
        connection.execute(
            "INSERT INTO parts (session_id, message_id, role, part_id, sequence, type, json)"
            " VALUES ('s', ?, ?, ?, 1, 'text', ?)",
            (f"m{sequence}", role, part_id, msgspec.json.encode(part).decode()),
        )
    connection.execute(
        "INSERT INTO turns (turn_id, session_id, status, created_at, started_at) VALUES ('t', 's', 'running', ?, ?)",
        (NOW, NOW),
    )
    connection.execute("INSERT INTO requests VALUES ('s', 'r', 'digest', '{\"outcome\":\"started\"}', ?)", (NOW,))
    connection.execute("INSERT INTO context_summaries VALUES ('s', 1, 'They want to go.', ?)", (NOW,))
    connection.close()


def described(path: Path) -> tuple[object, list[object]]:
    """The version of a file, and its whole schema."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    version = connection.execute("PRAGMA user_version").get
    rows: list[object] = [
        *connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")
    ]
    connection.close()
    return version, rows


def fresh(path: Path) -> tuple[object, list[object]]:
    connection = apsw.Connection(str(path))
    migrate(connection)
    connection.close()
    return described(path)


async def read(path: Path) -> None:
    """All that the older program wrote is there, and what it left open is brought to its end (S7)."""
    async with open_sqlite(path) as store:
        recovered = await store.recover(NOW + 1)
        assert (recovered.sessions, recovered.turns) == (1, 1)
        session = await store.session("s")
        assert (session.title, session.message_count, session.owner) == ("Trip", 2, None)
        asked, answered = await messages(store)
        assert [part["text"] for part in asked["parts"]] == ["Where to?"]
        assert answered["state"] == "done"
        assert [part["type"] for part in answered["parts"]] == ["text", "error"]
        known = await store.request("s", "r")
        assert known is not None
        assert known.digest == "digest"
        summary = await store.context.summary("s")
        assert summary is not None
        assert summary.text == "They want to go."


@pytest.mark.parametrize("version", OLDER)
async def test_S7_a_file_of_an_older_version_is_opened_with_all_that_it_holds(version: int, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    old_file(path, version)
    assert described(path)[0] == version
    await read(path)
    assert described(path) == fresh(tmp_path / "new.db"), "as if it had been made today"
    assert check_file(path) == []


@pytest.mark.parametrize("version", OLDER)
async def test_turnwire_db_migrate_brings_an_older_file_to_the_newest_version(version: int, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    old_file(path, version)
    before = described(path)
    with pytest.raises(StoreIncompatible, match="migrate"):
        check_file(path)
    answer = turnwire_here("db", "migrate", "--dry-run", str(path))
    told = f"{path}: version {version} can be brought to version {NEWEST}; nothing was changed\n"
    assert (answer.returncode, answer.stdout) == (0, told)
    assert described(path) == before
    answer = turnwire_here("db", "migrate", str(path))
    told = f"{path}: brought from version {version} to version {NEWEST}\n"
    assert (answer.returncode, answer.stdout) == (0, told)
    answer = turnwire_here("db", "migrate", str(path))
    assert (answer.returncode, answer.stdout) == (0, f"{path}: version {NEWEST}, the newest one\n")
    assert described(path) == fresh(tmp_path / "new.db")
    await read(path)


@pytest.mark.parametrize("version", OLDER)
async def test_S7_a_server_serves_what_an_older_one_stored(version: int, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    old_file(path, version)
    async with server_process(path) as server, wire_client(server.url) as client:
        view = await client.subscribe("s")
        assert [message["sequence"] for message in view.messages] == [1, 2]
        assert view.messages[-1]["parts"][-1]["code"] == "runtime_interrupted"
        receipt = await client.request("prompt", session_id="s", text="/echo On", client_request_id="r2")
        assert receipt["sequence"] == 3
        await client.turn_finished(receipt["turn_id"])
        assert await server.terminate() == 0
    assert check_file(path) == []


@pytest.mark.parametrize("command", [("serve", "--port", "0", "--data"), ("db", "check"), ("db", "migrate")])
def test_a_file_of_a_newer_version_is_refused_by_a_sentence_and_left_as_it_is(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "new.db"
    connection = apsw.Connection(str(path))
    migrate(connection, (*MIGRATIONS, "CREATE TABLE later (number INTEGER) STRICT"))
    connection.close()
    before = path.read_bytes()
    answer = (turnwire if "serve" in command else turnwire_here)(*command, str(path))
    assert answer.returncode == 1
    assert f"{path} has version {NEWEST + 1}, this program knows versions up to {NEWEST}" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert path.read_bytes() == before
