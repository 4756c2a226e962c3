"""Tools made of functions: what the model is told, and which functions are refused."""

import json
from collections.abc import Callable, Iterator
from functools import lru_cache, partial, wraps
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from turnwire.tools.base import Tool, ToolContext, ToolInputError, ToolResult
from turnwire.tools.registry import ToolRegistry, tool
from turnwire_protocol.codec import MAX_DEPTH, check_json

from .conftest import Use


class Place(Struct):
    name: str
    height: Annotated[float, Meta(ge=0)] = 0.0


@tool(approval="ask", timeout_seconds=5, name="find-place")
async def find(
    query: Annotated[str, Meta(description="What to look for", min_length=1)],
    near: Place,
    context: ToolContext,
    kind: Literal["hut", "pass"] = "hut",
    limit: Annotated[int, Meta(ge=1)] | None = None,
    tags: list[str] = [],  # noqa: B006 - such a default is what is tested
    by_id: dict[int, str] | None = None,
) -> dict[str, Any]:
    """Finds places.

    More than one line.
    """
    return {"query": query, "near": near, "call": context.tool_call_id, "kind": kind, "tags": tags, "by_id": by_id}


@tool
def plain(count: int = 3) -> int:
    """Counts."""
    return count


def test_P5_a_function_tells_the_model_all_there_is_to_know() -> None:
    assert (find.name, find.description) == ("find-place", "Finds places.\n\nMore than one line.")
    assert (find.approval, find.timeout_seconds) == ("ask", 5)
    assert find.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": "What to look for"},
            "near": {"$ref": "#/$defs/Place"},
            "kind": {"enum": ["hut", "pass"], "default": "hut"},
            "limit": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None},
            "tags": {"type": "array", "items": {"type": "string"}},
            "by_id": {
                "anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["query", "near"],
        "additionalProperties": False,
        "$defs": {
            "Place": {
                "title": "Place",
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "height": {"type": "number", "minimum": 0, "default": 0.0},
                },
                "required": ["name"],
            }
        },
    }


def test_P5_a_bare_decorator_uses_the_defaults() -> None:
    assert (plain.name, plain.approval, plain.timeout_seconds) == ("plain", "never", 60)
    assert "context" not in plain.input_schema["properties"]


async def test_P5_the_function_is_given_its_types_its_defaults_and_the_context(use: Use) -> None:
    result = await use(find, query="Q", near={"name": "N"}, by_id={"7": "seven"})
    assert result.output == {
        "query": "Q",
        "near": {"name": "N", "height": 0.0},
        "call": "c1",
        "kind": "hut",
        "tags": [],
        "by_id": {"7": "seven"},
    }


# ---------------------------------------------------------------------------------------------------------- refusals


def _no_docstring(count: int) -> None: ...
def _no_hint(good: int, count) -> None:  # type: ignore[no-untyped-def]
    """Text."""


def _variadic(*count: int) -> None:
    """Text."""


def _keywords(**count: int) -> None:
    """Text."""


def _positional(count: int, /) -> None:
    """Text."""


def _complex(count: complex) -> None:
    """Text."""


def _callable(count: Callable[[], int]) -> None:
    """Text."""


