"""Bytes to requests, frames to bytes: both formats, limits and typed errors (W2, W9). No I/O.

A request is read in three steps, each with its own error: the bytes become one plain map (`invalid_frame`), the map is
checked for what JSON on every peer can hold (`invalid_argument`: depth, integers, text), and becomes a struct by its
`op` (`unknown_op`, `invalid_argument` with the path of the field).

Duplicate keys in a map: the last one wins.
"""

import gc
import re
from collections.abc import Callable
from itertools import chain
from math import isfinite
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from turnwire_protocol import frames
from turnwire_protocol.codes import RequestError
from turnwire_protocol.messages import StoredJson
from turnwire_protocol.mutations import Mutation
from turnwire_protocol.parts import MAX_SAFE_INTEGER

Format: TypeAlias = Literal["json", "msgpack"]
FORMATS: Final[tuple[Format, ...]] = ("json", "msgpack")

MAX_DEPTH: Final = 32
"""How deep maps and lists of a request may nest, the request itself being 1."""

MAX_VALUES: Final = 10_000
"""How many values a request may consist of, maps and lists and what is in them, keys aside."""

UNDISTURBED_BYTES: Final = 64 * 1024
"""A frame above this size is read with the garbage collector at rest: it would look at all objects of the process again
and again while some hundred thousand lists are made, and could free none of them."""

MAX_QUOTED: Final = 300
"""How many characters of a path or a sentence an error carries."""

OPS: Final[dict[str, type]] = {struct.__struct_config__.tag: struct for struct in get_args(frames.Request)}
"""Request structs by `op`."""


def _splice_json(value: object) -> msgspec.Raw:
    if isinstance(value, StoredJson):
        return msgspec.Raw(value.text)
    raise NotImplementedError(f"{type(value).__name__} cannot be sent")


def _parse_stored(value: object) -> Any:
    if isinstance(value, StoredJson):
        return msgspec.json.decode(value.text)
    raise NotImplementedError(f"{type(value).__name__} cannot be sent")


_json = msgspec.json.Encoder(enc_hook=_splice_json)
_msgpack = msgspec.msgpack.Encoder(enc_hook=_parse_stored)
_encoders: Final[dict[Format, Callable[[Any], bytes]]] = {"json": _json.encode, "msgpack": _msgpack.encode}
_decode_json = msgspec.json.Decoder().decode
_decode_msgpack = msgspec.msgpack.Decoder().decode


def encode(value: Any, format: Format) -> bytes:
    """A frame, or any value made of structs, `StoredJson` and plain JSON, as bytes of one WebSocket message."""
    return _encoders[format](value)


def encode_json(value: Any) -> StoredJson:
    """The value as JSON text, ready to be stored and to be spliced into frames."""
    return StoredJson(_json.encode(value))


def encode_mutation(mutation: Mutation, *, epoch: str, seq: int, format: Format) -> bytes:
    """The `mutation` frame: the Mutation's own fields after `op`, `epoch` and `seq`, in one flat map (W5)."""
    if format == "json":
        return b'{"op":"mutation","epoch":"%s","seq":%d,' % (epoch.encode(), seq) + _json.encode(mutation)[1:]
    body = _msgpack.encode(mutation)
    head = msgspec.msgpack.encode({"op": "mutation", "epoch": epoch, "seq": seq})
    return _msgpack_map_header(_msgpack_map_size(body) + 3) + head[1:] + body[1 if body[0] < 0xA0 else 3 :]


def _msgpack_map_size(body: bytes) -> int:
    return body[0] & 0x0F if body[0] < 0xA0 else int.from_bytes(body[1:3], "big")


def _msgpack_map_header(size: int) -> bytes:
    return bytes([0x80 | size]) if size < 16 else b"\xde" + size.to_bytes(2, "big")


# ------------------------------------------------------------------------------------------------------- reading


