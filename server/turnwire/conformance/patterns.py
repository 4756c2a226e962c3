"""Patterns and templates: what a value must be like, and values with variables in them ("Patterns" in SPEC.md).

Pure functions on plain JSON. `$name` in a pattern takes the value when the variable is new, and demands it afterwards;
in a template it stands for the value. Operators are maps with one key that begins with `$`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Variables: TypeAlias = dict[str, Any]

_REFERENCE: Final = re.compile(r"\$([a-z][a-z0-9_]*)([+-]\d+)?")
ANYTHING: Final = "$_"
ELLIPSIS: Final = "..."


class UnknownVariable(Exception):
    """A template uses a variable that has no value."""


class Mismatch(Exception):
    """A value is not like the pattern; the sentence says where and how."""


def fill(template: Any, variables: Mapping[str, Any], fresh: Callable[[str], Any] | None = None) -> Any:
    """The value that a template stands for. A variable without a value gets `fresh(name)`, if that is given.

    Raises UnknownVariable.
    """
    if isinstance(template, str):
        return _filled_text(template, variables, fresh)
    if isinstance(template, list | tuple):
        return [fill(item, variables, fresh) for item in template]
    if isinstance(template, dict):
        operator = _operator_of(template)
        if operator in _BUILDERS:
            return _BUILDERS[operator](fill(template[operator], variables, fresh))
        return {key: fill(value, variables, fresh) for key, value in template.items()}
    return template


def _filled_text(text: str, variables: Mapping[str, Any], fresh: Callable[[str], Any] | None) -> Any:
    whole = _REFERENCE.fullmatch(text)
    if whole is not None:
        return _value_of(whole, variables, fresh)
    return _REFERENCE.sub(lambda found: str(_value_of(found, variables, fresh)), text)


def _value_of(reference: re.Match[str], variables: Mapping[str, Any], fresh: Callable[[str], Any] | None) -> Any:
    name, offset = reference.groups()
    if name not in variables:
        if fresh is None:
            raise UnknownVariable(f"${name} has no value yet")
        return fresh(name)
    value = variables[name]
    if isinstance(value, dict | list):
        value = fill(value, variables, fresh)
    return value + int(offset) if offset else value


def _operator_of(pattern: dict[str, Any]) -> str:
    return next(iter(pattern)) if len(pattern) == 1 and next(iter(pattern)).startswith("$") else ""


def _repeated(argument: Any) -> str:
    text, count = argument
    return str(text) * int(count)


def _nested(depth: Any) -> Any:
    value: Any = []
    for _ in range(int(depth) - 1):
        value = [value]
    return value


def _merged(maps: Any) -> Any:
    return {key: value for each in maps for key, value in each.items()}


_BUILDERS: Final[dict[str, Callable[[Any], Any]]] = {"$repeat": _repeated, "$nest": _nested, "$merge": _merged}


def match(pattern: Any, value: Any, variables: Variables) -> None:
    """Takes new variables out of a value that is like the pattern; of one that is not nothing is taken.

    Raises Mismatch, UnknownVariable.
    """
    taken = dict(variables)
    _match(pattern, value, taken, "")
    variables.update(taken)


def matches(pattern: Any, value: Any, variables: Variables) -> bool:
    """As `match`, but says whether."""
    try:
        match(pattern, value, variables)
    except Mismatch:
        return False
    return True


def _match(pattern: Any, value: Any, variables: Variables, path: str) -> None:
    if isinstance(pattern, str):
        _match_text(pattern, value, variables, path)
    elif isinstance(pattern, list | tuple):
        _match_list(list(pattern), value, variables, path)
    elif isinstance(pattern, dict):
        operator = _operator_of(pattern)
        if operator in _BUILDERS:
            _match(fill(pattern, variables), value, variables, path)
        elif operator in _OPERATORS:
            _OPERATORS[operator](pattern[operator], value, variables, path)
        elif operator:
            raise UnknownVariable(f"{operator} is no operator")
        else:
            _match_map(pattern, value, variables, path)
    elif pattern != value or isinstance(pattern, bool) != isinstance(value, bool):
        raise _mismatch(path, pattern, value)


def _match_text(pattern: str, value: Any, variables: Variables, path: str) -> None:
    if pattern == ANYTHING:
        return
    whole = _REFERENCE.fullmatch(pattern)
    if whole is not None and whole[1] not in variables:
        if whole[2]:
            raise UnknownVariable(f"{pattern}: ${whole[1]} has no value yet")
        variables[whole[1]] = value
        return
    held = variables[whole[1]] if whole is not None and not whole[2] else None
    if isinstance(held, dict | list):
        _match(held, value, variables, path)
        return
    expected = _filled_text(pattern, variables, None)
    if expected != value:
        raise _mismatch(path, expected, value)


def _match_map(pattern: dict[str, Any], value: Any, variables: Variables, path: str) -> None:
    if not isinstance(value, dict):
        raise _mismatch(path, pattern, value)
    for key, expected in pattern.items():
        place = f"{path}.{key}" if path else key
        if expected is None:
            if key in value:
                raise Mismatch(f"{place}: must be absent, is {_short(value[key])}")
        elif key not in value:
            raise Mismatch(f"{place}: is missing")
        else:
            _match(expected, value[key], variables, place)


def _match_list(pattern: list[Any], value: Any, variables: Variables, path: str) -> None:
    if not isinstance(value, list | tuple):
        raise _mismatch(path, pattern, value)
    items = list(value)
    if pattern and pattern[0] == ELLIPSIS:
        pattern = pattern[1:]
        items = items[-len(pattern) :] if len(items) >= len(pattern) > 0 else items if pattern else []
    elif pattern and pattern[-1] == ELLIPSIS:
        pattern = pattern[:-1]
        items = items[: len(pattern)]
    if len(items) != len(pattern):
        raise Mismatch(f"{path}: expected {len(pattern)} items, got {len(value)}: {_short(value)}")
    for index, (expected, item) in enumerate(zip(pattern, items, strict=True)):
        _match(expected, item, variables, f"{path}[{index}]")


def _at_least(least: Any, value: Any, variables: Variables, path: str) -> None:
    bound = fill(least, variables)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < bound:
        raise Mismatch(f"{path}: expected at least {bound}, got {_short(value)}")


def _one_of(choices: Any, value: Any, variables: Variables, path: str) -> None:
    if not any(matches(choice, value, variables) for choice in choices):
        raise Mismatch(f"{path}: expected one of {_short(choices)}, got {_short(value)}")


def _not(pattern: Any, value: Any, variables: Variables, path: str) -> None:
    if matches(pattern, value, dict(variables)):
        raise Mismatch(f"{path}: must not be {_short(value)}")


def _like(expression: Any, value: Any, variables: Variables, path: str) -> None:
    if not isinstance(value, str) or re.search(fill(expression, variables), value) is None:
        raise Mismatch(f"{path}: expected text with {expression!r}, got {_short(value)}")


def _has(pattern: Any, value: Any, variables: Variables, path: str) -> None:
    if not isinstance(value, list) or not any(matches(pattern, item, variables) for item in value):
        raise Mismatch(f"{path}: expected an item like {_short(pattern)} in {_short(value)}")


def _every(pattern: Any, value: Any, variables: Variables, path: str) -> None:
    if not isinstance(value, list):
        raise _mismatch(path, pattern, value)
    for index, item in enumerate(value):
        _match(pattern, item, variables, f"{path}[{index}]")


_OPERATORS: Final[dict[str, Callable[[Any, Any, Variables, str], None]]] = {
    "$at_least": _at_least,
    "$one_of": _one_of,
    "$not": _not,
    "$like": _like,
    "$has": _has,
    "$every": _every,
}


OPERATORS: Final = frozenset({*_OPERATORS, *_BUILDERS})
"""All operators of patterns and templates."""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"


def _mismatch(path: str, expected: Any, value: Any) -> Mismatch:
    return Mismatch(f"{path or 'the value'}: expected {_short(expected)}, got {_short(value)}")
