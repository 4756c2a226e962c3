"""What a Turn has changed in files: net changes from any thread, within bounds of memory (L5, Z4)."""

import random
import threading
import tracemalloc
from typing import Any

import pytest
import trio
from msgspec import UNSET
from trio.testing import MockClock

from changed_files import Step, changed, counts, summary
from turnwire.tools.base import PATCH_BYTES
from turnwire.tools.file_changes import (
    KEPT_BYTES,
    LIST_BYTES,
    NAMES_BYTES,
    QUICK_CHARACTERS,
    SUMMARY_SECONDS,
    FileChanges,
)
from turnwire.tools.plain import json_size
from turnwire_protocol.mutations import FileChange
from virtual_time import time_waits_for_threads


def test_L5_the_first_before_and_the_last_after_count() -> None:
    found = summary(("b", "1\n", "2\n"), ("a", None, "x\n"), ("b", "2\n", "3\n4\n"), ("c", "x\ny", None))
    assert counts(found) == [("b", "modified", 2, 1), ("a", "added", 1, 0), ("c", "deleted", 0, 2)]
    assert (found.additions, found.deletions) == (3, 3)
    assert found.files[0].patch == "--- a/b\n+++ b/b\n@@ -1,1 +1,2 @@\n-1\n+3\n+4\n"


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [("a", "1", "2"), ("a", "2", "1")],
        [("a", None, "2"), ("a", "2", None)],
        [("a", "1", None), ("a", None, "1")],
        [("a", "1", "1")],
    ],
)
def test_L5_what_is_as_before_in_the_end_drops_out(steps: list[Step]) -> None:
    changes = FileChanges()
    for step in steps:
        changes.changed(*step)
    assert changes.summary() is None


def test_L5_an_empty_file_is_a_change_without_lines() -> None:
    assert counts(summary(("a", None, ""))) == [("a", "added", 0, 0)]


