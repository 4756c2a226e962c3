"""What a Turn changed in files: net changes, counts, and patches that apply, within their bounds."""

import random
import subprocess
import time
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from changed_files import summary
from turnwire.tools.base import PATCH_BYTES
from turnwire.tools.diffs import file_change
from turnwire.tools.file_changes import WORK_UNITS
from turnwire.tools.line_diff import Budget
from turnwire.tools.plain import json_size

# ------------------------------------------------------------------------------------------------------------ patches


lines = st.lists(st.sampled_from(["a", "b", "c", "", "d e\r", "\u2028", "- x", "@@"]), max_size=25).map("\n".join)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
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


def test_Z4_megabytes_cost_bounded_work() -> None:
    dice = random.Random(1)
    numbered = [f"line {number} with some text in it, to be longer\n" for number in range(100_000)]
    shuffled = dice.sample(numbered, len(numbered))
    repeated = [dice.choice("abc") + "\n" for _ in range(500_000)]
    edited = [*numbered[:50_000], "new\n", *numbered[50_001:]]
    for before, after in ((numbered, edited), (numbered, shuffled), (repeated, repeated[::-1])):
        start = time.process_time()
        file = file_change("f", "".join(before), "".join(after), Budget(WORK_UNITS), PATCH_BYTES)
        assert time.process_time() - start < 20, "CPU seconds: quadratic work would take far longer"
        assert len(after) - len(before) == file.additions - file.deletions
        assert json_size(file.patch if file.patch is not UNSET else "") <= PATCH_BYTES
    file = file_change("f", "".join(numbered), "".join(edited), Budget(WORK_UNITS), PATCH_BYTES)
    assert (file.additions, file.deletions) == (1, 1)
