"""What a server makes of the bytes of one WebSocket message: the request, or the error and its field (W2, W9)."""

import json
from typing import Any

from vector_cases.frames import Plain

SAFE = 2**53 - 1

PROMPT: Plain = {"op": "prompt", "id": 1, "session_id": "s1", "client_request_id": "r1"}
CREATE: Plain = {"op": "session.create", "id": 1}

ACCEPTED: dict[str, Plain] = {
    "hello without a token": {"op": "hello", "id": 1},
    "hello": {"op": "hello", "id": 1, "token": "secret", "client": "test/1", "protocol": 1},
    "ping": {"op": "ping", "id": SAFE},
    "session.create": CREATE,
    "session.create with everything": {
        **CREATE,
        "session_id": "A-z_0.9:x",
        "title": "T",
        "config": {"model": "m", "approval_mode": "always-allow"},
        "metadata": {"deep": [1, -SAFE, 0.5, None, True, {"k": ""}]},
        "client_request_id": "r1",
    },
    "session.list": {"op": "session.list", "id": 2, "before": "cursor", "limit": 1000, "archived": True},
    "session.get": {"op": "session.get", "id": 3, "session_id": "s" * 128},
    "session.update": {"op": "session.update", "id": 4, "session_id": "s1", "title": "é" * 200},
    "subscribe": {"op": "subscribe", "id": 5, "session_id": "s1", "limit": 1, "include_internal": False},
    "reload": {"op": "reload", "id": 6, "session_id": "s1"},
    "unsubscribe": {"op": "unsubscribe", "id": 7, "session_id": "s1"},
    "messages": {"op": "messages", "id": 8, "session_id": "s1", "before_sequence": 1, "limit": 50},
    "prompt with text": {**PROMPT, "text": "Hé, 🌍 \u0000\n", "if_idle": True, "expected_turn_id": "t1"},
    "prompt with Parts": {
        **PROMPT,
        "parts": [
            {"type": "text", "text": ""},
            {"type": "context", "tag": "a-1_b", "context": "</a-1_b>"},
            {"type": "file", "url": "https://example.com/a.png", "media_type": "image/png", "filename": "a.png"},
            {"type": "data", "data_type": "chart", "data": None, "data_id": "d1"},
        ],
    },
    "stop": {"op": "stop", "id": 9, "session_id": "s1", "turn_id": "t1"},
    "session.fork": {
        "op": "session.fork",
        "id": 11,
        "session_id": "s1",
        "through_message_id": "m1",
        "new_session_id": "s2",
        "client_request_id": "r1",
    },
    "session.archive": {"op": "session.archive", "id": 12, "session_id": "s1"},
    "session.delete": {"op": "session.delete", "id": 13, "session_id": "s1"},
    "interactions": {"op": "interactions", "id": 10, "session_id": "s1"},
    "interaction.respond": {
        "op": "interaction.respond",
        "id": 14,
        "session_id": "s1",
        "interaction_id": "i1",
        "revision": 7,
        "response": {"decision": "denied", "reason": "not today"},
        "client_request_id": "r1",
    },
}


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