def _unknown(count: "Nothing") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Text."""


def _bad_default(count: int = "three") -> None:  # type: ignore[assignment]
    """Text."""


def _bad_bound(count: Annotated[int, Meta(min_length=3)]) -> None:
    """Text."""


def _ambiguous(count: Place | ToolContext) -> None:
    """Text."""


def _yields(count: int) -> Iterator[int]:
    """Text."""
    yield count


def _hidden(__count: int) -> None:
    """Text."""


class Counter:
    """Counts by itself."""

    step = 2

    def method(self, count: int, context: ToolContext | None = None) -> int:
        """Text."""
        assert context is not None
        return count * self.step

    async def slowly(self, count: "Count") -> int:
        """Text."""
        return count * self.step

    async def __call__(self, count: "Count") -> int:
        return count * self.step


Count = Annotated[int, Meta(ge=1)]


def _self(self, count: int) -> None:  # type: ignore[no-untyped-def]
    """Text."""


@pytest.mark.parametrize(
    ("function", "clause"),
    [
        (_hidden, "parameter `__count` begins with two underscores"),
        (_self, "parameter `self` is that of a method"),
        (_no_docstring, "needs a docstring"),
        (_no_hint, "parameter `count` has no type hint"),
        (_variadic, "parameter `count` is variadic"),
        (_keywords, "parameter `count` is variadic"),
        (_positional, "parameter `count` is positional only"),
        (_complex, "parameter `count` has a type that JSON input cannot have"),
        (_callable, "parameter `count` has a type that JSON input cannot have"),
        (_unknown, "parameter `count` has a type hint that cannot be read: name 'Nothing'"),
        (_bad_default, "parameter `count` has a default that does not fit"),
        (_bad_bound, "parameter `count` has a type that JSON input cannot have"),
        (_ambiguous, "parameter `count` has a type that JSON input cannot have"),
        (_yields, "does not yield"),
    ],
)
def test_P5_a_function_that_makes_no_good_tool_is_refused_at_once(function: Any, clause: str) -> None:
    with pytest.raises((TypeError, ValueError), match=clause.replace("(", r"\(")) as caught:
        tool(function)
    assert str(caught.value).startswith(f"tool {function.__name__}: ")


@pytest.mark.parametrize(
    ("thing", "clause"),
    [
        (5, "int is none"),
        ("name", "str is none"),
        (plain, "Tool is none"),
        (Counter, "Counter is none"),
        (Counter(), "a Counter has no name, so give it one"),
        (partial(_bad_default, count=1), "a partial has no name, so give it one"),
    ],
)
def test_P5_what_is_no_function_is_refused_by_its_kind(thing: Any, clause: str) -> None:
    with pytest.raises(TypeError, match=clause) as caught:
        tool(thing)
    assert "@tool" in str(caught.value)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """What decorators mostly are: a plain function around any other."""

    @wraps(function)
    def around(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords)

    return around


@logged
async def _wrapped(count: "Count") -> int:
    """Text."""
    return count * 2


def _two(count: "Count", step: int) -> int:
    """Text."""
    return count * step


@pytest.mark.parametrize(
    "function",
    [Counter().method, Counter().slowly, Counter(), _wrapped, lru_cache(_two), partial(_two, step=2), logged(_two)],
)
async def test_P5_whatever_stands_around_a_function_its_own_words_count(function: Any, use: Use) -> None:
    made = tool(name="double")(function)
    assert made.description in ("Text.", "Counts by itself.")
    assert made.input_schema["properties"]["count"]["type"] == "integer"
    given = {"count": 4, "step": 2} if made.input_schema["required"] == ["count", "step"] else {"count": 4}
    assert await use(made, **given) == ToolResult(failed=False, output=8)


@pytest.mark.parametrize(
    ("options", "clause"),
    [
        ({"name": "a b"}, "a name is 1 to 64"),
        ({"name": "x" * 65}, "a name is 1 to 64"),
        ({"name": 5}, "a name is 1 to 64"),
        ({"timeout_seconds": 0}, "more than 0"),
        ({"timeout_seconds": "5"}, "more than 0"),
        ({"timeout_seconds": float("nan")}, "more than 0"),
        ({"approval": "maybe"}, "'never' or 'ask'"),
    ],
)
def test_P5_options_that_make_no_sense_are_refused(options: dict[str, Any], clause: str) -> None:
    def good() -> None:
        """Text."""

    with pytest.raises(ValueError, match=clause):
        tool(**options)(good)


# ------------------------------------------------------------------------------------------------------------ parsing


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"query": "x" "y"}', "the input is not JSON: Expecting ',' delimiter at line 1, column 15"),
        ('{"query":\n  nope}', "the input is not JSON: Expecting value at line 2, column 3"),
        ('{"query": "x', "the input is not JSON: Unterminated string starting at at line 1, column 11"),
        ("{} {}", "the input is not JSON: Extra data at line 1, column 4"),
        ('{"query": NaN}', "the input is not JSON: NaN is not a JSON number"),
        ('{"query": 1' + "0" * 5_000 + "}", "the input is not JSON: Exceeds the limit"),
        ("[" * 100_000, "the input nests deeper than 32 levels"),
        ("[" * 33 + "]" * 33, "nests deeper than 32 levels"),
        ("[]", "expected a map, got a list"),
        ("null", "expected a map, got null"),
        ("", "query: is required"),
        ('{"query": "x"}', "near: is required"),
        ('{"query": 1, "near": {"name": "n"}}', "query: expected a string, got an integer"),
        ('{"query": "x", "near": {"name": 1}}', "near.name: expected a string, got an integer"),
        ('{"query": "x", "near": {"name": "n", "height": -1}}', "near.height: expected a number >= 0.0"),
        ('{"query": "x", "near": {"name": "n"}, "tags": ["a", 2]}', "tags[1]: expected a string, got an integer"),
        ('{"query": "x", "near": {"name": "n"}, "extra": 1}', "extra: unknown field"),
        ('{"query": "x", "near": {"name": "n"}, "context": {}}', "context: unknown field"),
        ('{"query": "x", "near": {"name": "n"}, "limit": 9007199254740992}', "limit: the integer does not fit in 53"),
        ('{"query": "x", "near": {"name": "n"}, "limit": 1e999}', "limit: the number is not finite"),
    ],
)
def test_P5_a_bad_input_is_refused_with_what_and_where(text: str, error: str) -> None:
    with pytest.raises(ToolInputError) as caught:
        find.parse(text)
    assert error in str(caught.value)


def test_P5_a_good_input_stays_as_the_model_wrote_it() -> None:
    assert find.parse('{"near": {"name": "n"}, "query": "old", "query": "new"}') == {
        "near": {"name": "n"},
        "query": "new",
    }
    assert plain.parse(" ") == {}


def test_X6_lone_surrogates_of_an_input_are_replaced() -> None:
    expected = {"query": "a\ufffdb", "near": {"name": "\U0001f680"}}
    assert find.parse(r'{"query": "a\ud800b", "near": {"name": "\ud83d\ude80"}}') == expected
    assert find.parse('{"query": "a\ud800b", "near": {"name": "\U0001f680"}}') == expected


@given(st.text() | st.text(alphabet='{}[]",:0123456789eE.-\\u d8tfn'))
def test_P5_whatever_a_model_writes_is_an_input_or_a_sentence(text: str) -> None:
    try:
        value = plain.parse(text)
    except ToolInputError:
        return
    assert isinstance(value, dict)
    check_json(value)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53) + 1, 2**53 - 1)
        | st.text()
        | st.floats(allow_nan=False, allow_infinity=False),
        lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
        max_leaves=20,
    )
)
def test_P5_any_json_passes_a_tool_that_takes_any(value: Any) -> None:
    @tool
    def take(value: Any) -> None:
        """Takes anything."""

    assert take.parse(json.dumps({"value": value})) == {"value": value}


def test_W9_depth_counts_the_input_itself() -> None:
    @tool
    def take(value: Any) -> None:
        """Takes anything."""

    deepest = '{"value": ' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}"
    take.parse(deepest)
    with pytest.raises(ToolInputError, match="deeper"):
        take.parse(deepest.replace("[]", "[[]]"))


# ----------------------------------------------------------------------------------------------------------- registry


def _named(name: str, text: str) -> Tool:
    def function() -> None: ...

    function.__doc__ = text
    return tool(name=name)(function)


def test_P5_the_registry_names_both_tools_of_one_name() -> None:
    registry = ToolRegistry([_named("a", "The first.\nMore."), _named("b", "Other.")])
    with pytest.raises(ValueError, match=r"named a: 'The first\.' and 'The second\.'"):
        registry.add(_named("a", "The second."))
    assert [each.name for each in registry] == ["a", "b"]
    assert len(registry) == 2


def test_P5_the_registry_takes_tools_only() -> None:
    with pytest.raises(TypeError, match="'_two' is no Tool: decorate the function with @tool"):
        ToolRegistry([_two])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="expected several tools, not the tool plain alone"):
        ToolRegistry(plain)  # type: ignore[arg-type]


def test_P5_the_registry_tells_the_model_of_all_its_tools() -> None:
    registry = ToolRegistry([find, plain])
    assert [(spec.name, spec.description, spec.input_schema) for spec in registry.specs()] == [
        (each.name, each.description, each.input_schema) for each in (find, plain)
    ]
    assert registry.get("plain") is plain
    assert registry.get("invented") is None


def test_P5_a_tool_either_runs_or_asks() -> None:
    idle = Tool(name="idle", description="", input_schema={}, approval="never", timeout_seconds=1.0, parse=find.parse)
    with pytest.raises(ValueError, match="either run or question"):
        ToolRegistry([idle])
