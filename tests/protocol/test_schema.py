"""The JSON Schema against examples of everything, and against what the codec refuses (W9)."""

import copy
import json
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from turnwire_protocol import frames, messages, mutations, parts
from turnwire_protocol.codec import OPS, encode
from turnwire_protocol.schema import RESULTS, schema
from vector_cases import server_frames
from vector_cases.requests import ACCEPTED, REFUSED

SCHEMA = schema()
MERGE = Path(__file__).parents[2] / "protocol" / "vectors" / "merge"

BEYOND_A_SCHEMA = {
    "an integer above 53 bits in free-form data",
    "free-form data that nests 31 levels below its map",
}
"""What the codec refuses and no schema can say."""


def _validator(definition: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": SCHEMA["$defs"]})


ANY, REQUEST, SERVER_FRAME = Draft202012Validator(SCHEMA), _validator("Request"), _validator("ServerFrame")


def test_W9_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", ACCEPTED)
def test_W9_every_request_is_valid(name: str) -> None:
    REQUEST.validate(ACCEPTED[name])
    ANY.validate(ACCEPTED[name])


@pytest.mark.parametrize("name", sorted(set(REFUSED) - BEYOND_A_SCHEMA))
def test_W9_what_the_codec_refuses_is_not_valid(name: str) -> None:
    assert not REQUEST.is_valid(REFUSED[name][0])


@pytest.mark.parametrize("name", sorted(BEYOND_A_SCHEMA))
def test_W9_what_a_schema_cannot_refuse_is_known(name: str) -> None:
    assert REQUEST.is_valid(REFUSED[name][0])


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(case["value"], id=case["name"])
        for case in server_frames.server_frames()
        if case["format"] == "json"
    ],
)
def test_L3_every_server_frame_is_valid_and_needs_what_it_has(value: dict[str, Any]) -> None:
    SERVER_FRAME.validate(value)
    assert SERVER_FRAME.is_valid({**value, "x_new": 1}), "clients must ignore fields that they do not know"
    for name in ("op", "variant", "type", "session_id", "seq", "epoch", "code", "retryable"):
        if name in value:
            broken = copy.deepcopy(value)
            del broken[name]
            assert not SERVER_FRAME.is_valid(broken), name


@pytest.mark.parametrize(
    ("definition", "values"),
    [
        ("Message", [server_frames.USER, server_frames.AGENT]),
        ("Part", [*server_frames.USER_PARTS, *server_frames.AGENT_PARTS]),
        ("Mutation", [*server_frames.MUTATIONS.values()]),
    ],
)
def test_P2_messages_parts_and_mutations_are_valid(definition: str, values: list[Any]) -> None:
    for value in values:
        _validator(definition).validate(json.loads(encode(value, "json")))


def test_P2_a_role_never_holds_the_other_roles_parts() -> None:
    user, agent = (json.loads(encode(of, "json")) for of in (server_frames.USER, server_frames.AGENT))
    user["parts"], agent["parts"] = agent["parts"], user["parts"]
    assert not _validator("Message").is_valid(user)
    assert not _validator("Message").is_valid(agent)


@pytest.mark.parametrize("path", [path for path in sorted(MERGE.glob("*.json")) if path.stem != "unknowns"], ids=str)
def test_W5_the_merge_vectors_are_made_of_valid_frames(path: Path) -> None:
    for case in json.loads(path.read_text("utf-8"))["cases"]:
        for step in case["steps"]:
            if "receive" in step and step["effect"] != "ignored":
                SERVER_FRAME.validate(step["receive"])
            if "add_page" in step:
                _validator("Page").validate(step["add_page"])


def test_W3_every_struct_of_the_wire_is_in_the_schema() -> None:
    structs = [*get_args(frames.Request), *get_args(frames.ServerFrame), *mutations.MUTATION_TYPES]
    structs += [*get_args(parts.Part), *get_args(messages.Message), *RESULTS.values()]
    assert {struct.__name__ for struct in structs} <= set(SCHEMA["$defs"])


def test_W3_every_request_but_hello_has_a_result() -> None:
    assert set(RESULTS) == set(OPS) - {"hello"}