REFUSED: dict[str, tuple[Plain, str, str | None]] = {
    "no op": ({"id": 1}, "invalid_argument", "op"),
    "an op that is no string": ({"op": 1, "id": 1}, "invalid_argument", "op"),
    "an unknown op": ({"op": "prompts", "id": 1}, "unknown_op", "op"),
    "an op of the server": ({"op": "snapshot", "id": 1}, "unknown_op", "op"),
    "no id": ({"op": "ping"}, "invalid_argument", "id"),
    "id 0": ({"op": "ping", "id": 0}, "invalid_argument", "id"),
    "a negative id": ({"op": "ping", "id": -1}, "invalid_argument", "id"),
    "an id with a fraction": ({"op": "ping", "id": 1.5}, "invalid_argument", "id"),
    "an id that is a boolean": ({"op": "ping", "id": True}, "invalid_argument", "id"),
    "an id that is text": ({"op": "ping", "id": "1"}, "invalid_argument", "id"),
    "an id above 53 bits": ({"op": "ping", "id": SAFE + 1}, "invalid_argument", "id"),
    "an unknown field": ({"op": "ping", "id": 1, "x": 1}, "invalid_argument", "x"),
    "an unknown field with a backtick": ({"op": "ping", "id": 1, "a`b": 1}, "invalid_argument", "a`b"),
    "an unknown field below": ({**CREATE, "config": {"mode": "ask"}}, "invalid_argument", "config.mode"),
    "an unknown field of a Part": (
        {**PROMPT, "parts": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "state": "done"}]},
        "invalid_argument",
        "parts[1].state",
    ),
    "null for an optional field": ({**CREATE, "title": None}, "invalid_argument", "title"),
    "null for a required field": (
        {"op": "session.get", "id": 1, "session_id": None},
        "invalid_argument",
        "session_id",
    ),
    "a missing field": ({"op": "session.get", "id": 1}, "invalid_argument", "session_id"),
    "an empty id of a Session": ({"op": "session.get", "id": 1, "session_id": ""}, "invalid_argument", "session_id"),
    "an id with a blank": ({"op": "session.get", "id": 1, "session_id": "a b"}, "invalid_argument", "session_id"),
    "an id with a line end": ({"op": "session.get", "id": 1, "session_id": "a\n"}, "invalid_argument", "session_id"),
    "an id with a letter that is not ASCII": (
        {"op": "session.get", "id": 1, "session_id": "é"},
        "invalid_argument",
        "session_id",
    ),
    "an id of 129 characters": (
        {"op": "session.get", "id": 1, "session_id": "s" * 129},
        "invalid_argument",
        "session_id",
    ),
    "an empty title": ({**CREATE, "title": ""}, "invalid_argument", "title"),
    "a title of 201 characters": ({**CREATE, "title": "x" * 201}, "invalid_argument", "title"),
    "limit 0": ({"op": "session.list", "id": 1, "limit": 0}, "invalid_argument", "limit"),
    "a limit with a fraction": ({"op": "session.list", "id": 1, "limit": 1.5}, "invalid_argument", "limit"),
    "before_sequence 0": (
        {"op": "messages", "id": 1, "session_id": "s1", "before_sequence": 0},
        "invalid_argument",
        "before_sequence",
    ),
    "an unknown approval mode": (
        {**CREATE, "config": {"approval_mode": "never"}},
        "invalid_argument",
        "config.approval_mode",
    ),
    "a Part type of Agent Messages": (
        {**PROMPT, "parts": [{"type": "reasoning", "text": "a"}]},
        "invalid_argument",
        "parts[0].type",
    ),
    "a Part without a type": ({**PROMPT, "parts": [{"text": "a"}]}, "invalid_argument", "parts[0].type"),
    "a tag that could not be a tag": (
        {**PROMPT, "parts": [{"type": "context", "tag": "a>b", "context": ""}]},
        "invalid_argument",
        "parts[0].tag",
    ),
    "a tag with a line end": (
        {**PROMPT, "parts": [{"type": "context", "tag": "a\n", "context": ""}]},
        "invalid_argument",
        "parts[0].tag",
    ),
    "Parts that are no list": ({**PROMPT, "parts": {}}, "invalid_argument", "parts"),
    "257 Parts": ({**PROMPT, "parts": [{"type": "text", "text": ""}] * 257}, "invalid_argument", "parts"),
    "metadata that is no map": ({**CREATE, "metadata": [1]}, "invalid_argument", "metadata"),
    "an integer above 53 bits in free-form data": (
        {**CREATE, "metadata": {"a": [0, {"b": SAFE + 1}]}},
        "invalid_argument",
        "metadata.a[1].b",
    ),
    "free-form data that nests 31 levels below its map": (
        {**CREATE, "metadata": {"a": _nested(31)}},
        "invalid_argument",
        "metadata.a" + "[0]" * 30,
    ),
}

