"""The pack finds faults: each deliberately broken server fails exactly the timelines that its fault is about.

Which these are stands in `broken_servers.json`, by the rule that is blamed: the standing rule that a frame broke, else
the first rule of the timeline. Timelines in which a fault cannot show, by what is overheard of a sound server, are
played for that one only.
"""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

import process_faults
import server_faults
import token_faults
from broken_server import broken_server
from lying_stream import Liar
from overheard import Heard, can_show, overhear, where_it_can_show
from turnwire.conformance.pack import chosen_timelines, pack_folder, timeline_files
from turnwire.conformance.server_suite import play_all
from turnwire.conformance.verdict import Verdict
from turnwire_protocol.timelines import ServerTimelines

SPEC = Path(__file__).parents[2] / "protocol" / "SPEC.md"
ALL = list(timeline_files(pack_folder()))
FILES = chosen_timelines(ALL, ServerTimelines, None)
SECONDS = 10.0
"""What a step may take: with a sound server it takes 3 s at most, and who waits in vain hears all ticks until then."""

REST = [(name, file) for name, file in FILES if name != "server/load"]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a fault makes fail, by the rule that is blamed: the names of timelines."""

    fails: dict[str, list[str]]
    only: str | None = None
    """For faults that show in some timelines only, such as under load: the rule or file whose timelines are played."""


TABLE = msgspec.json.decode(Path(__file__).with_name("broken_servers.json").read_bytes(), type=dict[str, Row])
FAULTS: dict[str, type[Liar]] = {
    name: value
    for module in (server_faults, process_faults, token_faults)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, Liar) and value.__module__ == module.__name__
}


async def verdicts(fault: Callable[[], Liar], files: list[tuple[str, ServerTimelines]], folder: Path) -> list[Verdict]:
    async with broken_server(fault, folder, seconds=SECONDS) as server:
        return await play_all(server, files)


async def failures(fault: Callable[[], Liar], files: list[tuple[str, ServerTimelines]], folder: Path) -> list[Verdict]:
    return [verdict for verdict in await verdicts(fault, files, folder) if verdict.outcome == "failed"]


def test_every_fault_has_its_row_and_every_rule_of_the_wire_its_fault() -> None:
    assert TABLE.keys() == FAULTS.keys()
    assert {f"W{number}" for number in range(1, 11)} <= {rule for row in TABLE.values() for rule in row.fails}


def test_every_timeline_fails_for_a_broken_server() -> None:
    fail = {name for row in TABLE.values() for timelines in row.fails.values() for name in timelines}
    assert [each.name for _, file in FILES for each in file.timelines if each.name not in fail] == []


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Heard]]:
    """What is said in each timeline when nobody lies."""
    return trio.run(overhear, REST, tmp_path_factory.mktemp("sound"), clock=MockClock(autojump_threshold=0))


async def test_without_a_fault_nothing_is_blamed(autojump_clock: MockClock, tmp_path: Path) -> None:
    assert [each for each in await verdicts(Liar, REST, tmp_path) if each.outcome != "passed"] == []


def test_the_truth_shows_nowhere_and_a_fault_within_a_server_may_show_anywhere(talk: dict[str, list[Heard]]) -> None:
    assert talk.keys() == {timeline.name for _, file in REST for timeline in file.timelines}
    assert not any(can_show(Liar, heard) for heard in talk.values())
    assert all(can_show(FAULTS["ExitsInDisorder"], heard) for heard in talk.values())


async def test_the_example_in_the_specification_passes(autojump_clock: MockClock, tmp_path: Path) -> None:
    (example,) = re.findall(r"^```timeline\n(.*?)^```$", SPEC.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    content = f'{{"under_test":"server","timelines":[{example}]}}'
    file = msgspec.json.decode(content, type=ServerTimelines)
    assert await failures(Liar, [("SPEC.md", file)], tmp_path) == []


@pytest.mark.parametrize("name", TABLE)
async def test_a_broken_server_fails_exactly_the_timelines_that_it_should(
    name: str, talk: dict[str, list[Heard]], autojump_clock: MockClock, tmp_path: Path
) -> None:
    row, fault = TABLE[name], FAULTS[name]
    files = REST if row.only is None else chosen_timelines(ALL, ServerTimelines, row.only)
    played = where_it_can_show(fault, files, talk)
    failed = {(verdict.broken, verdict.name) for verdict in await failures(fault, played, tmp_path)}
    wanted = {(rule, timeline) for rule, timelines in row.fails.items() for timeline in timelines}
    assert failed == wanted