def test_L5_changes_come_from_any_thread() -> None:
    changes = FileChanges()
    threads = [threading.Thread(target=changes.changed, args=(f"{n}", None, "x")) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = changes.summary()
    assert found is not None
    assert found.additions == 50


# ------------------------------------------------------------------------------------------------------------- bounds


def test_Z4_files_beyond_the_bound_are_counted_and_not_named() -> None:
    steps = [(f"{number:01000}", None, "x\n") for number in range(200)]
    found = summary(*steps)
    whole = FileChange(path=steps[0][0], status="added", additions=1, deletions=0)
    assert len(found.files) == LIST_BYTES // json_size(whole)
    assert found.additions == 200


def test_Z4_a_summary_of_very_many_files_is_small() -> None:
    changes = FileChanges()
    for number in range(20_000):
        changes.changed(f"{number:x}", "a\n", "b\n")
    found = changes.summary()
    assert found is not None
    assert (found.additions, found.deletions) == (20_000, 20_000)
    assert json_size(found) < LIST_BYTES + PATCH_BYTES + 1_000


def lined(*words: str) -> str:
    return "".join(f"{word}\n" for word in words)


@pytest.mark.parametrize("kept_bytes", [0, 100, 10**6])
def test_Z4_files_that_are_not_kept_are_counted_all_the_same(kept_bytes: int) -> None:
    changes = FileChanges(kept_bytes=kept_bytes)
    for step in [
        ("new", None, lined(*"abc")),
        ("edited", lined(*"abcdef"), lined(*"abXdef")),
        ("gone", lined(*"ab"), None),
        ("back", lined(*"abc"), lined(*"xyz")),
        ("back", lined(*"xyz"), lined(*"abc")),
        ("brief", None, "x\n"),
        ("brief", "x\n", None),
    ]:
        changes.changed(*step)
    found = changes.summary()
    assert found is not None
    assert counts(found) == [("new", "added", 3, 0), ("edited", "modified", 1, 1), ("gone", "deleted", 0, 2)]
    assert (found.additions, found.deletions) == (4, 3)
    has_patch = [file.patch is not UNSET for file in found.files]
    assert has_patch == {0: [False] * 3, 100: [True, False, False], 10**6: [True] * 3}[kept_bytes]


def test_Z4_a_file_that_grows_out_of_the_room_counts_every_change_from_its_first() -> None:
    changes = FileChanges(kept_bytes=5_000)
    text = ""
    for number in range(1_000):
        grown = text + f"line {number}\n"
        changes.changed("log", text if number else None, grown)
        text = grown
    found = changes.summary()
    assert found is not None
    assert counts(found) == [("log", "added", 1_000, 0)]
    changes.changed("log", text, None)
    assert changes.summary() is None


def test_Z4_room_is_given_back_when_texts_become_shorter() -> None:
    changes = FileChanges(kept_bytes=3_000)
    changes.changed("a", None, "x" * 2_000)
    changes.changed("a", "x" * 2_000, "y\n")
    changes.changed("b", None, "z" * 2_000)
    found = changes.summary()
    assert found is not None
    assert [file.patch is not UNSET for file in found.files] == [True, True]


def test_Z4_names_beyond_the_bound_are_counted_under_no_name() -> None:
    changes = FileChanges(names_bytes=2_000)
    for number in range(50):
        changes.changed(f"{number}", "old\n", "new\n")
    found = changes.summary()
    assert found is not None
    assert 0 < len(found.files) < 5
    assert (found.additions, found.deletions) == (50, 50)


def test_Z4_what_a_turn_keeps_of_its_files_is_bounded() -> None:
    """Half a gigabyte of changes, by many files and by one again and again."""
    changes = FileChanges()
    tracemalloc.start()
    try:
        for number in range(250):
            changes.changed(f"file {number}", None, f"{number} ".ljust(1_000_000, "x"))
            changes.changed("always", f"{number} ".ljust(1_000_000, "y"), f"{number + 1} ".ljust(1_000_000, "y"))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < KEPT_BYTES + NAMES_BYTES
    found = changes.summary()
    assert found is not None
    assert len(found.files) == 251
    assert (found.additions, found.deletions) == (251, 1)


# -------------------------------------------------------------------------------------------------- where it is made


async def test_L5_a_large_summary_leaves_the_thread_to_others() -> None:
    lines = [str(number) for number in range(1_600)]
    random.Random(1).shuffle(lines)
    changes = changed(("a", "\n".join(lines[:800]), "\n".join(lines[800:])))
    turns_of_others = 0

    async def others() -> None:
        nonlocal turns_of_others
        while True:
            await trio.lowlevel.checkpoint()
            turns_of_others += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await trio.lowlevel.checkpoint()
        before = turns_of_others
        assert await changes.summarise() == changes.summary()
        assert turns_of_others - before > 20
        nursery.cancel_scope.cancel()


def test_L5_a_small_summary_is_made_at_once() -> None:
    changes = changed(("a", "one\n", "two\n"))
    with pytest.raises(StopIteration) as made:
        changes.summarise().send(None)
    assert made.value.value == changes.summary()


class Held(str):
    """A text that holds up whatever works on it, but the thread in which it was made, until it is let go."""

    def __init__(self, _text: str) -> None:
        self.met = threading.Event()
        self.let_go = threading.Event()
        self._free = threading.current_thread()

    def _hold(self) -> None:
        if threading.current_thread() is not self._free:
            self.met.set()
            self.let_go.wait()

    def count(self, *args: Any) -> int:
        self._hold()
        return super().count(*args)

    def encode(self, *args: Any, **options: Any) -> bytes:
        self._hold()
        return super().encode(*args, **options)


LONG = "x\n" * QUICK_CHARACTERS


async def test_T3_a_summary_needs_no_thread_of_those_that_everybody_uses(autojump_clock: MockClock) -> None:
    everybodys = trio.to_thread.current_default_thread_limiter()
    for _ in range(int(everybodys.total_tokens)):
        everybodys.acquire_on_behalf_of_nowait(object())
    changes = changed(("a", None, LONG))
    with time_waits_for_threads(), trio.fail_after(10):
        assert await changes.summarise() == changes.summary()


async def test_T3_a_summary_that_takes_too_long_is_made_of_counts_alone(autojump_clock: MockClock) -> None:
    text = Held(LONG)
    changes = changed(("a", "one\n", text), ("b", "one\ntwo\n", "one\n"))
    before = trio.current_time()
    found = await changes.summarise()
    text.let_go.set()
    assert trio.current_time() - before == SUMMARY_SECONDS
    assert found is not None
    assert counts(found) == [("a", "modified", QUICK_CHARACTERS, 1), ("b", "modified", 1, 2)]
    assert (found.additions, found.deletions) == (QUICK_CHARACTERS + 1, 3)
    assert all(file.patch is UNSET for file in found.files)


def test_T3_nobody_waits_for_the_comparing_of_a_change_but_who_reports_the_next() -> None:
    changes = FileChanges(kept_bytes=0)
    changes.changed("a", "one\n", "two\n")
    text = Held("three\n")
    reporting = threading.Thread(target=changes.changed, args=("a", "two\n", text))
    reporting.start()
    text.met.wait()
    asking = threading.Thread(target=changes.summary, daemon=True)
    asking.start()
    asking.join(5)
    waited = asking.is_alive()
    text.let_go.set()
    reporting.join()
    assert not waited
    found = changes.summary()
    assert found is not None
    assert (found.additions, found.deletions) == (2, 2)
