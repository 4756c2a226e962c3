"""The timelines themselves: they fit their schema, speak of rules that exist, and cover what they must."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from jsonschema import Draft202012Validator

from turnwire.conformance import patterns
from turnwire.conformance.pack import pack_folder, read_timelines, timeline_files
from turnwire_protocol.client_steps import ClientStep
from turnwire_protocol.server_steps import ServerStep, Token
from turnwire_protocol.timelines import ServerTimelines, timelines_schema

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "protocol" / "SPEC.md").read_text("utf-8")
RULES = re.findall(r"^- \*\*([A-Z]\d+)\*\* ", SPEC, re.MULTILINE)
CASES = re.findall(r"^\| ([A-Z]\d+) \| ", SPEC, re.MULTILINE)
FILES = list(timeline_files(pack_folder()))
TIMELINES = [timeline for _, file in FILES for timeline in file.timelines]


OFF_THE_WIRE = {
    "R7": "how a page wakes up is the client's own",
    "R9": "two sockets of one client look like two clients",
    "E4": "no clock of a client is ever sent",
    "K4": "rows of the database are not on the wire",
    "Z2": "CPU time is not on the wire",
    "Z3": "the limits are those of W9 and W10",
    "Z4": "a file diff's size is that of L5",
    "Z5": "time is not on the wire",
    "X2": "where a token stands is up to the client; the pack sends it in `hello`",
    "X4": "what the model gets is not on the wire",
    "X5": "what a page shows is not on the wire",
}
"""Cases that no timeline can show, and why."""


def test_W5_the_pack_is_as_large_as_it_says() -> None:
    assert len(TIMELINES) >= 60
    assert len({timeline.name for timeline in TIMELINES}) == len(TIMELINES)


@pytest.mark.parametrize("path", sorted(pack_folder().rglob("*.json")), ids=lambda path: path.stem)
def test_every_file_fits_the_schema(path: Path) -> None:
    Draft202012Validator(timelines_schema()).validate(json.loads(path.read_text("utf-8")))


def test_every_rule_of_the_wire_and_of_subscriptions_has_a_timeline() -> None:
    named = {rule for timeline in TIMELINES for rule in timeline.rules}
    assert {rule for rule in RULES if rule[0] in "WL"} - named == set()


def test_every_case_that_shows_on_the_wire_has_a_timeline() -> None:
    named = {rule for timeline in TIMELINES for rule in timeline.rules}
    wanted = {case for case in CASES if case[0] in "JRZEKQAX"}
    assert wanted - named - OFF_THE_WIRE.keys() == set()
    assert named & OFF_THE_WIRE.keys() == set(), "it has a timeline, so it does show"


def test_every_rule_that_a_timeline_names_exists() -> None:
    assert {rule for timeline in TIMELINES for rule in timeline.rules} - {*RULES, *CASES} == set()


def test_timelines_that_control_the_server_say_so() -> None:
    for _, file in FILES:
        if isinstance(file, ServerTimelines):
            for timeline in file.timelines:
                steps = {type(step).__name__ for step in timeline.steps}
                assert bool(steps & {"Kill", "Terminate", "Exited", "Start"}) == ("control" in timeline.needs)


def test_timelines_that_make_tokens_say_so() -> None:
    for _, file in FILES:
        if isinstance(file, ServerTimelines):
            for timeline in file.timelines:
                makes = any(isinstance(step, Token) for step in timeline.steps)
                assert makes == ("tokens" in timeline.needs), timeline.name


def test_the_example_in_the_specification_is_one() -> None:
    (example,) = re.findall(r"^```timeline\n(.*?)^```$", SPEC, re.MULTILINE | re.DOTALL)
    content = {"under_test": "server", "timelines": [json.loads(example)]}
    Draft202012Validator(timelines_schema()).validate(content)


def test_the_specification_names_every_step_and_operator() -> None:
    section = SPEC[SPEC.index("# Conformance") : SPEC.index("# Cases")]
    named = set(re.findall(r"`([a-z_]+)`", section))
    tags = {str(struct.__struct_config__.tag) for union in (ServerStep, ClientStep) for struct in get_args(union)}
    assert tags - named == set()
    assert {name for name in patterns.OPERATORS if name not in section} == set()


def test_a_file_with_an_unknown_step_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text('{"under_test":"server","timelines":[{"name":"x","rules":["W1"],"steps":[{"do":"dance"}]}]}')
    with pytest.raises(ValueError, match=r"wrong\.json.*dance"):
        read_timelines(path)
