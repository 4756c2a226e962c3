"""Tools made of Python functions: name, description and schema come from the function itself (P5).

The type hints are the schema, read by msgspec: `Annotated[int, msgspec.Meta(ge=1, description="...")]`, `Literal`,
Structs, lists. A parameter hinted as `ToolContext` is given the context and is no part of the schema. What does not
make a good tool is refused when it is decorated, not when a model first calls it.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, get_args, get_type_hints, overload

import msgspec
import trio
from msgspec import Struct

from turnwire.tools.base import Approval, Tool, ToolContext, ToolInputError
from turnwire.tools.plain import parse_json
from turnwire.tools.threads import ThreadLimit
from turnwire_protocol.codec import convert
from turnwire_protocol.codes import RequestError

TIMEOUT_SECONDS: Final = 60.0
"""How long a call of a tool may take unless the tool says otherwise."""

THREADS: Final = 32
"""How many calls of synchronous tools run at once in one process; further ones wait, within their own timeout."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SCALARS: Final = (type(None), bool, int, float, str)
_threads: Final = ThreadLimit("tools", THREADS)
"""Not the pool that the rest of the process uses: tools that hang must not keep others from their threads."""

Function = Callable[..., Any]


@overload
def tool(function: Function, /) -> Tool: ...


@overload
def tool(
    *, approval: Approval = ..., timeout_seconds: float = ..., name: str | None = ...
) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    approval: Approval = "never",
    timeout_seconds: float = TIMEOUT_SECONDS,
    name: str | None = None,
) -> Tool | Callable[[Function], Tool]:
    """Makes a Tool of a function, bare (`@tool`) or with options (`@tool(approval="ask")`).

    The docstring is what the model reads. An async function runs in place and must not block. A sync one runs in a
    thread: when its call is stopped or takes longer than `timeout_seconds`, the Turn goes on at once and the thread is
    left alone. It works on to its end, unheard: what it still changes in the world is changed. It also keeps its place
    among the THREADS until then, so that functions which never end at last keep others out, though not the Turns.

    A bound method, a `partial` and an object with `__call__` are functions, too; those without a name need one.

    Raises TypeError or ValueError that names the tool and the parameter.
    """

    def decorate(function: Any) -> Tool:
        if not callable(function) or isinstance(function, type):
            kind = function if isinstance(function, type) else type(function)
            raise TypeError(f"@tool makes a tool of a function; {kind.__name__} is none")
        named = getattr(function, "__name__", None) if name is None else name
        if named is None:
            raise TypeError(f"@tool: a {type(function).__name__} has no name, so give it one: @tool(name=...)")
        return _tool_of(function, named, approval, timeout_seconds)

    return decorate if function is None else decorate(function)


def input_parser(arguments: type[Struct]) -> Callable[[str], Any]:
    """A `Tool.parse` for inputs of this shape; what it gives is as the model wrote it, defaults not filled in."""

    def parse(input_text: str) -> Any:
        value = parse_json(input_text)
        try:
            convert(value, arguments)
        except RequestError as error:
            raise ToolInputError(error.message) from None
        return value

    return parse


def input_schema(arguments: type[Struct]) -> dict[str, Any]:
    """The JSON Schema of an object of this shape; the Structs that it holds stand under `$defs`."""
    (reference,), components = msgspec.json.schema_components([arguments])
    schema: dict[str, Any] = components.pop(reference["$ref"].removeprefix("#/$defs/"))
    schema.pop("title", None)
    schema.pop("description", None)
    return {**schema, "$defs": components} if components else schema


# ------------------------------------------------------------------------------------------------------- signatures


