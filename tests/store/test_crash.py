"""`kill -9` of a process that commits without pause: what was acknowledged is there once, in a whole file (K8)."""

import random
from pathlib import Path

import apsw
import msgspec
import pytest
import trio

from store.builders import NOW
from store.child import child
from turnwire.store.base import NotFound
from turnwire.store.sqlite import SqliteStore, open_sqlite

ROUNDS = 10
SESSIONS = 4
WRITER = """
import sys, trio
sys.path.insert(0, sys.argv[2])
from store.builders import agent, create, save, text, turn, user
from turnwire.store.base import NotFound
from turnwire.store.sqlite import open_sqlite

async def write(store, session_id):
    try:
        sequence = (await store.session(session_id)).message_count
    except NotFound:
        await store.commit([create(session_id)])
        sequence = 0
    while True:
        at = dict(session_id=session_id, turn_id=f"{session_id}-t{sequence + 1}")
        prompt, answer = user(sequence + 1, **at), text(f"{session_id}-a{sequence + 2}", state="streaming")
        await store.commit(save(prompt, turn(at["turn_id"], "running", session_id=session_id)))
        print(prompt.message_id, 1, flush=True)
        await store.commit(save(agent(sequence + 2, answer, state="streaming", **at)))
        print(f"{session_id}-m{sequence + 2}", 1, flush=True)
        done = agent(sequence + 2, text(answer.part_id, state="done"), revision=3, **at)
        await store.commit(save(done, turn(at["turn_id"], "completed", session_id=session_id)))
        print(done.message_id, 3, flush=True)
        sequence += 2

async def main():
    async with open_sqlite(sys.argv[1]) as store:
        await store.recover(1)
        async with trio.open_nursery() as nursery:
            for number in range(int(sys.argv[3])):
                nursery.start_soon(write, store, f"s{number}")

trio.run(main)
"""


@pytest.mark.parametrize("seed", [8])
async def test_K8_nothing_acknowledged_is_lost_and_nothing_is_there_twice(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "turnwire.db"
    chance = random.Random(seed)
    acknowledged: dict[str, int] = {}
    for _ in range(ROUNDS):
        acknowledged.update(await _write_until_killed(path, lines=chance.randint(1, 150)))
        _check_integrity(path)
        async with open_sqlite(path) as store:
            stored = await _stored_revisions(store)
            assert {name: stored.get(name, 0) >= revision for name, revision in acknowledged.items()} == dict.fromkeys(
                acknowledged, True
            )
            await store.recover(NOW)
            assert (await store.recover(NOW)).sessions == 0
    assert len(acknowledged) > ROUNDS


async def _write_until_killed(path: Path, *, lines: int) -> dict[str, int]:
    acknowledged: dict[str, int] = {}
    with trio.fail_after(60):
        async with child(WRITER, str(path), str(Path(__file__).parent.parent), str(SESSIONS)) as writer:
            while len(acknowledged) < lines and (line := await writer.line()) is not None:
                message_id, revision = line.split()
                acknowledged[message_id] = int(revision)
            await writer.kill()
            while (line := await writer.line()) is not None:  # what it had said before the kill counts as well
                message_id, revision = line.split()
                acknowledged[message_id] = int(revision)
    return acknowledged


def _check_integrity(path: Path) -> None:
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


async def _stored_revisions(store: SqliteStore) -> dict[str, int]:
    """Each Message's revision; that each comes once, and none is missing in between, is checked on the way."""
    revisions: dict[str, int] = {}
    for number in range(SESSIONS):
        try:
            total = (await store.session(f"s{number}")).message_count
        except NotFound:
            continue
        before: int | None = total + 1
        while before is not None and before > 1:
            page = await store.page(f"s{number}", before_sequence=before, limit=200, include_internal=True)
            assert [item.sequence for item in page.items] == list(range(before - len(page.items), before))
            for item in page.items:
                assert item.message_id not in revisions
                revisions[item.message_id] = item.revision
                assert msgspec.json.decode(item.json.text)["revision"] == item.revision
            before = page.items[0].sequence
    return revisions
