"""Reading a model call under limits: how long it may be silent, how long it may last, and that it was not cut.

Every call is read through `with_timeouts`, so that a stream that hangs or breaks is a `ModelError` for every reader
alike. What to do about it is the loop's, with `retry`.
"""

from collections.abc import AsyncGenerator
from typing import Any, Final

import trio

from turnwire.models.base import ModelError, ModelEvent, StepEnd

FIRST_EVENT_SECONDS: Final = 120.0
"""Default time for a model to begin: reading a long prompt, or thinking unseen, takes its time."""

IDLE_SECONDS: Final = 60.0
"""Default time between two events."""

TOTAL_SECONDS: Final = 1800.0
"""Default time for one whole call."""

CLOSE_SECONDS: Final = 2.0
"""How long a stream may take to end after its last event, and to close before it is cancelled."""


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
    stream's own.
    """
    end_at = _after(total)
    wait, late = first_event, "did not begin to answer within"
    complete = False
    try:
        while True:
            wait_until = _after(wait)
            with trio.move_on_at(min(wait_until, end_at)) as scope:
                event = await anext(stream, None)
            if scope.cancelled_caught and complete:
                break  # nothing is missing; that the stream does not end is the provider's fault, not the answer's
            if scope.cancelled_caught:
                total_is_over = end_at <= wait_until
                words, seconds = ("took longer in all than", total) if total_is_over else (late, wait)
                raise ModelError("timeout", f"the model {words} {seconds:g} s")
            if event is None:
                break
            complete = isinstance(event, StepEnd)
            wait, late = CLOSE_SECONDS if complete else idle, "sent nothing more for"
            yield event
        if not complete:
            raise ModelError("cut_stream", "the stream ended before the model had finished")
    finally:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await stream.aclose()


def _after(seconds: float | None) -> float:
    return float("inf") if seconds is None else trio.current_time() + seconds
