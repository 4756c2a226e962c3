"""Patterns and templates, by example: what matches, what does not, and what is said about it."""

from itertools import count
from typing import Any

import pytest

from turnwire.conformance.patterns import Mismatch, UnknownVariable, fill, match

MATCHING: list[tuple[Any, Any]] = [
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"b": None}, {"a": 1}),
    ({"a": "$_"}, {"a": [1, {}]}),
    (["$x", "$x"], ["1", "1"]),
    (["$x", "$x+2"], [40, 42]),
    (["...", {"a": 1}], [0, {"a": 1, "b": 2}]),
    ([{"a": 1}, "..."], [{"a": 1}, 7, 8]),
    (["..."], []),
    ({"$at_least": 3}, 3),
    ({"$one_of": [1, "two"]}, "two"),
    ({"$not": {"a": 1}}, {"a": 2}),
    ({"$like": "^w1 .*w9"}, "w1 w2 w9 w10"),
    ({"$has": {"a": 1}}, [{"a": 0}, {"a": 1}]),
    ({"$every": {"a": "$_"}}, [{"a": 0}, {"a": 1}]),
    ({"$merge": [{"a": 1}, {"a": 2}]}, {"a": 2}),
    (None, None),
]
DIFFERENT: list[tuple[Any, Any, str]] = [
    ({"a": 1}, {"b": 1}, "a: is missing"),
    ({"a": None}, {"a": 1}, "a: must be absent"),
    ({"a": {"b": [1]}}, {"a": {"b": [2]}}, r"a\.b\[0\]: expected 1, got 2"),
    ({"a": True}, {"a": 1}, "a: expected True, got 1"),
    (["$x", "$x"], ["1", "2"], "expected '1', got '2'"),
    (["$x", "$x+2"], [40, 41], "expected 42, got 41"),
    ([1, 2], [1], "expected 2 items"),
    (["...", 1, 2], [2], "expected 2 items"),
    ({"$at_least": 3}, 2, "at least 3"),
    ({"$at_least": 3}, True, "at least 3"),
    ({"$one_of": [1, 2]}, 3, "one of"),
    ({"$not": "$_"}, 3, "must not be 3"),
    ({"$like": "^w1"}, "w2", "expected text with"),
    ({"$like": "^w1"}, 2, "expected text with"),
    ({"$has": 1}, [2], "expected an item like 1"),
    ({"$every": 1}, [1, 2], r"\[1\]"),
    ({"a": 1}, [1], "expected"),
]


@pytest.mark.parametrize(("pattern", "value"), MATCHING)
def test_the_value_is_like_the_pattern(pattern: Any, value: Any) -> None:
    match(pattern, value, {})


@pytest.mark.parametrize(("pattern", "value", "sentence"), DIFFERENT)
def test_the_difference_is_said_with_its_place(pattern: Any, value: Any, sentence: str) -> None:
    with pytest.raises(Mismatch, match=sentence):
        match(pattern, value, {})


def test_a_variable_is_taken_once_and_demanded_afterwards() -> None:
    variables: dict[str, Any] = {}
    match({"turn_id": "$t"}, {"turn_id": "t9"}, variables)
    assert variables == {"t": "t9"}
    with pytest.raises(Mismatch):
        match({"turn_id": "$t"}, {"turn_id": "t10"}, variables)


def test_nothing_is_taken_from_a_value_that_is_not_like_the_pattern() -> None:
    variables: dict[str, Any] = {}
    with pytest.raises(Mismatch):
        match({"a": "$x", "b": 1}, {"a": 1, "b": 2}, variables)
    assert variables == {}


def test_an_operator_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(UnknownVariable, match=r"\$at_most"):
        match({"a": {"$at_most": 3}}, {"a": 2}, {})


def test_templates_are_filled_in_depth_and_within_text() -> None:
    variables = {"s": "s1", "n": 4, "m": {"id": "$s"}}
    template = {"a": "$s", "b": ["$n+1", "at $n of $s.txt"], "c": "$m", "d": {"$repeat": ["x", 3]}, "e": {"$nest": 2}}
    assert fill(template, variables) == {
        "a": "s1",
        "b": [5, "at 4 of s1.txt"],
        "c": {"id": "s1"},
        "d": "xxx",
        "e": [[]],
    }


def test_a_variable_without_a_value_gets_a_fresh_one_or_is_refused() -> None:
    numbers = count(1)
    assert fill(["$new", "$_"], {}, lambda name: f"{name}-{next(numbers)}") == ["new-1", "$_"]
    with pytest.raises(UnknownVariable, match=r"\$new"):
        fill("$new", {})
    with pytest.raises(UnknownVariable, match=r"\$new"):
        match("$new+1", 1, {})