def decode_map(data: bytes | str, format: Format) -> dict[str, Any]:
    """One WebSocket message as a plain map. Raises RequestError `invalid_frame` when it is none."""
    try:
        value = _decode(data, format) if len(data) <= UNDISTURBED_BYTES else _decode_undisturbed(data, format)
    except RecursionError:
        raise RequestError("invalid_frame", f"the frame nests deeper than {MAX_DEPTH} levels") from None
    except (msgspec.DecodeError, UnicodeEncodeError, TypeError) as error:
        sentence = "the data ends too early, or has a lone surrogate" if str(error) == _TRUNCATED else str(error)
        raise RequestError("invalid_frame", f"not {_NAMES[format]}: {sentence}"[:MAX_QUOTED]) from None
    if not isinstance(value, dict):
        raise RequestError("invalid_frame", f"a frame is one map, this is {_name_of(value)}")
    return value


def _decode(data: bytes | str, format: Format) -> Any:
    return _decode_json(data) if format == "json" else _decode_msgpack(_as_bytes(data))


def _decode_undisturbed(data: bytes | str, format: Format) -> Any:
    collects = gc.isenabled()
    gc.disable()
    try:
        return _decode(data, format)
    finally:
        if collects:
            gc.enable()


def decode_request(data: bytes | str, format: Format) -> frames.Request:
    """A request from the bytes of one WebSocket message.

    Raises RequestError `invalid_frame`, `invalid_argument` (with `field`) or `unknown_op`; `request_id_of` says to
    which request the error belongs.
    """
    return request_of(decode_map(data, format))


def request_of(value: dict[str, Any], *, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES) -> frames.Request:
    """The request that a plain map stands for. Raises RequestError."""
    check_json(value, max_depth=max_depth, max_values=max_values)
    op = value.get("op")
    if not isinstance(op, str):
        raise RequestError("invalid_argument", "op: expected a string", field="op")
    struct = OPS.get(op)
    if struct is None:
        raise RequestError("unknown_op", f"op: unknown operation {op[:64]!r}", field="op")
    request: frames.Request = convert(value, struct)
    return request


def convert(value: Any, type: Any, *, path: str = "") -> Any:
    """`value`, which stands at `path`, as `type`, strictly. Raises RequestError `invalid_argument` naming the field."""
    try:
        return msgspec.convert(value, type, strict=True, str_keys=True)  # the keys of a JSON map are always strings
    except msgspec.ValidationError as error:
        field, sentence = _explain(str(error))
        raise _refused(".".join(piece for piece in (path, field) if piece), sentence) from None


def request_id_of(value: dict[str, Any]) -> int | None:
    """The `id` that an answer to this map should carry, if it has a usable one."""
    request_id = value.get("id")
    if type(request_id) is int and 1 <= request_id <= MAX_SAFE_INTEGER:
        return request_id
    return None


def check_json(value: Any, *, path: str = "", max_depth: int = MAX_DEPTH, max_values: int | None = None) -> None:
    """Refuses what some peer could not hold: depth, unsafe integers, lone surrogates, keys and types JSON has not.

    Raises RequestError `invalid_argument` with the path of a fault, `too_large` for too many values. Iterative: depth
    cannot exhaust the stack.

    A request of 1 MiB holds up to a million values, and one thread reads the requests of all clients. So the values of
    one depth are checked together, by what runs over many of them in C, and a path is found only for a fault.
    """
    levels: list[list[Any]] = [[value]]
    count = 0
    while levels[-1]:
        count += len(levels[-1])
        if max_values is not None and count > max_values:
            raise RequestError("too_large", f"more than {max_values} values")
        level, may_nest = levels[-1], len(levels) <= max_depth
        if not _is_sound(level, may_nest):
            index = _first_unsound(level, may_nest)
            fault = _fault_of(level[index]) or f"nests deeper than {max_depth} levels"
            raise _refused(_path_of(levels, index, path), fault)
        children = [item.values() if isinstance(item, dict) else item for item in _containers_in(level)]
        levels.append([*chain.from_iterable(children)])


def _is_sound(level: list[Any], may_nest: bool) -> bool:
    """Whether `_fault_of` finds nothing in any of the values."""
    kinds = set(map(type, level))

    def those(kind: type | tuple[type, ...]) -> list[Any]:
        return [item for item in level if isinstance(item, kind)] if any(issubclass(it, kind) for it in kinds) else []

    if not all(issubclass(kind, _JSON_TYPES) for kind in kinds) or (not may_nest and those((dict, list))):
        return False
    keys = [*chain.from_iterable(those(dict))]
    if not all(issubclass(kind, str) for kind in set(map(type, keys))):
        return False
    integers = those(int)
    if integers and (min(integers) < -MAX_SAFE_INTEGER or max(integers) > MAX_SAFE_INTEGER):
        return False
    return all(map(isfinite, those(float))) and _is_whole(keys) and _is_whole(those(str))


