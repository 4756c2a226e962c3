"""Requests for fuzzing, drawn from the structs of the protocol: right ones, and right ones with one wrong value.

The structs say which values are right and which are wrong, and where. So each field of each request has both, and a new
request has them from the day it is made. What a struct cannot say stands in `KNOWN_TEXTS` and `_coherent`.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Final, NamedTuple, TypeAlias

from hypothesis import Phase, find, settings
from hypothesis import strategies as st
from msgspec import inspect

from turnwire_protocol.codec import MAX_DEPTH, OPS
from turnwire_protocol.frames import ApprovalResponse, QuestionResponse
from turnwire_protocol.parts import MAX_SAFE_INTEGER

Map: TypeAlias = dict[str, Any]
Key: TypeAlias = str | int

SESSIONS: Final = ("s", "asks", "approves")
"""The Sessions that the world under test has: an ordinary one, and one for each kind of Interaction, pending."""

PENDING: Final = {
    "asks": inspect.type_info(QuestionResponse),
    "approves": inspect.type_info(ApprovalResponse),
}
"""What the pending Interaction of each such Session wants to hear."""

RESPONSES: Final[dict[str, Map]] = {
    "asks": {"answers": {"colour": "blue"}},
    "approves": {"decision": "approved", "reason": "why not"},
}

INTERACTION, REVISION = "the-pending-one", 2**52
"""Stand for the pending Interaction of the request's Session and its revision, which only a running world has."""

NAMES: Final = st.sampled_from(["r1", "A.b:c-d_9", "x" * 128]) | st.integers(1, 10**6).map(lambda number: f"r{number}")
TAGS: Final = st.sampled_from(["note", "a", "x-1_", "y" * 64])
PATTERNS: Final = {"^[A-Za-z": NAMES, "^[a-z]": TAGS}
"""Texts that match a pattern, by how the pattern begins."""

KNOWN_TEXTS: Final[dict[str, st.SearchStrategy[str]]] = {
    "session_id": st.sampled_from([*SESSIONS, "s", "s", "nowhere"]),
    "new_session_id": NAMES,
    "text": st.sampled_from(["/echo hi", "/stream 3 10", "/tools 2", "/reason 2 5", "/fail overloaded 1"]) | st.text(),
}
"""Texts that mean something, by the name of their field."""

PLAIN: Final = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
JSON: Final = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)

GONE: Final = object()
"""In the place of a value: there is none."""


class Fault(NamedTuple):
    """One wrong value: where it goes, and the field that the server has to name, or one within it."""

    at: tuple[Key, ...]
    value: Any
    field: str


class Drawn(NamedTuple):
    """A request and what it must be answered by: `fault` None means that it is as the structs want it."""

    request: Map
    fault: Fault | None

    @property
    def depends(self) -> bool:
        """Whether the fault shows only while the Interaction that is answered is pending."""
        return self.fault is not None and self.fault.at[0] == "response" and len(self.fault.at) > 1


# ------------------------------------------------------------------------------------------------------ right values


def right(type: Any, name: str = "", *, whole: bool = False) -> st.SearchStrategy[Any]:
    """Values of a type; `whole` ones with every field, and in a list one item of every kind."""
    match type:
        case inspect.StrType():
            return _texts(type, name)
        case inspect.IntType(ge=least, le=most):
            return st.integers(least or 0, 100) | st.just(most or MAX_SAFE_INTEGER)
        case inspect.BoolType():
            return st.booleans()
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.StructType():
            return _maps(type, whole)
        case inspect.UnionType(types=types):
            return st.one_of([right(each) for each in types])
        case inspect.VarTupleType(item_type=inspect.UnionType(types=types)) if whole:
            return st.tuples(*(right(each, whole=True) for each in types)).map(list)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return st.lists(right(item), min_size=1, max_size=3)
        case inspect.DictType(value_type=value):
            return st.dictionaries(st.text(max_size=8), right(value), max_size=3)
        case inspect.AnyType():
            return JSON
    raise NotImplementedError(f"no request had a {type} until now")


