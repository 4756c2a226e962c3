"""What a verb is given, held against the rules of the wire: code in this process may give anything (W9).

What a Session stores is sent to clients, so nothing gets in here that no request could have said.
"""

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import msgspec

from turnwire_protocol.codec import OPS, request_of
from turnwire_protocol.codes import RequestError

P = ParamSpec("P")
R = TypeVar("R")
Verb = Callable[P, Coroutine[Any, Any, R]]


def as_request(op: str, **more: object) -> Callable[[Verb[P, R]], Verb[P, R]]:
    """Makes a verb take no more than the request `op` may say, `more` being said as well; None says nothing.

    Then the verb raises RequestError `invalid_argument` that names the field.
    """
    fields = {field.name for field in msgspec.structs.fields(OPS[op])}

    def decorate(verb: Verb[P, R]) -> Verb[P, R]:
        signature = inspect.signature(verb)

        @wraps(verb)
        async def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            given = signature.bind(*args, **kwargs)
            said = {name: value for name, value in given.arguments.items() if name in fields and value is not None}
            plain = {name: _plain(name, value) for name, value in said.items()}
            request = request_of({"op": op, "id": 1, **more, **plain})
            given.arguments |= {name: getattr(request, name) for name in said}
            return await verb(*given.args, **given.kwargs)

        return checked

    return decorate


def _plain(name: str, value: object) -> Any:
    try:
        return _listed(msgspec.to_builtins(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError("invalid_argument", f"{name}: {error}", field=name) from None


def _listed(value: Any) -> Any:
    """Lists in place of tuples, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value
