"""Reading a model call under limits: how long it may be silent, how long it may last, and that it was not cut.

Every call is read through `with_timeouts`, so that a stream that hangs or breaks is a `ModelError` for every reader
alike. What to do about it is the loop's, with `retry`.
"""

import logging
import math
from collections.abc import AsyncGenerator
from typing import Any, Final

import trio

from turnwire.extensions import fault_of
from turnwire.models.base import ModelError, ModelEvent, StepEnd

FIRST_EVENT_SECONDS: Final = 120.0
"""Default time for a model to begin: reading a long prompt, or thinking unseen, takes its time."""

IDLE_SECONDS: Final = 60.0
"""Default time between two events."""

TOTAL_SECONDS: Final = 1800.0
"""Default time for one whole call."""

CLOSE_SECONDS: Final = 2.0
"""How long a stream may take to end after its last event, and to close before it is cancelled."""

_log = logging.getLogger(__name__)


async def with_timeouts(
    stream: AsyncGenerator[ModelEvent, Any],
    *,
    first_event: float | None = FIRST_EVENT_SECONDS,
    idle: float | None = IDLE_SECONDS,
    total: float | None = TOTAL_SECONDS,
) -> AsyncGenerator[ModelEvent, None]:
    """Passes a model call's events on, and closes it at the end, also when cancelled.

    Limits are in seconds, None for none; only events count, so keep-alives of the upstream do not help it (K7).
    `first_event` and `idle` run while the model is waited for, `total` from the first iteration on.

    Raises ModelError `timeout`, which says which limit, `cut_stream` when the stream ends without StepEnd, and the
    stream's own. What the stream raises as it is closed is logged: the answer, or its failure, is known by then.
    """
    end_at = _after(total)
    wait, late = first_event, "did not begin to answer within"
    complete = left = False
    # Both scopes lie around the stream's whole life, so that a nursery which it holds open while it yields is within.
    with trio.CancelScope() as scope, trio.CancelScope() as closing:
        try:
            while True:
                wait_until = _after(wait)
                scope.deadline = min(wait_until, end_at)
                event = await _next(stream)
                if event is None or scope.cancel_called:
                    break
                scope.deadline = math.inf  # from here on it is the reader's time
                complete = isinstance(event, StepEnd)
                wait, late = CLOSE_SECONDS if complete else idle, "sent nothing more for"
                left = True
                yield event
                left = False
        finally:
            closing.shield, closing.deadline = True, trio.current_time() + CLOSE_SECONDS
            await _close(stream)
    if left:
        return  # the reader wants no more, and the stream was given up as it closed
    await trio.lowlevel.checkpoint_if_cancelled()  # the same, for a reader that was cancelled while it waited
    if complete:
        return  # nothing is missing; that the stream does not end is the provider's fault, not the answer's
    if scope.cancel_called:
        total_is_over = end_at <= wait_until
        words, seconds = ("took longer in all than", total) if total_is_over else (late, wait)
        raise ModelError("timeout", f"the model {words} {seconds:g} s")
    raise ModelError("cut_stream", "the stream ended before the model had finished")


async def _next(stream: AsyncGenerator[ModelEvent, Any]) -> ModelEvent | None:
    try:
        return await anext(stream, None)
    except BaseExceptionGroup as group:
        raise fault_of(group, _fell) from None


async def _close(stream: AsyncGenerator[ModelEvent, Any]) -> None:
    try:
        await stream.aclose()
    except BaseException as error:  # noqa: BLE001 - it may raise anything; what is not its own is raised again
        fault = fault_of(error, _fell)
        if not isinstance(fault, GeneratorExit):  # which is how a nursery around a `yield` says that it was closed
            _fell(fault)


def _fell(fault: BaseException) -> None:
    _log.error("a model call failed as it was ended", exc_info=fault)


def _after(seconds: float | None) -> float:
    return math.inf if seconds is None else trio.current_time() + seconds
