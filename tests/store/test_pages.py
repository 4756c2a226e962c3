"""Pages of history and listings of Sessions: complete, bounded, and stable while more is written."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.builders import KINDS, NOW, Kind, agent, create, newest, open_store, save, sequences, session, text, user
from turnwire.store.base import MAX_PAGE, PAGE_BYTES, CreateSession, Store, UpdateSession
from turnwire_protocol.messages import Visibility


async def test_M3_a_page_is_ascending_and_its_total_counts_the_whole_session(store: Store) -> None:
    await store.commit([create(), *save(*(user(n) for n in range(1, 8)))])
    page = await newest(store, limit=3)
    assert (sequences(page), page.total, page.has_more) == ([5, 6, 7], 7, True)
    page = await store.page("s", before_sequence=5, limit=3, include_internal=True)
    assert (sequences(page), page.total, page.has_more) == ([2, 3, 4], 7, True)
    page = await store.page("s", before_sequence=2, limit=3, include_internal=True)
    assert (sequences(page), page.total, page.has_more) == ([1], 7, False)
    page = await store.page("s", before_sequence=1, limit=3, include_internal=True)
    assert (sequences(page), page.total, page.has_more) == ([], 7, False)
    page = await store.page("s", before_sequence=999, limit=7, include_internal=True)
    assert (sequences(page), page.has_more) == ([1, 2, 3, 4, 5, 6, 7], False)


async def test_M3_an_empty_session_has_an_empty_page(store: Store) -> None:
    await store.commit([create()])
    page = await newest(store)
    assert (page.items, page.total, page.has_more) == ((), 0, False)


async def test_M4_limit_counts_what_is_returned_and_internal_messages_are_asked_for(store: Store) -> None:
    internal = {2, 3, 4, 6}
    await store.commit(
        [create(), *save(*(user(n, visibility="internal" if n in internal else "visible") for n in range(1, 8)))]
    )
    page = await store.page("s", before_sequence=None, limit=3, include_internal=False)
    assert (sequences(page), page.total, page.has_more) == ([1, 5, 7], 7, False)
    page = await store.page("s", before_sequence=7, limit=1, include_internal=False)
    assert (sequences(page), page.total, page.has_more) == ([5], 7, True)
    page = await store.page("s", before_sequence=None, limit=3, include_internal=True)
    assert sequences(page) == [5, 6, 7]


@pytest.mark.parametrize("limit", [-1, 0, MAX_PAGE + 1])
async def test_M2_a_limit_out_of_range_is_refused(store: Store, limit: int) -> None:
    await store.commit([create()])
    with pytest.raises(ValueError, match="limit"):
        await newest(store, limit=limit)
    with pytest.raises(ValueError, match="limit"):
        await store.sessions(before=None, limit=limit, archived=False)


async def test_M2_before_sequence_is_positive(store: Store) -> None:
    await store.commit([create()])
    with pytest.raises(ValueError, match="before_sequence"):
        await store.page("s", before_sequence=0, limit=1, include_internal=True)


async def test_W10_a_page_ends_at_its_bytes_but_always_holds_a_message(store: Store) -> None:
    third = PAGE_BYTES // 3
    sizes = [10, 2 * PAGE_BYTES, 10, third, third, third]
    await store.commit(
        [create(), *save(*(user(n, parts=[text(f"p{n}", content="x" * size)]) for n, size in enumerate(sizes, 1)))]
    )
    seen = []
    before: int | None = None
    while True:
        page = await store.page("s", before_sequence=before, limit=50, include_internal=True)
        seen.append(sequences(page))
        if not page.has_more:
            break
        before = page.items[0].sequence
    assert seen == [[5, 6], [3, 4], [2], [1]]


async def test_M1_a_page_never_splits_a_message(store: Store) -> None:
    parts = [text(f"p{n}", n, state="done") for n in range(1, 300)]
    await store.commit([create(), *save(user(1), agent(2, *parts))])
    page = await newest(store, limit=1)
    assert page.items[0].json.text.count(b'"part_id"') == 299


@pytest.mark.parametrize("kind", KINDS)
@given(
    start=st.integers(0, 20), limit=st.integers(1, 7), appended=st.lists(st.integers(0, 4), max_size=12), data=st.data()
)
@settings(max_examples=25)
async def test_M3_paging_visits_every_message_once_while_new_ones_come(
    kind: Kind, start: int, limit: int, appended: list[int], data: st.DataObject
) -> None:
    internal = data.draw(st.sets(st.integers(1, 20)))

    def visibility(n: int) -> Visibility:
        return "internal" if n in internal else "visible"

    async with open_store(kind) as store:
        await store.commit([create(), *save(*(user(n, visibility=visibility(n)) for n in range(1, start + 1)))])
        include_internal = data.draw(st.booleans())
        visited: list[int] = []
        before: int | None = None
        count = start
        while True:
            page = await store.page("s", before_sequence=before, limit=limit, include_internal=include_internal)
            assert page.total == count
            assert len(page.items) <= limit
            visited = sequences(page) + visited
            if not page.has_more:
                break
            before = page.items[0].sequence
            for _ in range(appended.pop() if appended else 0):
                count += 1
                await store.commit(save(user(count)))
        assert visited == [n for n in range(1, start + 1) if include_internal or n not in internal]


async def test_listing_is_newest_first_and_ties_go_by_id(store: Store) -> None:
    await store.commit(
        [create("b", updated_at=5), create("a", updated_at=5), create("d", updated_at=9), create("c", updated_at=1)]
    )
    await store.commit(save(user(1, session_id="c")))
    listing = await store.sessions(before=None, limit=50, archived=False)
    assert [record.session_id for record in listing.items] == ["c", "d", "a", "b"]
    assert (listing.has_more, listing.next_before) == (False, None)
    assert listing.items[0] == await store.session("c")


async def test_listing_separates_archived_sessions(store: Store) -> None:
    await store.commit([create("a"), create("b"), UpdateSession(session("b", archived_at=NOW))])
    for archived, expected in ((False, "a"), (True, "b")):
        listing = await store.sessions(before=None, limit=50, archived=archived)
        assert [record.session_id for record in listing.items] == [expected]


@pytest.mark.parametrize("kind", KINDS)
@given(
    times=st.dictionaries(
        st.text(string.ascii_letters + string.digits + "_.:-", min_size=1, max_size=128), st.integers(0, 3), max_size=15
    ),
    limit=st.integers(1, 6),
)
@settings(max_examples=25)
async def test_listing_visits_every_resting_session_once(kind: Kind, times: dict[str, int], limit: int) -> None:
    async with open_store(kind) as store:
        await store.commit([CreateSession(session(name, updated_at=time)) for name, time in times.items()])
        visited: list[str] = []
        before: str | None = None
        while True:
            listing = await store.sessions(before=before, limit=limit, archived=False)
            visited += [record.session_id for record in listing.items]
            assert listing.has_more == (listing.next_before is not None)
            if not listing.has_more:
                break
            before = listing.next_before
            # Activity moves this one to the top, out of the way of the cursor; nothing is seen twice or left out.
            await store.commit([UpdateSession(session(visited[0], updated_at=NOW))])
        assert visited == sorted(times, key=lambda name: (-times[name], name))


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "é", "MTI", "OmE", "LTE6YQ", "MTI6", "MSAyOmE", "4pyT", "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA6YQ", "/+=="],
)
async def test_W9_a_cursor_that_was_never_given_out_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(ValueError, match="before: not a cursor"):
        await store.sessions(before=cursor, limit=1, archived=False)


async def test_W9_the_longest_cursor_fits_into_a_request(store: Store) -> None:
    names = ["x" * 128, "y" * 128]
    await store.commit([create(name, updated_at=2**53 - 1) for name in names])
    listing = await store.sessions(before=None, limit=1, archived=False)
    assert listing.next_before is not None
    assert len(listing.next_before) <= 200
    listing = await store.sessions(before=listing.next_before, limit=1, archived=False)
    assert [record.session_id for record in listing.items] == names[1:]
