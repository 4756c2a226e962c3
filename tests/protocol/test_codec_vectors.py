"""The codec on the language-neutral cases of `vectors/codec/`, and the vectors on independent decoders."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from turnwire_protocol.codec import FORMATS, Format, decode_map, decode_request, encode, request_of
from turnwire_protocol.codes import CLOSE_CODES, ERROR_CODES, RequestError, retry_of

VECTORS = Path(__file__).parents[2] / "protocol" / "vectors"


def _cases(file: str) -> list[Any]:
    cases = json.loads((VECTORS / "codec" / file).read_text("utf-8"))["cases"]
    assert cases
    return [pytest.param(case, id=f"{case['format']}: {case['name']}") for case in cases]


def _data(case: dict[str, Any]) -> bytes | str:
    return bytes.fromhex(case["hex"]) if "hex" in case else str(case["text"])


@pytest.mark.parametrize("case", [*_cases("requests.json"), *_cases("malformed.json")])
def test_W9_the_bytes_become_the_request_or_the_error_of_the_vector(case: dict[str, Any]) -> None:
    assert _outcome(_data(case), case["format"]) == _expected(case)


@pytest.mark.parametrize("case", _cases("requests.json"))
@pytest.mark.parametrize("format", FORMATS)
def test_W2_a_request_is_the_same_in_both_formats(case: dict[str, Any], format: Format) -> None:
    assert _outcome(encode(json.loads(case["text"]), format), format) == _expected(case)


@pytest.mark.parametrize("case", _cases("server_frames.json"))
def test_W2_a_server_frame_is_the_same_map_in_both_formats(case: dict[str, Any]) -> None:
    assert decode_map(_data(case), case["format"]) == case["value"]


def test_W8_the_tables_of_codes_are_those_of_the_vectors() -> None:
    tables = json.loads((VECTORS / "codes.json").read_text("utf-8"))
    assert tables["errors"] == [msgspec.to_builtins(code) for code in ERROR_CODES.values()]
    assert tables["closes"] == [msgspec.to_builtins(code) for code in CLOSE_CODES.values()]
    assert all(retry_of(code["code"]) == code["retry"] for code in tables["closes"])


@pytest.mark.parametrize(
    ("code", "retry"),
    [
        (1006, "retry"),
        (3000, "retry"),
        (4000, "retry"),
        (4399, "retry"),
        (4402, "stop"),
        (4499, "stop"),
        (4500, "retry"),
    ],
)
def test_W8_what_to_do_after_a_close_code_that_is_not_in_the_table(code: int, retry: str) -> None:
    assert retry_of(code) == retry


def _outcome(data: bytes | str, format: Format) -> Any:
    try:
        return _plain(msgspec.to_builtins(decode_request(data, format)))
    except RequestError as error:
        return {"code": error.code} if error.field is None else {"code": error.code, "field": error.field}


def _expected(case: dict[str, Any]) -> Any:
    return case["error"] if "error" in case else case["value"]


def _plain(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    return json.loads(json.dumps(value))


def test_W9_an_answer_names_the_request_and_the_field() -> None:
    with pytest.raises(RequestError) as raised:
        request_of({"op": "session.list", "id": 7, "limit": 0})
    frame = json.loads(encode(raised.value.frame(7), "json"))
    assert frame == {
        "op": "error",
        "id": 7,
        "code": "invalid_argument",
        "message": "limit: expected an integer >= 1",
        "field": "limit",
        "retryable": False,
    }


def test_W9_an_error_that_belongs_to_no_request_has_no_id() -> None:
    frame = json.loads(encode(RequestError("unavailable", "The disk is full.").frame(None), "json"))
    assert frame == {"op": "error", "code": "unavailable", "message": "The disk is full.", "retryable": True}
