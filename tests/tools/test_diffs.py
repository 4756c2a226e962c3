"""What a Turn changed in files: net changes, counts, and patches that apply, within their bounds."""

import random
import subprocess
import threading
import time
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from turnwire.tools.base import PATCH_BYTES, FileDiffSummary
from turnwire.tools.diffs import PATH_BYTES, FileChanges
from turnwire.tools.plain import json_size

Step = tuple[str, str | None, str | None]


def changed(*steps: Step) -> FileChanges:
    changes = FileChanges()
    for step in steps:
        changes.changed(*step)
    return changes


def summary(*steps: Step) -> FileDiffSummary:
    found = changed(*steps).summary()
    assert found is not None
    return found


def counts(found: FileDiffSummary) -> list[tuple[str, str, int, int]]:
    return [(file.path, file.status, file.additions, file.deletions) for file in found.files]


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


# ------------------------------------------------------------------------------------------------------------ patches


lines = st.lists(st.sampled_from(["a", "b", "c", "", "d e\r", "\u2028", "- x", "@@"]), max_size=25).map("\n".join)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.none() | lines, after=st.none() | lines, name=st.sampled_from(["f", "a b", "ü", 'q"\\\t\x01']))
def test_L5_a_patch_applies(before: str | None, after: str | None, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if before == after or (before or "") == (after or ""):
        return  # nothing to apply
    (file,) = summary((name, before, after)).files
    assert isinstance(file.patch, str)
    path.unlink(missing_ok=True)
    if before is not None:
        path.write_text(before, newline="")
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, cwd=tmp_path, input=file.patch.encode(), capture_output=True, check=False)
    assert done.returncode == 0, (done.stderr, file.patch)
    if after:
        assert path.read_bytes().decode() == after
    elif after is None:
        assert not path.exists()


def test_L5_changes_far_apart_are_hunks_of_their_own() -> None:
    before = "".join(f"{n}\n" for n in range(1, 31))
    (file,) = summary(("f", before, before.replace("5\n", "five\n", 1).replace("\n25\n", "\n"))).files
    assert isinstance(file.patch, str)
    heads = [line for line in file.patch.splitlines() if line.startswith("@@")]
    assert heads == ["@@ -2,7 +2,7 @@", "@@ -22,7 +22,6 @@"]


def test_L5_text_that_cannot_be_sent_is_made_whole() -> None:
    (file,) = summary(("a\ud800", None, "x\udfff\n")).files
    assert file.path == "a\ufffd"
    assert isinstance(file.patch, str)
    assert "+x\ufffd\n" in file.patch


# ------------------------------------------------------------------------------------------------------------- bounds


def test_Z4_patches_share_one_bound_oldest_first() -> None:
    third = "x" * (PATCH_BYTES // 3) + "\n"
    found = summary(("a", None, third), ("b", None, third), ("c", None, third), ("d", None, "small\n"))
    assert [file.patch is not UNSET for file in found.files] == [True, True, False, True]
    assert sum(json_size(file.patch) for file in found.files if file.patch is not UNSET) <= PATCH_BYTES
    assert found.additions == 4


def test_Z4_a_patch_is_measured_as_json() -> None:
    (file,) = summary(("a", None, "\x01" * (PATCH_BYTES // 5))).files
    assert file.patch is UNSET


def test_Z4_files_beyond_the_bound_are_counted_and_not_named() -> None:
    found = summary(*((f"{number:01000}", None, "x\n") for number in range(200)))
    assert len(found.files) == PATH_BYTES // json_size("x" * 1000)
    assert found.additions == 200


def test_Z4_megabytes_cost_bounded_work() -> None:
    dice = random.Random(1)
    numbered = [f"line {number} with some text in it, to be longer\n" for number in range(100_000)]
    shuffled = dice.sample(numbered, len(numbered))
    repeated = [dice.choice("abc") + "\n" for _ in range(500_000)]
    edited = [*numbered[:50_000], "new\n", *numbered[50_001:]]
    for before, after in ((numbered, edited), (numbered, shuffled), (repeated, repeated[::-1])):
        start = time.process_time()
        found = summary(("f", "".join(before), "".join(after)))
        assert time.process_time() - start < 20, "CPU seconds: quadratic work would take far longer"
        assert len(after) - len(before) == found.additions - found.deletions
        assert json_size(found.files[0].patch if found.files[0].patch is not UNSET else "") <= PATCH_BYTES
    assert counts(summary(("f", "".join(numbered), "".join(edited)))) == [("f", "modified", 1, 1)]


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
