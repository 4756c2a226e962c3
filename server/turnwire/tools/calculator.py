"""A calculator: arithmetic in Python's notation, evaluated on its syntax tree within bounds.

An expression is cut into tokens first, so that the parser is given nothing but numbers, operators and names from the
tables below.
"""

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from turnwire.tools.base import ToolFailure
from turnwire.tools.functions import tool
from turnwire_protocol.parts import MAX_SAFE_INTEGER

EXPRESSION_CHARACTERS: Final = 500
TOKENS: Final = 200
"""How long an expression may be; with at most so many tokens no tree is deep enough to exhaust a stack."""

NESTING: Final = 50
"""How deep parentheses may nest."""

INTEGER_BITS: Final = 4096
"""The largest integer, also on the way to the result."""

ROUND_DIGITS: Final = 15

Number: TypeAlias = int | float

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<sign>\*\*|//|[-+*/%(),]))",
    re.ASCII,
)


def _round(value: Number, digits: Number = 0) -> Number:
    if not (isinstance(digits, int) and abs(digits) <= ROUND_DIGITS):
        raise ToolFailure(f"round: digits are a whole number from {-ROUND_DIGITS} to {ROUND_DIGITS}")
    rounded = round(value, digits)
    return int(rounded) if digits <= 0 else rounded


CONSTANTS: Final[dict[str, Number]] = {"pi": math.pi, "e": math.e, "tau": math.tau}
FUNCTIONS: Final[dict[str, Callable[..., Number]]] = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "log10": math.log10,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "round": _round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}


@tool
def calculator(
    expression: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=EXPRESSION_CHARACTERS,
            description=f"For example (1 + 2) * 3 ** 4. Functions: {', '.join(FUNCTIONS)}; constants: "
            f"{', '.join(CONSTANTS)}",
        ),
    ],
) -> int | float | str:
    """Calculates an arithmetic expression. Integers beyond 53 bits are given as text with all their digits."""
    value = evaluate(expression)
    return str(value) if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER else value


def evaluate(expression: str) -> Number:
    """The value of an expression: an integer of at most INTEGER_BITS, or a finite float.

    Raises ToolFailure, and nothing else, for whatever cannot be calculated.
    """
    if len(expression) > EXPRESSION_CHARACTERS:
        raise ToolFailure(f"the expression is longer than {EXPRESSION_CHARACTERS} characters")
    source = " ".join(_tokens_of(expression))
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ToolFailure(f"this is no arithmetic expression: {source}") from None
    try:
        return _value(tree.body)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise ToolFailure(f"this cannot be calculated: {error}") from None


def _tokens_of(expression: str) -> list[str]:
    tokens: list[str] = []
    position, depth = 0, 0
    text = expression.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ToolFailure(f"I cannot read {text[position:].strip()[:1]!r} in the expression")
        name = match["name"]
        if name is not None and name not in FUNCTIONS and name not in CONSTANTS:
            raise ToolFailure(f"{name[:40]!r} is neither a function nor a constant that I know")
        token = match[0].strip()
        depth += (token == "(") - (token == ")")
        tokens.append(token)
        position = match.end()
        if len(tokens) > TOKENS or depth > NESTING:
            raise ToolFailure(f"the expression has more than {TOKENS} parts, or nests deeper than {NESTING} levels")
    return tokens


# ------------------------------------------------------------------------------------------------------- evaluation


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as value):
            return _bounded(value)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return _bounded(_OPERATORS[type(op)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return _bounded(FUNCTIONS[name](*map(_value, arguments)))
        case _:
            raise ToolFailure(f"this is no arithmetic: {ast.unparse(node)}")


def _multiply(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        _refuse_bits(left.bit_length() + right.bit_length() - 1)
    return left * right


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0 and abs(base) > 1:
        _refuse_bits((base.bit_length() - 1) * exponent)
    value = base**exponent
    if isinstance(value, complex):
        raise ToolFailure("the result is not a real number")
    return value


_OPERATORS: Final[dict[type[ast.operator], Callable[[Number, Number], Number]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _multiply,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}


def _bounded(value: Number) -> Number:
    if isinstance(value, int):
        _refuse_bits(value.bit_length())
    elif not math.isfinite(value):
        raise ToolFailure("the result is too large, or not a number")
    return value


def _refuse_bits(bits: int) -> None:
    if bits > INTEGER_BITS:
        raise ToolFailure(f"the result is too large: an integer has at most {INTEGER_BITS:,} bits")
