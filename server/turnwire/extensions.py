"""Code of others: what a tool, a model provider, a subscriber or a hook raises is its own fault (L1, P5, T2, W9).

One rule for all of it: whatever was raised fails what that code was asked for, and nothing else. Only what was never
theirs goes on to the server: cancellation, which is trio's, and KeyboardInterrupt, which is the user's.
"""

import math
from collections.abc import Callable
from typing import Final

import trio

FOR_THE_SERVER: Final = (trio.Cancelled, KeyboardInterrupt)
"""Not SystemExit: a library that ends its program ends nothing here. Nor GeneratorExit: trio throws none into tasks."""


def fault_of(error: BaseException, tell: Callable[[BaseException], object]) -> BaseException:
    """The fault in what code of others has raised, without the groups that its nurseries have put around it.

    Raises what is meant for the server instead, if there is any. A nursery may give both at once, as when a task fails
    while it is cancelled: nobody waits for such a fault any more, so it is given to `tell`.
    """
    passing, fault = _split(error)
    if passing is not None and _is_foreign(passing):
        passing, fault = None, error
    if passing is None:
        assert fault is not None, "an exception is one or the other"
        return _bare(fault)
    if fault is not None:
        tell(_bare(fault))
    raise passing from None


def _split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    if isinstance(error, BaseExceptionGroup):
        return error.split(FOR_THE_SERVER)
    return (error, None) if isinstance(error, FOR_THE_SERVER) else (None, error)


def _is_foreign(passing: BaseException) -> bool:
    """Whether this is a cancellation though nothing around us is cancelled: it came out of a scope of theirs."""
    if isinstance(passing, BaseExceptionGroup):
        return all(map(_is_foreign, passing.exceptions))
    return isinstance(passing, trio.Cancelled) and trio.current_effective_deadline() != -math.inf


def _bare(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
