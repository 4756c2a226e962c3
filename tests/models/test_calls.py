"""Ids and names of calls as services accept them, whatever history holds."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnwire.models.calls import wire_id, wire_name

ID = re.compile(r"[-_0-9a-zA-Z]{1,40}")
NAME = re.compile(r"[-_0-9a-zA-Z]{1,64}")


@given(st.text(st.characters(), max_size=200))
@example("\ud800")
@example("call\n")
def test_P4_any_id_becomes_one_that_services_accept(text: str) -> None:
    assert ID.fullmatch(wire_id(text))
    assert wire_id(text) == wire_id(text)


@given(st.lists(st.text("ab.:-_é", max_size=60), unique=True))
def test_P4_different_ids_stay_different(texts: list[str]) -> None:
    assert len({wire_id(text) for text in texts}) == len(texts)


@pytest.mark.parametrize("text", ["call_0123456789abcdef01234567", "toolu_01A-b", "x" * 40])
def test_P4_an_id_that_is_accepted_is_not_changed(text: str) -> None:
    assert wire_id(text) == text


@given(st.text(st.characters(), max_size=200))
def test_P4_any_name_that_a_model_made_up_becomes_one_that_services_accept(text: str) -> None:
    assert NAME.fullmatch(wire_name(text))


def test_P4_a_tools_own_name_is_not_changed() -> None:
    assert wire_name("read-file_2") == "read-file_2"
    assert wire_name("x" * 64) == "x" * 64