def _texts(type: inspect.StrType, name: str) -> st.SearchStrategy[str]:
    if name in KNOWN_TEXTS:
        return KNOWN_TEXTS[name]
    if type.pattern is not None:
        return next(texts for start, texts in PATTERNS.items() if type.pattern.startswith(start))
    texts = st.text(min_size=type.min_length or 0, max_size=20)
    return texts if type.max_length is None else texts | st.just("é" * type.max_length)


def _maps(type: inspect.StructType, whole: bool) -> st.SearchStrategy[Map]:
    fields = {field.encode_name: field for field in type.fields if field.encode_name != "id"}
    values = {name: right(field.type, name, whole=whole) for name, field in fields.items()}
    must = {name: value for name, value in values.items() if whole or fields[name].required}
    tag = {} if type.tag_field is None else {type.tag_field: st.just(type.tag)}
    may = {name: value for name, value in values.items() if name not in must}
    return st.fixed_dictionaries({**tag, **must}, optional=may)


RICH: Final = ("prompt", "session.create", "interaction.respond")
"""Requests with more to them than the others: they come more often."""

TYPES: Final = {op: inspect.type_info(struct) for op, struct in OPS.items()}
RIGHT: Final = {op: right(type) for op, type in TYPES.items()}
LIKELY: Final = st.sampled_from([*sorted(OPS), *RICH * 3])


@st.composite
def right_requests(draw: st.DrawFn) -> Map:
    """A request, without its `id`, that the structs have nothing against."""
    return draw(st.sampled_from(_coherent(draw(RIGHT[draw(LIKELY)]))))


def whole_requests(op: str) -> list[Map]:
    """Right requests that have every field that a request of this `op` may have, in every way."""
    first = settings(database=None, derandomize=True, phases=[Phase.generate])
    return _coherent(find(right(TYPES[op], whole=True), lambda _: True, settings=first))


def _coherent(request: Map) -> list[Map]:
    """The requests that this one is meant for: no struct says which fields belong together."""
    if request["op"] == "prompt":
        parts = request.get("parts", [{"type": "text", "text": "/echo hi"}])
        without = {name: value for name, value in request.items() if name not in ("text", "parts")}
        return [{**without, "text": request.get("text", "/stream 3 10")}, {**without, "parts": parts}]
    if request["op"] == "interaction.respond":
        pending = {**request, "interaction_id": INTERACTION, "revision": REVISION}
        return [request, *({**pending, "session_id": it, "response": RESPONSES[it]} for it in RESPONSES)]
    return [request]


# ------------------------------------------------------------------------------------------------------ wrong values

WRONG_KINDS: Final[dict[type, Sequence[Any]]] = {
    inspect.StrType: (None, 5, True, ["s"], {}),
    inspect.IntType: (None, "1", True, 1.5, [], 2**53, -(2**60)),
    inspect.BoolType: (None, 1, "true", []),
    inspect.LiteralType: (None, 1, "", "Ask", "other", ["ask"]),
    inspect.StructType: (None, "x", 7, [], True),
    inspect.VarTupleType: (None, "x", {}, 7),
    inspect.ListType: (None, {}, 7),
    inspect.DictType: (None, "x", [], 7),
    inspect.AnyType: (2**53, -(2**53)),
}
WRONG_ANSWERS: Final[Sequence[Any]] = (None, 5, {}, "none of the options")
BAD_NAMES: Final = ("", "a b", "é", "/", "x" * 129, "a\n", "\x00")