def _is_whole(texts: list[str]) -> bool:
    return not _has_surrogate("".join(texts))


def _first_unsound(level: list[Any], may_nest: bool) -> int:
    """The index of the first value that makes the level unsound, by halving: no value is looked at by itself."""
    low, high = 0, len(level)
    while high - low > 1:
        middle = (low + high) // 2
        if _is_sound(level[low:middle], may_nest):
            low = middle
        else:
            high = middle
    return low


def _containers_in(level: list[Any]) -> list[Any]:
    return [item for item in level if isinstance(item, dict | list)]


def _path_of(levels: list[list[Any]], index: int, root: str) -> str:
    """The path of the value at an index of the last level."""
    keys: list[str | int] = []
    for level in reversed(levels[:-1]):
        for container in _containers_in(level):
            if index < len(container):
                break
            index -= len(container)
        keys.append([*container][index] if isinstance(container, dict) else index)
        index = next(place for place, item in enumerate(level) if item is container)
    path = root
    for key in reversed(keys):
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else key
    return path


def _refused(path: str, sentence: str) -> RequestError:
    """`invalid_argument` at a path; what the client wrote itself is quoted up to a limit only."""
    path, sentence = path[:MAX_QUOTED], sentence[:MAX_QUOTED]
    return RequestError("invalid_argument", f"{path}: {sentence}" if path else sentence, field=path or None)


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


def _fault_of(item: Any) -> str | None:
    if item is None or isinstance(item, bool | list):
        return None
    if isinstance(item, str):
        return "the text has a lone surrogate" if _has_surrogate(item) else None
    if isinstance(item, dict):
        if not all(isinstance(key, str) for key in item):
            return "a key is not a string"
        return "a key has a lone surrogate" if any(map(_has_surrogate, item)) else None
    if isinstance(item, int):
        return None if -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER else "the integer does not fit in 53 bits"
    if isinstance(item, float):
        return None if item - item == 0 else "the number is not finite"
    return f"{_name_of(item)} is not a JSON value"


_PLAIN_TYPES: Final = frozenset((type(None), bool, int, float, str, list, dict))
_JSON_TYPES: Final = (type(None), bool, int, float, str, list, dict)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TRUNCATED: Final = "Input data was truncated"
"""What msgspec says of JSON with an unpaired `\\ud800` as well as of a frame that is cut."""

_NAMES: Final = {"json": "JSON", "msgpack": "MessagePack"}
_KINDS: Final = {
    "int": "an integer",
    "str": "a string",
    "bool": "a boolean",
    "float": "a number",
    "object": "a map",
    "dict": "a map",
    "array": "a list",
    "list": "a list",
    "null": "null",
    "NoneType": "null",
    "bytes": "binary data",
    "datetime": "a timestamp",
    "Ext": "an extension value",
}
_LOCATION: Final = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_FIELD: Final = re.compile(r"^Object (?P<fault>missing required|contains unknown) field `(?P<name>.*)`$", re.DOTALL)
_BACKTICKED: Final = re.compile(r"`([A-Za-z]+)`")


def _as_bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _name_of(value: Any) -> str:
    name = type(value).__name__
    return _KINDS.get(name, name)


def _explain(error: str) -> tuple[str, str]:
    """msgspec's sentence as (path of the field, sentence in the words of SPEC.md)."""
    match = _LOCATION.match(error)
    what, path = (match["what"], match["path"] or "") if match else (error, "")
    path = path.removeprefix("$").removeprefix(".")
    missing = _FIELD.match(what)
    if missing:
        path = f"{path}.{missing['name']}" if path else missing["name"]
        return path, "is required" if missing["fault"].startswith("missing") else "unknown field"
    sentence = _BACKTICKED.sub(lambda kind: _KINDS.get(kind[1], kind[1]), what)
    return path, sentence[:1].lower() + sentence[1:]
