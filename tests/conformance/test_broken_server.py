"""The pack finds faults: each deliberately broken server breaks exactly the rules that its fault is about.

A failure blames the standing rule that a frame broke, else the first rule of its timeline.
"""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from trio.testing import MockClock

import server_faults as faults
from broken_server import Liar, lying_server
from turnwire.conformance.pack import chosen_timelines, pack_folder, timeline_files
from turnwire.conformance.server_suite import ServerUnderTest, play_all
from turnwire.conformance.verdict import Verdict
from turnwire_protocol.timelines import ServerTimelines

SPEC = Path(__file__).parents[2] / "protocol" / "SPEC.md"
ALL = list(timeline_files(pack_folder()))
FILES = chosen_timelines(ALL, ServerTimelines, None)
REST = [(name, file) for name, file in FILES if name != "server/load"]

BLAMED: dict[Callable[[], Liar], set[str]] = {
    faults.JsonForAll: {"W2"},
    faults.AnswersTwice: {"W3"},
    faults.SnapshotFromTheStore: {"W4"},
    faults.SnapshotOfAnotherPoint: {"W4"},
    faults.SnapshotWithAHole: {"W4", "L1", "L4", "M3", "P7", "T3"},
    faults.SkipsASeq: {"W5", "L3", "T3"},  # where nothing comes after the one that is missing, it is just missed
    faults.RepeatsADelta: {"W5"},
    faults.MutatesAfterReload: {"W6"},
    faults.EpochForEach: {"W2", "W4", "W5", "W7", "L1", "L3", "L4", "L5", "P7", "T3", "T6"},  # wherever two compare
    faults.NeverTicks: {"W8"},
    faults.ErrorsWithoutField: {"W9", "W3", "M2", "P7", "S9", "T1"},
    faults.ErrorsWithoutCode: {"W9"},
    faults.AcceptsUnknownFields: {"W9"},
    faults.GoesOnAfterUnsubscribe: {"L1"},
    faults.NoEnvelope: {"L2"},
    faults.WarningWithoutAttempt: {"L3"},
    faults.DeltaOfNothing: {"L4"},
    faults.WrongRevision: {"S5"},
    faults.RunsTwice: {"S9"},
    faults.IgnoresConditions: {"T1"},
    faults.FinishesTwice: {"T1"},
    faults.AlwaysExecuting: {"T2"},
    faults.LastAnswerWins: {"P7", "T3"},
    faults.ForgetsCards: {"P7"},
    faults.PagesWithAHole: {"M3", "P3", "T1"},
}
"""The rules that are blamed when everything but `load` is played."""

BLAMED_ALONE: dict[Callable[[], Liar], tuple[str, set[str]]] = {
    faults.DiffWithoutCounts: ("L5", {"L5"}),
    faults.ClosesSlowReaders: ("W6", {"W6", "W8"}),
    faults.FramesAboveTheLimit: ("W10", {"W10"}),
}
"""Faults that show under load or on files only: the rule whose timelines are played, and the rules that are blamed."""


async def failures(fault: Callable[[], Liar], files: list[tuple[str, ServerTimelines]], folder: Path) -> list[Verdict]:
    async with lying_server(fault, folder) as dialer:
        server = ServerUnderTest(dialer=dialer, has=frozenset({"workspace"}))
        return [verdict for verdict in await play_all(server, files) if verdict.outcome == "failed"]


def test_every_fault_has_its_row() -> None:
    assert {*BLAMED, *BLAMED_ALONE} == set(Liar.__subclasses__())
    assert {f"W{number}" for number in range(2, 11)} <= set().union(
        *BLAMED.values(), *(rules for _, rules in BLAMED_ALONE.values())
    )


async def test_without_a_fault_nothing_is_blamed(autojump_clock: MockClock, tmp_path: Path) -> None:
    assert await failures(Liar, REST, tmp_path) == []


async def test_the_example_in_the_specification_passes(autojump_clock: MockClock, tmp_path: Path) -> None:
    (example,) = re.findall(r"^```timeline\n(.*?)^```$", SPEC.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    content = f'{{"under_test":"server","timelines":[{example}]}}'
    file = msgspec.json.decode(content, type=ServerTimelines)
    assert await failures(Liar, [("SPEC.md", file)], tmp_path) == []


@pytest.mark.parametrize("fault", BLAMED, ids=lambda fault: fault.__name__)
async def test_a_broken_server_breaks_exactly_its_rules(
    fault: Callable[[], Liar], autojump_clock: MockClock, tmp_path: Path
) -> None:
    failed = await failures(fault, REST, tmp_path)
    assert {verdict.broken for verdict in failed} == BLAMED[fault]


@pytest.mark.parametrize("fault", BLAMED_ALONE, ids=lambda fault: fault.__name__)
async def test_a_fault_that_shows_in_few_timelines_breaks_exactly_its_rules(
    fault: Callable[[], Liar], autojump_clock: MockClock, tmp_path: Path
) -> None:
    chosen, rules = BLAMED_ALONE[fault]
    files = chosen_timelines(ALL, ServerTimelines, chosen)
    failed = await failures(fault, files, tmp_path)
    assert {verdict.broken for verdict in failed} == rules
