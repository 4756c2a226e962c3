"""Our clients pass the pack: the Python view with its little client, and the TypeScript client."""

import shutil
import sys
from pathlib import Path

import pytest
import trio

from command_line import turnwire_here
from conformance_world import conformances, verdicts_of
from turnwire.conformance.client_suite import play_clients
from turnwire.conformance.pack import chosen_timelines, pack_folder, timeline_files
from turnwire_protocol.timelines import ClientTimelines

ROOT = Path(__file__).parents[2]
PYTHON = f"{sys.executable} -m turnwire.conformance.python_client"
SCRIPT = ROOT / "clients" / "js" / "scripts" / "conformance.mjs"
LIBRARY = ROOT / "clients" / "js" / "dist" / "esm" / "index.js"


async def test_W7_our_clients_pass_every_timeline() -> None:
    built = shutil.which("node") is not None and LIBRARY.is_file()
    commands = (PYTHON, f"node {SCRIPT}") if built else (PYTHON,)
    for code, output, complaints in await conformances(*(("--client", command, "--json") for command in commands)):
        assert complaints == ""
        verdicts = verdicts_of(output)
        assert [f"{each['name']}: {each['reason']}" for each in verdicts if each["outcome"] != "passed"] == []
        assert len(verdicts) > 25
        assert code == 0
    if not built:
        pytest.skip("left out: the TypeScript client is not built (npm run build:lib in clients/js)")


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("import sys; sys.exit(3)", "ended with 3"),
        ("print('hello')", "no line of a driver: 'hello'"),
        ("print('{}')", "no line of a driver: '{}'"),
    ],
)
def test_a_program_that_is_no_driver_is_told_in_a_sentence(program: str, sentence: str) -> None:
    ended = turnwire_here("conformance", "--client", f'{sys.executable} -c "{program}"')
    assert (ended.returncode, ended.stdout) == (2, "")
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr


SAYS = """
import sys
print('{"driver": "x/1", "can": []}', flush=True)
for line in sys.stdin:
    print(LINE, flush=True)
"""


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        '{"client": []}',
        '{"client": "c0"}',
        '{"client": "c0", "state": {}}',
        '{"client": "c0", "session_id": "s", "state": []}',
        '{"client": "c0", "id": "1", "result": {}}',
        '{"client": "c0", "connection": 7}',
        '{"client": "nobody", "id": 1, "result": {}}',
    ],
)
async def test_a_driver_whose_lines_are_wrong_fails_with_a_sentence(line: str, tmp_path: Path) -> None:
    program = tmp_path / "driver.py"
    program.write_text(SAYS.replace("LINE", repr(line)))
    files = chosen_timelines(list(timeline_files(pack_folder())), ClientTimelines, "J5")
    (verdict, *_) = await play_clients(f"{sys.executable} {program}", files, jobs=1)
    assert verdict.outcome == "failed"
    assert line in verdict.reason


FAULTS: dict[str, tuple[str, set[str]]] = {
    "ignores gaps": ("W5", {"W5", "J1", "E2", "S5"}),
    "keeps old epochs": ("W7", {"W7"}),
    "never tires of 4403": ("4403 ends", {"W8"}),
    "makes a new client_request_id": ("S9", {"S9"}),
    "adds what it has already": ("J1", {"J1"}),
    "speaks before hello": ("J5", {"W3"}),
    "sends unknown fields": ("J5", {"W9"}),
}
"""What a client does wrong: which timelines are played, and the rules that are blamed."""


async def test_each_broken_client_fails_where_it_should() -> None:
    blamed: dict[str, set[str]] = {}

    async def play(fault: str, chosen: str) -> None:
        driver = f"{sys.executable} {Path(__file__).parent / 'broken_client.py'} '{fault}'"
        files = chosen_timelines(list(timeline_files(pack_folder())), ClientTimelines, chosen)
        verdicts = await play_clients(driver, files, jobs=4, seconds=5)
        blamed[fault] = {verdict.broken for verdict in verdicts if verdict.outcome == "failed"}

    async with trio.open_nursery() as nursery:
        for fault, (chosen, _) in FAULTS.items():
            nursery.start_soon(play, fault, chosen)
    assert blamed == {fault: rules for fault, (_, rules) in FAULTS.items()}
