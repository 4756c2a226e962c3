"""Sessions in 1,000 random worlds: S1-S9, M5-M10, P1-P7, T1-T6, W4, W5 and L1 all hold in each.

`make simulation` plays more. `TURNWIRE_SEED=n pytest tests/simulation` plays one seed again, and prints what
happened in it.
"""

import os
from pathlib import Path

import pytest
from msgspec import UNSET

from simulation.faulty_store import with_still_clock
from simulation.simulate import play_seed, run_seed
from turnwire.store.sqlite import open_sqlite

SEEDS = int(os.environ.get("TURNWIRE_SEEDS", "1000"))

EVENTFUL_SEEDS = 200
"""The first worlds, in which everything is to happen at least once."""

SEEDS_A_BLOCK = 100

PINNED = (1645, 2051, 10204, 11184)
"""Seeds that once broke a rule."""

SQLITE_SEEDS = 20

EVENTS = {
    *("started", "steered", "queued", "duplicate", "retried"),
    *("completed", "failed", "stopped", "runtime_interrupted", "unavailable"),
    *("text done", "reasoning done", "tool completed", "tool failed", "error", "action completed"),
    *("interaction resolved", "interaction denied", "interaction expired", "interaction cancelled"),
    *("instruction waits", "instruction joins", "store hangs"),
    *("forked", "forked again", "fork deleted", "archived"),
    *("title-change", "model-change", "approval-mode-change", "context-compaction"),
}

chosen = os.environ.get("TURNWIRE_SEED")


@pytest.mark.skipif(chosen is not None, reason="one seed was chosen")
def test_S6_S9_T1_W4_every_rule_holds_and_the_worlds_are_full_of_events() -> None:
    """A rule that is never put to the test is not proved: all that can become of prompts, Turns and Parts does."""
    seen: set[str] = set()
    for seed in range(EVENTFUL_SEEDS):
        course = play_seed(seed)
        assert not course.journal.broken, course.journal.report()
        seen |= {receipt.outcome for asked in course.users.asked for receipt in asked.receipts}
        seen |= {"retried" for call in course.model.calls if call.attempt > 1}
        seen |= course.users.forks.seen
        seen |= {"archived"} if course.users.archived else set()
        told = [instructed.message for instructed in course.users.instructed if instructed.message is not None]
        seen |= {"instruction waits" if message.turn_id is UNSET else "instruction joins" for message in told}
        seen |= {"store hangs" for line in course.journal.lines if "the store has not answered" in line}
        for turn in course.rest.turns.values():
            seen |= {turn.status, turn.error.code if turn.error is not None else ""}
        for message in course.rest.messages:
            for part in message["parts"]:
                outcome = part.get("status" if part["type"] == "interaction" else "state", "")
                seen |= {f"{part['type']} {outcome}".strip(), part.get("action_type", "")}
    assert EVENTS - seen == set()


@pytest.mark.skipif(chosen is not None, reason="one seed was chosen")
@pytest.mark.parametrize("first", range(EVENTFUL_SEEDS, SEEDS, SEEDS_A_BLOCK))
def test_S6_S9_T1_W4_every_rule_holds_in_any_world(first: int) -> None:
    for seed in range(first, first + SEEDS_A_BLOCK):
        journal = run_seed(seed)
        assert not journal.broken, journal.report()


@pytest.mark.parametrize("seed", PINNED if chosen is None else [int(chosen)])
def test_S6_S9_T1_W4_every_rule_holds_in_a_world_that_once_broke_one(seed: int) -> None:
    journal = run_seed(seed)
    if chosen is not None:
        print(journal.report())
    assert not journal.broken, journal.report()


@pytest.mark.skipif(chosen is not None, reason="one seed was chosen")
def test_S6_S9_T1_W4_every_rule_holds_on_sqlite(tmp_path: Path) -> None:
    for seed in range(SQLITE_SEEDS):
        path = tmp_path / f"{seed}.db"
        journal = run_seed(seed, open_store=lambda path=path: with_still_clock(open_sqlite(path)))  # type: ignore[misc]
        assert not journal.broken, journal.report()


def test_a_seed_plays_the_same_each_time() -> None:
    assert [run_seed(seed).lines for seed in range(10)] == [run_seed(seed).lines for seed in range(10)]
