"""The codec against every request there is, hostile input, and round trips in both formats (W2, W9)."""

import gc
import json
import sys
import tracemalloc
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Struct, UnsetType

from turnwire_protocol import frames
from turnwire_protocol.codec import (
    FORMATS,
    MAX_DEPTH,
    MAX_QUOTED,
    MAX_VALUES,
    OPS,
    Format,
    check_json,
    convert,
    decode_map,
    decode_request,
    encode,
    encode_json,
    encode_mutation,
    request_id_of,
    request_of,
)
from turnwire_protocol.codes import RequestError
from turnwire_protocol.messages import StoredJson
from turnwire_protocol.mutations import MUTATION_TYPES, MessageMutation
from turnwire_protocol.parts import MAX_SAFE_INTEGER
from vector_cases.requests import ACCEPTED
from vector_cases.server_frames import AGENT, FRAMES, MUTATIONS, USER

SAMPLES: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "integer": 1,
    "fraction": 0.5,
    "text": "text",
    "list": [1],
    "map": {"x-unknown": 1},
}
SURROGATE = "\ud800"


def _fields(struct: type) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        yield field.encode_name, hints[field.name]


def _accepts(hint: Any) -> set[str]:
    """Which of SAMPLES a field of this type may hold, as far as its kind goes."""
    origin = get_origin(hint)
    if hint is Any:
        return set(SAMPLES)
    if origin is Annotated:
        return _accepts(get_args(hint)[0])
    if origin is Literal:
        return {"text"}
    if origin is tuple:
        return {"list"}
    if origin is dict or (isinstance(hint, type) and issubclass(hint, Struct)):
        return {"map"}
    if isinstance(hint, type):
        return {{int: "integer", str: "text", bool: "boolean", UnsetType: "nothing"}[hint]}
    return set().union(*(_accepts(choice) for choice in get_args(hint)))


WRONG = [
    pytest.param(op, name, SAMPLES[kind], id=f"{op} {name}: {kind}")
    for op, struct in OPS.items()
    for name, hint in _fields(struct)
    for kind in sorted(set(SAMPLES) - _accepts(hint))
]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("op", "field", "value"), WRONG)
def test_W9_a_wrong_type_in_any_field_of_any_request_is_named(
    op: str, field: str, value: object, format: Format
) -> None:
    request = {**ACCEPTED[op if op in ACCEPTED else "prompt with text"], field: value}
    with pytest.raises(RequestError) as raised:
        decode_request(encode(request, format), format)
    assert raised.value.code == "invalid_argument"
    assert raised.value.field == field
    assert raised.value.message.startswith(f"{field}: ")


@pytest.mark.parametrize("struct", [pytest.param(struct, id=op) for op, struct in OPS.items()])
def test_W9_a_required_field_that_is_missing_is_named(struct: type) -> None:
    request = next(value for value in ACCEPTED.values() if value["op"] == struct.__struct_config__.tag)  # type: ignore[attr-defined]
    required = [field.encode_name for field in msgspec.structs.fields(struct) if field.required]
    assert "id" in required
    for name in required:
        with pytest.raises(RequestError) as raised:
            request_of({key: value for key, value in request.items() if key != name})
        assert (raised.value.code, raised.value.field) == ("invalid_argument", name)


def test_W3_every_request_has_an_example() -> None:
    assert {value["op"] for value in ACCEPTED.values()} == set(OPS)
    assert set(OPS.values()) == set(get_args(frames.Request))


# ------------------------------------------------------------------------------------------------------ hostile input


@pytest.mark.parametrize("bomb", ["[" * 100_000, '{"a":' * 100_000, '{"op":' + "[" * 5_000 + "]" * 5_000 + "}"])
def test_W9_a_depth_bomb_in_json_is_refused(bomb: str) -> None:
    with pytest.raises(RequestError, match=str(MAX_DEPTH)) as raised:
        decode_request(bomb, "json")
    assert raised.value.code == "invalid_frame"


@pytest.mark.parametrize("bomb", [b"\x91" * 100_000, b"\x81\xa1a" * 100_000])
def test_W9_a_depth_bomb_in_msgpack_is_refused(bomb: bytes) -> None:
    with pytest.raises(RequestError, match=str(MAX_DEPTH)) as raised:
        decode_request(bomb, "msgpack")
    assert raised.value.code == "invalid_frame"


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"k": value}])
def test_W9_depth_is_counted_from_the_request(wrap: Any) -> None:
    value: Any = "leaf"
    for _ in range(MAX_DEPTH - 1):
        value = wrap(value)
    check_json({"metadata": value})
    with pytest.raises(RequestError, match=f"deeper than {MAX_DEPTH}"):
        check_json({"metadata": wrap(value)})