def _tool_of(function: Function, name: Any, approval: Approval, timeout_seconds: Any) -> Tool:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"tool {name!r}: a name is 1 to 64 of the characters A-Z a-z 0-9 _ -")
    if approval not in ("never", "ask"):
        raise ValueError(f"tool {name}: approval is 'never' or 'ask', not {approval!r}")
    if not isinstance(timeout_seconds, int | float) or not timeout_seconds > 0:
        raise ValueError(f"tool {name}: timeout_seconds must be more than 0, not {timeout_seconds!r}")
    description = inspect.getdoc(_origin(function))
    if not description:
        raise ValueError(f"tool {name}: the function needs a docstring, which tells the model what it is for")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"tool {name}: a tool returns its result, it does not yield")
    hints = _hints_of(function, name)
    contexts = tuple(each for each, hint in hints.items() if _is_context(hint))
    arguments = _arguments_of(function, name, {each: hints[each] for each in hints if each not in contexts})
    return Tool(
        name=name,
        description=description,
        input_schema=input_schema(arguments),
        approval=approval,
        timeout_seconds=timeout_seconds,
        parse=input_parser(arguments),
        run=_runner(function, arguments, contexts),
    )


def _origin(function: Any) -> Any:
    """What was written, below wrappers and partials: its docstring and its names count."""
    while isinstance(function, partial):
        function = function.func
    return inspect.unwrap(function)


def _is_context(hint: Any) -> bool:
    """A parameter that may be None is given the context as well."""
    return hint is ToolContext or get_args(hint) in ((ToolContext, type(None)), (type(None), ToolContext))


def _hints_of(function: Function, name: str) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    origin = _origin(function)
    known = getattr(origin if inspect.isroutine(origin) else type(origin).__call__, "__globals__", {})
    for parameter in inspect.signature(function).parameters.values():
        where = f"tool {name}: parameter `{parameter.name}`"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{where} is variadic, but a model has to know each parameter")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"{where} is positional only, but arguments are given by name")
        if parameter.name.startswith("__"):
            raise TypeError(f"{where} begins with two underscores")
        if parameter.annotation is parameter.empty and parameter.name in ("self", "cls"):
            raise TypeError(f"{where} is that of a method: make the tool of the bound one, `tool(thing.{name})`")
        if parameter.annotation is parameter.empty:
            raise TypeError(f"{where} has no type hint")
        # One at a time, so that an error names its parameter; and the hint of the result is nobody's business.
        holder: Any = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
        try:
            hints.update(get_type_hints(holder, known, include_extras=True))
        except Exception as error:
            raise TypeError(f"{where} has a type hint that cannot be read: {error}") from error
    return hints


def _arguments_of(function: Function, name: str, hints: Mapping[str, Any]) -> type[Struct]:
    """A Struct with a field for each parameter. The defaults in it are for the schema only: Python fills in its own."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    parameters = inspect.signature(function).parameters
    for each, hint in hints.items():
        where = f"tool {name}: parameter `{each}`"
        try:
            msgspec.json.schema(hint)
        except TypeError as error:
            raise TypeError(f"{where} has a type that JSON input cannot have: {str(error).splitlines()[-1]}") from None
        default = parameters[each].default
        if default is inspect.Parameter.empty:
            fields.append((each, hint))
            continue
        try:
            msgspec.convert(msgspec.to_builtins(default), hint)
        except (TypeError, msgspec.MsgspecError) as error:
            raise TypeError(f"{where} has a default that does not fit its type: {error}") from None
        field = (
            msgspec.field(default=default) if isinstance(default, _SCALARS) else msgspec.field(default_factory=_unused)
        )
        fields.append((each, hint, field))
    return msgspec.defstruct(name.replace("-", "_"), fields, kw_only=True, forbid_unknown_fields=True)


def _unused() -> None:
    """Makes a field optional whose default a schema cannot show; the run passes on only what the model gave."""


# ------------------------------------------------------------------------------------------------------------- runs


def _runner(
    function: Function, arguments: type[Struct], contexts: tuple[str, ...]
) -> Callable[[Any, ToolContext], Any]:
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)

    async def run(input: Any, context: ToolContext) -> Any:
        given = convert(input, arguments)
        keywords = {name: getattr(given, name) for name in arguments.__struct_fields__ if name in input}
        keywords |= dict.fromkeys(contexts, context)
        if is_async:
            return await function(**keywords)
        # In a list, since trio takes a coroutine for a mistake; a plain wrapper of an async function gives one.
        [result] = await trio.to_thread.run_sync(
            lambda: [function(**keywords)], abandon_on_cancel=True, limiter=_threads.limiter()
        )
        return await result if inspect.isawaitable(result) else result

    return run
