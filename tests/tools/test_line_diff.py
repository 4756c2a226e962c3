"""The line diff: true whatever the budget, shortest where regions are small, and bounded in its work."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwire.tools.line_diff import EXACT_CELLS, Budget, Change, changes, lines_of

few_lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n"]), max_size=30)
budgets = st.sampled_from([0, 5, 40, 300, 1_000_000])


def applied(before: list[str], after: list[str], found: list[Change]) -> list[str]:
    result, at = [], 0
    for change in found:
        result += before[at : change.start]
        assert len(result) == change.new_start
        result += after[change.new_start : change.new_end]
        at = change.end
    return result + before[at:]


def common(before: list[str], after: list[str]) -> int:
    """The length of the longest common subsequence, by its definition."""
    row = [0] * (len(after) + 1)
    for line in before:
        corner = 0
        for j, other in enumerate(after, start=1):
            corner, row[j] = row[j], corner + 1 if line == other else max(row[j], row[j - 1])
    return row[-1]


@given(before=few_lines, after=few_lines, units=budgets)
def test_L5_changes_turn_the_old_lines_into_the_new_ones(before: list[str], after: list[str], units: int) -> None:
    found = changes(before, after, Budget(units))
    assert applied(before, after, found) == after
    for change in found:
        assert change.end > change.start or change.new_end > change.new_start
    for one, next_one in pairwise(found):
        assert one.end < next_one.start
        assert one.new_end < next_one.new_start


@given(before=few_lines, after=few_lines)
def test_L5_small_regions_have_the_shortest_changes(before: list[str], after: list[str]) -> None:
    found = changes(before, after, Budget(1_000_000))
    kept = len(before) - sum(change.end - change.start for change in found)
    assert kept == common(before, after)


def test_Z4_scattered_edits_of_a_large_text_are_found_one_by_one() -> None:
    before = [f"{number}\n" for number in range(50_000)]
    after = list(before)
    for number in range(0, 50_000, 1_000):
        after[number] = "edited\n"
    budget = Budget(1_000_000)
    assert changes(before, after, budget) == [Change(at, at + 1, at, at + 1) for at in range(0, 50_000, 1_000)]
    assert budget.units > 850_000, "the work grows with the lines, not with their square"


def test_Z4_where_the_budget_ends_lines_count_as_replaced() -> None:
    dice = random.Random(1)
    before = ["same\n", *(dice.choice("abc") for _ in range(2_000)), "same\n"]
    after = ["same\n", *(dice.choice("abc") for _ in range(2_000)), "same\n"]
    budget = Budget(100_000)
    assert len(before) * len(after) > EXACT_CELLS
    (change,) = changes(before, after, budget)
    assert (change.end - change.start, change.new_end - change.new_start) >= (1_990, 1_990)
    assert budget.units >= 0


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a\n"]),
        ("\n\n", ["\n", "\n"]),
        ("a\r\nb\x0bc\u2028", ["a\r\n", "b\x0bc\u2028"]),
    ],
)
def test_L5_lines_end_at_newlines_only(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines


@given(st.text(alphabet="a\n\r"))
def test_L5_lines_join_to_the_text(text: str) -> None:
    assert "".join(lines_of(text)) == text