def test_W9_a_long_key_above_many_values_costs_no_more_than_the_request() -> None:
    request = {"op": "session.create", "id": 1, "metadata": {"k" * 200_000: [0] * (MAX_VALUES - 10)}}
    tracemalloc.start()
    request_of(request)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ([1] * 100_000, None),
        ([[]] * 100_000, None),
        ([{"k": ""}] * 100_000, None),
        ([0] * 100_000 + [2**53], "metadata.k[100000]"),
        ([["x"]] * 100_000 + [[1, [2**53]]] + [0] * 100_000, "metadata.k[100000][1][0]"),
        ([{"a": [], "b": {}}] * 1_000 + [{"a": [1], "b": {"c": SURROGATE}}], "metadata.k[1000].b.c"),
    ],
)
def test_W9_many_values_are_checked_together(values: list[object], field: str | None) -> None:
    """A call of a Python function for each would take a second for one request, and all clients would wait for it."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    found = None
    sys.setprofile(count)
    try:
        check_json({"metadata": {"k": values}})
    except RequestError as error:
        found = error.field
    finally:
        sys.setprofile(None)
    assert found == field
    assert calls < 1_000


@pytest.mark.parametrize(
    "request_map",
    [
        {"op": "ping", "id": 1, "k" * 100_000: 1},
        {"op": "session.create", "id": 1, "metadata": {"k" * 100_000: 2**60}},
        {"op": "session.create", "id": 1, "config": {"approval_mode": "x" * 100_000}},
        {"op": "x" * 100_000, "id": 1},
    ],
)
def test_W9_an_error_quotes_only_so_much_of_what_was_sent(request_map: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as raised:
        request_of(request_map)
    assert len(raised.value.message) <= 2 * MAX_QUOTED + 2
    assert len(raised.value.field or "") <= MAX_QUOTED


@pytest.mark.parametrize("text", ['{"op":"ping","id":1,"x":"\\ud800"}', '{"\\udfff":1}', f'{{"op":"{SURROGATE}"}}'])
def test_W9_a_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="surrogate") as raised:
        decode_request(text, "json")
    assert raised.value.code == "invalid_frame"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"a": [SURROGATE]}, "tool.a[0]"),
        ({"a": {SURROGATE: 1}}, "tool.a"),
        ({"a": b""}, "tool.a"),
        ({"a": 2**53}, "tool.a"),
    ],
)
def test_W9_free_form_values_of_this_process_are_checked_too(value: object, field: str) -> None:
    with pytest.raises(RequestError) as raised:
        check_json(value, path="tool")
    assert raised.value.field == field


@given(st.binary(max_size=200), st.sampled_from(FORMATS))
def test_W9_any_bytes_are_a_request_or_a_typed_error(data: bytes, format: Format) -> None:
    try:
        decode_request(data, format)
    except RequestError as error:
        encode(error.frame(None), format)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    ),
    st.sampled_from(sorted(OPS)),
    st.sampled_from(["id", "session_id", "text", "parts", "metadata", "config", "limit", "x"]),
)
def test_W9_any_value_in_any_place_is_a_request_or_a_typed_error(value: object, op: str, field: str) -> None:
    try:
        request_of({"op": op, "id": 1, field: value})
    except RequestError as error:
        frame = json.loads(encode(error.frame(1), "json"))
    else:
        return
    assert frame["code"] == "invalid_argument"


@pytest.mark.parametrize(
    ("value", "usable"),
    [(1, 1), (MAX_SAFE_INTEGER, MAX_SAFE_INTEGER), (0, None), (2**53, None), (True, None), (1.0, None), ("1", None)],
)
def test_W3_an_error_carries_the_id_of_its_request_if_that_is_one(value: object, usable: int | None) -> None:
    assert request_id_of({"id": value}) == usable


def test_W9_convert_takes_any_type() -> None:
    assert convert([1, 2], list[int]) == [1, 2]
    with pytest.raises(RequestError) as raised:
        convert([1, "2"], list[int])
    assert raised.value.field == "[1]"


# ------------------------------------------------------------------------------------------------------- round trips

plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=10), inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=10), plain_json, max_size=8))
def test_W2_plain_maps_survive_both_formats(value: dict[str, Any]) -> None:
    for format in FORMATS:
        assert decode_map(encode(value, format), format) == value


@given(plain_json, st.text(max_size=50))
def test_W2_free_form_data_of_a_request_survives_both_formats(data: object, text: str) -> None:
    request = frames.SessionCreate(id=1, metadata={"k": data, "t": text})
    for format in FORMATS:
        assert decode_request(encode(request, format), format) == request


@given(st.dictionaries(st.text(max_size=10), plain_json, max_size=5), st.sampled_from(FORMATS))
def test_P2_stored_json_is_spliced_as_if_it_had_been_encoded(value: dict[str, Any], format: Format) -> None:
    stored = encode_json(value)
    assert decode_map(encode({"items": [stored, stored]}, format), format) == {"items": [value, value]}


@pytest.mark.parametrize("message", [USER, AGENT], ids=["user", "agent"])
@pytest.mark.parametrize("format", FORMATS)
def test_P2_a_stored_message_makes_the_same_frame_as_the_struct(message: Any, format: Format) -> None:
    def frame(of: Any) -> bytes:
        mutation = MessageMutation(
            mutation_id="x", session_id="s1", created_at=1, type=message.__struct_config__.tag,
            message_id=message.message_id, sequence=message.sequence, revision=message.revision, message=of,
        )  # fmt: skip
        return encode_mutation(mutation, epoch="e", seq=1, format=format)

    assert decode_map(frame(encode_json(message)), format) == decode_map(frame(message), format)


def test_P2_unknown_fields_of_a_stored_message_pass_into_both_formats() -> None:
    stored = StoredJson(b'{"message_id":"m1","parts":[{"type":"x-new","deep":{"a":[1]}}],"x_new":0.5}')
    for format in FORMATS:
        assert decode_map(encode({"items": (stored,)}, format), format)["items"] == [json.loads(stored.text)]


@pytest.mark.parametrize("format", FORMATS)
def test_W9_a_value_that_no_format_has_cannot_be_sent(format: Format) -> None:
    with pytest.raises(NotImplementedError, match="object"):
        encode({"x": object()}, format)


# --------------------------------------------------------------------------------------------------- mutation frames


def test_W5_every_kind_of_mutation_has_an_example() -> None:
    assert {type(mutation) for mutation in MUTATIONS.values()} == set(MUTATION_TYPES)


@pytest.mark.parametrize("name", MUTATIONS)
def test_W5_a_mutation_frame_is_one_flat_map_in_both_formats(name: str) -> None:
    mutation = MUTATIONS[name]
    fields = json.loads(encode(mutation, "json"))
    flat = {"op": "mutation", "epoch": "e-1", "seq": MAX_SAFE_INTEGER, **fields}
    for format in FORMATS:
        data = encode_mutation(mutation, epoch="e-1", seq=MAX_SAFE_INTEGER, format=format)
        assert decode_map(data, format) == flat


@pytest.mark.parametrize("fields", [1, 11, 12, 13, 14, 15, 16, 17, 18, 300])
@pytest.mark.parametrize("format", FORMATS)
def test_W5_a_mutation_may_have_any_number_of_fields(fields: int, format: Format) -> None:
    """The MessagePack header of a map changes its form at 16 entries."""
    struct = msgspec.defstruct("Wide", [(f"f{number}", int, number) for number in range(fields)], frozen=True)
    wide: Any = struct()
    value = decode_map(encode_mutation(wide, epoch="e", seq=1, format=format), format)
    assert value == {"op": "mutation", "epoch": "e", "seq": 1, **{f"f{number}": number for number in range(fields)}}


@pytest.mark.parametrize("name", FRAMES)
def test_W2_absent_fields_are_left_out_and_never_null(name: str) -> None:
    frame = FRAMES[name]
    value = json.loads(encode(frame, "json"))
    unset = {field for field in frame.__struct_fields__ if getattr(frame, field) is UNSET}
    assert not unset & set(value)
    assert None not in value.values()


MANY: dict[str, Any] = {
    "lists": [[]] * MAX_VALUES,
    "maps": [{}] * MAX_VALUES,
    "numbers": [1] * MAX_VALUES,
    "pairs": [[1]] * (MAX_VALUES // 2),
    "keys": {f"k{number}": None for number in range(MAX_VALUES)},
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", MANY)
def test_W9_a_request_has_a_limited_number_of_values(kind: str, format: Format) -> None:
    data = encode({"op": "session.create", "id": 1, "metadata": {"x": MANY[kind]}}, format)
    with pytest.raises(RequestError, match=f"^more than {MAX_VALUES} values$") as refusal:
        decode_request(data, format)
    assert refusal.value.code == "too_large"


def test_W9_text_that_looks_like_many_values_is_one() -> None:
    text = "[]," * 300_000
    request = decode_request(
        encode({"op": "prompt", "id": 1, "session_id": "s", "client_request_id": "r", "text": text}, "json"), "json"
    )
    assert isinstance(request, frames.Prompt)
    assert request.text == text


@pytest.mark.parametrize("format", FORMATS)
def test_W9_the_garbage_collector_rests_while_a_large_frame_is_read(format: Format) -> None:
    """A million lists made it look at all objects of the process, a hundred times."""
    data = encode({"x": [[]] * 200_000}, format)
    runs: list[str] = []

    def watch(phase: str, _info: dict[str, int]) -> None:
        runs.append(phase)

    gc.callbacks.append(watch)
    try:
        value = decode_map(data, format)
        seen = runs.count("start")
    finally:
        gc.callbacks.remove(watch)
    assert len(value["x"]) == 200_000
    assert seen <= 1, "one at most, when it may run again"
    assert gc.isenabled()
    for broken in (data[:-1], data + b"!"):
        with pytest.raises(RequestError):
            decode_map(broken, format)
        assert gc.isenabled()
    gc.disable()
    try:
        decode_map(data, format)
        assert not gc.isenabled()
    finally:
        gc.enable()
