"""Owners of Sessions in every kind of store: who owns, what a listing shows of it, and how many one may own (X3)."""

import string

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.builders import KINDS, NOW, Kind, create, open_store, session
from turnwire.store.base import (
    ConstraintViolated,
    CreateSession,
    DeleteSession,
    ForkSession,
    Scope,
    Store,
    TooManySessions,
    UpdateSession,
)
from turnwire.store.migrations import MIGRATIONS, migrate
from turnwire.store.reads import SCOPED

OWNERS = ("ada", "bob", None)


async def names(store: Store, scope: Scope | None, *, limit: int = 200, archived: bool = False) -> list[str]:
    """All Sessions of the scope, page by page."""
    found: list[str] = []
    before: str | None = None
    while True:
        listing = await store.sessions(before=before, limit=limit, archived=archived, scope=scope)
        found += [record.session_id for record in listing.items]
        assert len(listing.items) == limit or not listing.has_more
        if not listing.has_more:
            return found
        before = listing.next_before


async def test_X3_the_owner_is_kept_and_no_update_changes_it(store: Store) -> None:
    await store.commit([create("s", owner="ada")])
    await store.commit([UpdateSession(session("s", owner="eve", title="Mine"))])
    record = await store.session("s")
    assert (record.owner, record.title) == ("ada", "Mine")


@pytest.mark.parametrize("kind", KINDS)
@given(
    sessions=st.dictionaries(
        st.text(string.ascii_lowercase, min_size=1, max_size=3),
        st.tuples(st.sampled_from(OWNERS), st.integers(0, 3), st.booleans()),
        max_size=15,
    ),
    named=st.frozensets(st.text(string.ascii_lowercase, min_size=1, max_size=3), max_size=4),
    data=st.data(),
    limit=st.integers(1, 4),
)
@settings(max_examples=25)
async def test_X3_a_scoped_listing_visits_what_it_covers_once_in_order_and_nothing_else(
    kind: Kind,
    sessions: dict[str, tuple[str | None, int, bool]],
    named: frozenset[str],
    data: st.DataObject,
    limit: int,
) -> None:
    if sessions:
        named |= data.draw(st.frozensets(st.sampled_from(sorted(sessions)), max_size=4))
    async with open_store(kind) as store:
        for name, (owner, time, archived) in sessions.items():
            record = session(name, owner=owner, updated_at=time, archived_at=NOW if archived else None)
            await store.commit([CreateSession(record)])
        for archived in (False, True):
            covered = [
                name
                for name, (owner, _, is_archived) in sessions.items()
                if is_archived == archived and (owner == "ada" or name in named)
            ]
            found = await names(store, Scope("ada", named), limit=limit, archived=archived)
            assert found == sorted(covered, key=lambda name: (-sessions[name][1], name))


async def test_X3_one_owner_has_so_many_sessions_and_no_more(store: Store) -> None:
    await store.commit([create("a", owner="ada"), create("b", owner="bob")])
    await store.commit([CreateSession(session("c", owner="ada", archived_at=NOW), most=2)])
    with pytest.raises(TooManySessions):
        await store.commit([create("x", owner="bob"), CreateSession(session("d", owner="ada"), most=2)])
    with pytest.raises(TooManySessions):
        await store.commit([ForkSession(session_id="b", new_session_id="d", now=NOW, owner="ada", most=2)])
    assert await names(store, None) == ["a", "b"], "nothing of a refused commit is stored"
    with pytest.raises(ConstraintViolated):
        await store.commit([CreateSession(session("a", owner="bob"), most=2)])
    await store.commit([DeleteSession("a"), CreateSession(session("d", owner="ada"), most=2)])
    await store.commit([ForkSession(session_id="d", new_session_id="e", now=NOW, owner="bob", most=2)])
    assert (await store.session("e")).owner == "bob"


@pytest.mark.parametrize("archived", [False, True])
def test_Z5_a_scoped_listing_searches_indexes_and_sorts_only_what_it_gives(archived: bool) -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {SCOPED[archived]}", (NOW, "", 51, "ada", "[]"))]
    searched = [step for step in plan if step.startswith("SEARCH sessions")]
    assert len(searched) == 2
    assert "(owner=? AND updated_at<?)" in searched[0], "the owner's, in the order of the listing"
    assert "(session_id=?)" in searched[1], "one look-up for each that is named"
    assert not [step for step in plan if step.startswith("SCAN sessions")]


def test_X3_a_file_from_before_there_were_owners_has_none_and_keeps_its_sessions() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, MIGRATIONS[:1])
    connection.execute("INSERT INTO sessions (session_id, config, created_at, updated_at) VALUES ('s', '{}', 1, 1)")
    migrate(connection)
    assert connection.execute("SELECT session_id, owner FROM sessions").fetchall() == [("s", None)]
    with pytest.raises(apsw.ConstraintError, match="never changes"):
        connection.execute("UPDATE sessions SET owner = 'eve'")
