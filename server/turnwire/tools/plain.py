"""Plain JSON at the border of a tool: input text becomes values, and whatever a tool returns becomes values (P5, Z3).

Plain means: None, booleans, integers within 53 bits, finite floats, whole text, lists, and maps with string keys, at
most `codec.MAX_DEPTH` deep. Which shape a tool wants is `functions`; what a failed call is, is `calls`.
"""

import json
import re
from typing import Any, Final, NoReturn

import msgspec

from turnwire.models.base import clean_text
from turnwire.tools.base import ToolInputError
from turnwire_protocol.codec import MAX_DEPTH, check_json
from turnwire_protocol.codes import RequestError

_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")

_TOO_DEEP: Final = f"the result nests deeper than {MAX_DEPTH} levels, or holds itself"


class NotPlain(ValueError):
    """A value that no JSON text can stand for; the sentence says what and where."""


def parse_json(text: str) -> Any:
    """The value that the finished input text of a call stands for; nothing but space stands for no arguments, `{}`.

    Lone surrogates become U+FFFD; of duplicate keys the last one counts. Raises ToolInputError with line and column, or
    with the path of what is too deep or out of range.
    """
    cleaned = clean_text(text)
    if not cleaned.strip():
        return {}
    try:
        value = json.loads(cleaned, parse_constant=_refuse_constant)
        if _SURROGATE_ESCAPE.search(cleaned):
            value = _cleaned(value)
        check_json(value)
    except json.JSONDecodeError as error:
        raise ToolInputError(
            f"the input is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise ToolInputError(f"the input nests deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:  # a number that Python refuses to read for its length, or NaN and its like
        raise ToolInputError(f"the input is not JSON: {error}") from None
    except RequestError as error:
        raise ToolInputError(error.message) from None
    return value


def builtins_of(value: Any) -> Any:
    """What a tool returned, in Python's own types: structs and dataclasses are maps, sets lists, times ISO text.

    Bytes become base64 and keys text. Raises NotPlain for what JSON has nothing for.
    """
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except RecursionError:
        raise NotPlain(_TOO_DEEP) from None
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise NotPlain(f"the result is not JSON: {clean_text(str(error))}") from None


def plain(builtins: Any) -> Any:
    """What `builtins_of` gave, as plain JSON: whole text, checked numbers and depth. Raises NotPlain."""
    try:
        cleaned = _cleaned(builtins)
        check_json(cleaned, path="result")
    except RequestError as error:
        raise NotPlain(error.message) from None
    except RecursionError:
        raise NotPlain(_TOO_DEEP) from None
    return cleaned


def json_size(value: Any) -> int:
    """How many bytes the value takes as JSON.

    Raises ValueError, OverflowError or RecursionError for a value that is not plain.
    """
    return len(msgspec.json.encode(value))


def fitting_prefix(text: str, size: int) -> str:
    """The longest prefix that takes at most `size` bytes inside a JSON string. One character takes 1 to 6 bytes."""
    least, most = 0, min(len(text), max(size, 0))
    while least < most:
        middle = (least + most + 1) // 2
        if json_size(text[:middle]) - 2 <= size:
            least = middle
        else:
            most = middle - 1
    return text[:least]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _cleaned(value: Any, depth: int = 1) -> Any:
    """A copy with whole text, and lists for tuples. Raises RecursionError beyond MAX_DEPTH."""
    if isinstance(value, str):
        return clean_text(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item, depth + 1) for key, item in value.items()}
    return [_cleaned(item, depth + 1) for item in value]
