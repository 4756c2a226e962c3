"""Lifecycles are tables: every pair of states is either a move of the table or refused with a sentence (P4, P7)."""

from itertools import product
from typing import Any

import pytest

from turnwire_protocol.lifecycle import INTERACTION, LIFECYCLES, TOOL, IllegalTransition, Lifecycle, advance

PAIRS = [(lifecycle, state, to) for lifecycle in LIFECYCLES for state, to in product(lifecycle.moves, lifecycle.moves)]


@pytest.mark.parametrize(("lifecycle", "state", "to"), PAIRS, ids=lambda value: getattr(value, "name", value))
def test_P4_every_move_is_in_the_table_or_refused(lifecycle: Lifecycle[Any], state: str, to: str) -> None:
    if to in lifecycle.moves[state]:
        assert advance(lifecycle, state, to) == to
    else:
        with pytest.raises(IllegalTransition, match=f"^{lifecycle.name}: .*{to}.*{state}"):
            advance(lifecycle, state, to)


def test_P4_the_tool_moves_are_those_of_the_rule() -> None:
    moves = {(state, to) for state, following in TOOL.moves.items() for to in following}
    assert moves == {
        ("input-streaming", "ready"),
        ("input-streaming", "failed"),
        ("ready", "waiting-user"),
        ("ready", "running"),
        ("ready", "failed"),
        ("waiting-user", "running"),
        ("waiting-user", "failed"),
        ("running", "completed"),
        ("running", "failed"),
    }


def test_P7_a_pending_interaction_is_resolved_once() -> None:
    assert INTERACTION.terminal == {"resolved", "denied", "expired", "cancelled"}


@pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda lifecycle: lifecycle.name)
def test_every_state_is_reached_from_the_beginning(lifecycle: Lifecycle[Any]) -> None:
    reached = set(lifecycle.initial)
    while True:
        further = {to for state in reached for to in lifecycle.moves[state]} - reached
        if not further:
            break
        reached |= further
    assert reached == set(lifecycle.moves)


def test_an_unknown_state_is_named() -> None:
    tool: Lifecycle[Any] = TOOL
    with pytest.raises(IllegalTransition, match="no state 'asleep'"):
        advance(tool, "asleep", "running")