def faults(type: Any, value: Any, at: tuple[Key, ...] = (), field: str = "") -> Iterator[Fault]:
    """Every fault that this right value may be given, one at a time."""
    if isinstance(type, inspect.UnionType):
        type = _member(type, value)
    if at:
        yield from (Fault(at, wrong, field) for wrong in WRONG_KINDS[type.__class__])
    match type:
        case inspect.StrType():
            yield from (Fault(at, wrong, field) for wrong in _wrong_texts(type))
        case inspect.IntType(ge=int(least)):
            yield Fault(at, least - 1, field)
        case inspect.StructType():
            yield from _faults_of_map(type, value, at, field)
        case inspect.VarTupleType(item_type=item, max_length=most) | inspect.ListType(item_type=item, max_length=most):
            if most is not None:
                yield Fault(at, value[:1] * (most + 1), field)
            for place, each in enumerate(value):
                yield from faults(item, each, (*at, place), f"{field}[{place}]")
        case inspect.DictType(value_type=inspect.AnyType()):
            yield Fault(at, {**value, "wrong": 2**53}, f"{field}.wrong")
            yield Fault(at, _nested(MAX_DEPTH + 1), field)
        case inspect.DictType():
            yield from (Fault((*at, key), wrong, field) for key in value for wrong in WRONG_ANSWERS)


def _member(type: inspect.UnionType, value: Any) -> Any:
    """The member of the union that the value belongs to."""
    if isinstance(value, dict):
        return next(each for each in type.types if isinstance(each, inspect.StructType) and each.tag == value["type"])
    kind = inspect.StrType if isinstance(value, str) else inspect.ListType
    return next(each for each in type.types if isinstance(each, kind))


def _wrong_texts(type: inspect.StrType) -> Iterator[str]:
    if type.pattern is not None:
        yield from BAD_NAMES
    if type.min_length:
        yield ""
    if type.max_length is not None:
        yield "x" * (type.max_length + 1)


def _nested(depth: int) -> Map:
    return {"deep": _nested(depth - 1)} if depth else {}


def _faults_of_map(type: inspect.StructType, value: Map, at: tuple[Key, ...], field: str) -> Iterator[Fault]:
    def path(name: str) -> str:
        return f"{field}.{name}" if field else name

    if type.tag_field is not None:
        for wrong in (GONE, None, 5, "", "dance", [], str(type.tag).upper()):
            yield Fault((*at, type.tag_field), wrong, path(type.tag_field))
    yield Fault((*at, "surprise"), 1, path("surprise"))
    for each in type.fields:
        name = each.encode_name
        if each.required:
            yield Fault((*at, name), GONE, path(name))
        if name in value or name == "id":
            yield from faults(each.type, value.get(name, 1), (*at, name), path(name))


def with_fault(request: Map, fault: Fault) -> Map:
    """The request with the fault in its place."""
    (*way, last), changed = fault.at, deepcopy(request)
    holder: Any = changed
    for key in way:
        holder = holder[key]
    if fault.value is GONE:
        holder.pop(last, None)
    else:
        holder[last] = fault.value
    return changed


def faults_of(request: Map) -> list[Fault]:
    """Every fault that this right request may be given."""
    found = [*faults(TYPES[request["op"]], request)]
    if request.get("interaction_id") == INTERACTION:
        answer = PENDING[request["session_id"]]
        found += [fault for fault in faults(answer, request["response"], ("response",), "response") if fault.at[1:]]
    return found


@st.composite
def drawn_requests(draw: st.DrawFn) -> Drawn:
    """Requests, about half of them right."""
    request = draw(right_requests())
    if draw(st.integers(0, 4)) > 1:  # and the simplest, of which there are few, are drawn once only
        return Drawn(request, None)
    # First the place, then what is wrong there: places with many faults are no likelier than others.
    found = faults_of(request)
    place = draw(st.sampled_from(sorted({fault.field for fault in found})))
    fault = draw(st.sampled_from([fault for fault in found if fault.field == place]))
    return Drawn(with_fault(request, fault), fault)


def sent_with(drawn: Drawn, request_id: int, pending: Callable[[str], Map]) -> Map:
    """The request as it is sent: with its `id`, unless that is the fault, and with what stands for the Interaction."""
    request = dict(drawn.request)
    if drawn.fault is None or drawn.fault.at != ("id",):
        request["id"] = request_id
    for name, stand_in in (("interaction_id", INTERACTION), ("revision", REVISION)):
        if request.get(name) == stand_in and request.get("session_id") in SESSIONS:
            request[name] = pending(request["session_id"])[name]
    return request