_RAW_JSON: dict[str, tuple[str, str, str | None]] = {
    "no text at all": ("", "invalid_frame", None),
    "no JSON": ("hello", "invalid_frame", None),
    "a list": ('[{"op":"ping","id":1}]', "invalid_frame", None),
    "null": ("null", "invalid_frame", None),
    "text after the map": ('{"op":"ping","id":1}}', "invalid_frame", None),
    "a byte order mark": ('\ufeff{"op":"ping","id":1}', "invalid_frame", None),
    "NaN": ('{"op":"ping","id":NaN}', "invalid_frame", None),
    "a number without end": ('{"op":"ping","id":1e999}', "invalid_frame", None),
    "2^70": ('{"op":"ping","id":1180591620717411303424}', "invalid_argument", "id"),
    "a lone high surrogate": ('{"op":"\\ud800","id":1}', "invalid_frame", None),
    "a lone low surrogate": ('{"op":"\\udc00","id":1}', "invalid_frame", None),
    "a raw line end in a string": ('{"op":"pi\nng","id":1}', "invalid_frame", None),
    "an id with a decimal point": ('{"op":"ping","id":1.0}', "invalid_argument", "id"),
}

_RAW_MSGPACK: dict[str, tuple[str, str, str | None]] = {
    "no byte at all": ("", "invalid_frame", None),
    "the byte that no value begins with": ("c1", "invalid_frame", None),
    "a list": ("9105", "invalid_frame", None),
    "a map that is cut": ("82a26f70a470696e67", "invalid_frame", None),
    "a map that claims 4 billion entries": ("dfffffffff", "invalid_frame", None),
    "bytes after the map": ("82a26f70a470696e67a269640105", "invalid_frame", None),
    "binary data": ("82a26f70a470696e67a26964c40101", "invalid_argument", "id"),
    "an extension value": ("82a26f70a470696e67a26964d40561", "invalid_argument", "id"),
    "a timestamp": ("82a26f70a470696e67a26964d6ff00000001", "invalid_argument", "id"),
    "a key that is an integer": ("82a26f70a470696e670101", "invalid_argument", None),
    "a key that is nil": ("82a26f70a470696e67c001", "invalid_argument", None),
    "a key that is a map": ("82a26f70a470696e678001", "invalid_frame", None),
    "text that is not UTF-8": ("82a26f70a1ffa2696401", "invalid_frame", None),
    "text with an encoded surrogate": ("82a26f70a3eda080a2696401", "invalid_frame", None),
    "NaN": ("82a26f70a470696e67a26964cb7ff8000000000000", "invalid_argument", "id"),
    "infinity": ("82a26f70a470696e67a26964cb7ff0000000000000", "invalid_argument", "id"),
    "2^64 - 1": ("82a26f70a470696e67a26964cfffffffffffffffff", "invalid_argument", "id"),
    "a float without fraction": ("82a26f70a470696e67a26964cb3ff0000000000000", "invalid_argument", "id"),
}


def _error(code: str, field: str | None) -> Plain:
    return {"code": code} if field is None else {"code": code, "field": field}


def requests() -> list[Plain]:
    """As JSON text; a reader of the vectors encodes `value` for the other formats itself."""
    accepted = [
        {"name": name, "rules": ["W2", "W3"], "format": "json", "text": json.dumps(value), "value": value}
        for name, value in ACCEPTED.items()
    ]
    duplicate = {
        "name": "of a key that comes twice the last one wins",
        "rules": ["W9"],
        "format": "json",
        "text": '{"op":"ping","id":1,"id":2}',
        "value": {"op": "ping", "id": 2},
    }
    refused = [
        {"name": name, "rules": ["W9"], "format": "json", "text": json.dumps(value), "error": _error(code, field)}
        for name, (value, code, field) in REFUSED.items()
    ]
    return [*accepted, duplicate, *refused]


def malformed() -> list[Plain]:
    """Bytes that are no request in either format."""
    texts = [
        {"name": name, "rules": ["W9"], "format": "json", "text": text, "error": _error(code, field)}
        for name, (text, code, field) in _RAW_JSON.items()
    ]
    packed = [
        {"name": name, "rules": ["W9"], "format": "msgpack", "hex": data, "error": _error(code, field)}
        for name, (data, code, field) in _RAW_MSGPACK.items()
    ]
    return [*texts, *packed]
