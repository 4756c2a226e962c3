"""SPEC.md is true: its rules are proved by tests, its examples are valid, and it names what the code has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from jsonschema import Draft202012Validator

from turnwire_protocol import frames, mutations, parts
from turnwire_protocol.schema import schema

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "protocol" / "SPEC.md").read_text("utf-8")

RULE = re.compile(r"^- \*\*([A-Z]\d+)\*\*( \(not yet\))? ", re.MULTILINE)
CASE = re.compile(r"^\| ([A-Z]\d+) \| ", re.MULTILINE)
QUOTED = re.compile(r"(?<![A-Za-z0-9])([ACDEJKLMPQRSTWXZ]\d{1,2})(?![A-Za-z0-9])")
EXAMPLE = re.compile(r"^```json (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

RULES = RULE.findall(SPEC)
CASES = CASE.findall(SPEC)
DEFINITIONS = {
    "request": "Request",
    "frame": "ServerFrame",
    "message": "Message",
    "part": "Part",
}
"""What the word behind ```json says of the examples in the block, one on each line."""


def _sources_of_tests() -> Iterator[Path]:
    for folder, pattern in (
        ("tests", "*.py"),
        ("protocol/vector_cases", "*.py"),
        ("protocol/vectors/timelines", "*.json"),
        ("clients/js/test", "*.ts*"),
    ):
        yield from sorted((ROOT / folder).rglob(pattern))


QUOTES = {path: set(QUOTED.findall(path.read_text("utf-8"))) for path in _sources_of_tests()}


def test_every_rule_and_case_has_an_id_of_its_own() -> None:
    ids = [*(rule for rule, _ in RULES), *CASES]
    assert len(RULES) >= 50
    assert len(CASES) > 50
    assert sorted(ids) == sorted(set(ids))


def test_every_rule_that_is_built_is_quoted_by_a_test() -> None:
    quoted = set().union(*QUOTES.values())
    assert {rule for rule, not_yet in RULES if not not_yet} - quoted == set()


def test_every_id_that_a_test_quotes_stands_in_the_specification() -> None:
    known = {*(rule for rule, _ in RULES), *CASES}
    unknown = {str(path.relative_to(ROOT)): sorted(quotes - known) for path, quotes in QUOTES.items() if quotes - known}
    assert unknown == {}


@pytest.mark.parametrize(
    ("kind", "example"),
    [(kind, line) for kind, block in EXAMPLE.findall(SPEC) for line in block.splitlines()],
)
def test_the_example_is_valid(kind: str, example: str) -> None:
    definition = {"$ref": f"#/$defs/{DEFINITIONS[kind]}", "$defs": schema()["$defs"]}
    Draft202012Validator(definition).validate(json.loads(example))


def test_every_block_of_json_is_an_example_that_is_checked() -> None:
    assert len(EXAMPLE.findall(SPEC)) == SPEC.count("```json") >= 8


# The tables of fields against the structs: nothing missing, nothing invented, optional where `?` stands.


def _table(heading: str) -> list[list[str]]:
    lines = SPEC[SPEC.index(heading) :].splitlines()
    rows = []
    for line in lines[lines.index(heading) + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def _names(cell: str) -> set[str]:
    """The fields that a cell names, without what stands in parentheses and braces behind them."""
    plain = re.sub(r"\([^)]*\)|[\[{].*?[\]}]+", "", cell)
    return set(re.findall(r"[a-z_]{2,}\??", " ".join(re.findall(r"`([^`]*)`", plain))))


def _fields(struct: type, *without: str) -> set[str]:
    return {
        field.encode_name if field.default is not msgspec.UNSET else f"{field.encode_name}?"
        for field in msgspec.structs.fields(struct)
        if field.encode_name not in without
    }


def test_W3_the_table_of_requests_is_that_of_the_structs() -> None:
    listed: dict[str, set[str]] = {}
    for ops, fields, _ in _table("| `op` | fields | `result` |"):
        for op in re.findall(r"`([^`]*)`", ops):
            listed[op] = _names(fields)
    listed["prompt"] = {name if name not in ("text", "parts") else f"{name}?" for name in listed["prompt"]}
    structs: dict[str, Any] = {str(struct.__struct_config__.tag): struct for struct in get_args(frames.Request)}
    del structs["hello"]
    assert listed == {op: _fields(struct, "id") for op, struct in structs.items()}


def test_P2_the_table_of_parts_is_that_of_the_structs() -> None:
    rows = _table("| `type` | of | fields |")
    listed = {row[0].strip("`"): {name.rstrip("?") for name in _names(row[2])} for row in rows}
    common = ("part_id", "sequence", "step_id")
    structs: dict[str, Any] = {str(struct.__struct_config__.tag): struct for struct in get_args(parts.Part)}
    assert listed == {type: {name.rstrip("?") for name in _fields(struct, *common)} for type, struct in structs.items()}
    roles = {row[0].strip("`"): row[1] for row in rows}
    assert {type for type, of in roles.items() if of != "agent"} == parts.USER_PART_TYPES
    assert {type for type, of in roles.items() if of != "user"} == parts.AGENT_PART_TYPES


def test_L3_the_table_of_mutations_is_that_of_the_structs() -> None:
    listed: dict[str, set[str]] = {}
    for variant, types, fields in _table("| `variant` | `type` | further fields |"):
        key = f"{variant} {types}" if variant in ("`turn`", "`session`") else variant
        listed[key.replace("`", "")] = {name.rstrip("?") for name in _names(fields)}
    listed["delta"] -= {"tool_input"}
    envelope = ("mutation_id", "session_id", "created_at", "type")
    structs = {
        "message": mutations.MessageMutation,
        "part": mutations.PartMutation,
        "delta": mutations.DeltaMutation,
        "turn start": mutations.TurnStart,
        "turn finish": mutations.TurnFinish,
        "file_diff": mutations.FileDiff,
        "session title": mutations.SessionTitle,
        "session config": mutations.SessionConfig,
        "warning": mutations.ModelRequestWarning,
    }
    assert set(structs.values()) == set(mutations.MUTATION_TYPES)
    assert listed == {key: {name.rstrip("?") for name in _fields(struct, *envelope)} for key, struct in structs.items()}


def test_L2_every_mutation_has_the_envelope() -> None:
    for struct in mutations.MUTATION_TYPES:
        assert {"mutation_id", "session_id", "created_at"} <= _fields(struct)


def test_M7_the_state_of_a_message_says_nothing_about_its_outcome() -> None:
    agent = schema()["$defs"]["AgentMessage"]
    assert agent["properties"]["state"]["enum"] == ["done", "streaming"]
    assert not {"status", "outcome", "error"} & set(agent["properties"])


def test_W3_every_limit_that_welcome_tells_stands_in_the_table_with_what_is_over() -> None:
    told = [name for _, fields, _, _ in _table("| limit | field | default | what is over |") for name in _names(fields)]
    assert len(told) == len(set(told))
    assert set(told) == {name.rstrip("?") for name in _fields(frames.Limits, "max_frame", "page")}
