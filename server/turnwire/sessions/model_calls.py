"""Model calls as tasks: what is asked, under which limits, and how the events reach the Session's mailbox (T5, K7).

A call that was cancelled says nothing more; every other one ends with a `CallEnded`.
"""

import logging
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import trio
from msgspec import UNSET

from turnwire.context.sizes import estimated_tokens
from turnwire.extensions import fault_of
from turnwire.models.base import ModelError, ModelRequest
from turnwire.models.timeouts import with_timeouts
from turnwire.sessions.turns import CallEnded, ModelCall
from turnwire.store.base import StoreUnavailable

if TYPE_CHECKING:
    from turnwire.sessions.session import Session

_log = logging.getLogger(__name__)


async def run_call(session: "Session", call: ModelCall) -> None:
    """The task of one attempt at one Step."""
    with call.scope:
        await trio.sleep(call.delay_ms / 1000)
        error: ModelError | None = None
        try:
            await _feed_events(session, call)
        except StoreUnavailable as failure:
            error = ModelError("internal", f"the history cannot be read now: {failure}")
        except BaseException as raised:  # noqa: BLE001 - any fault of a provider fails its Turn, not the Session
            error = provider_failure(session, raised)
        await session.mailbox.feed(call, CallEnded(error))


def provider_failure(session: "Session", raised: BaseException) -> ModelError:
    """The failure of the call that a provider has raised, or made by a fault of it. Raises what is for the server."""
    failure = fault_of(raised, partial(_tell, session))
    if isinstance(failure, ModelError):
        return failure
    _tell(session, failure)
    return ModelError("internal", f"the model provider failed: {type(failure).__name__}", retryable=False)


def _tell(session: "Session", fault: BaseException) -> None:
    _log.error("the model provider %(provider)s failed", {"provider": session.env.provider.name}, exc_info=fault)


async def _feed_events(session: "Session", call: ModelCall) -> None:
    env = session.env
    model = session.record.config.model
    messages = await env.composer.compose(call.history)
    call.input_tokens = estimated_tokens(messages)
    request = ModelRequest(
        model=None if model is UNSET else model,
        messages=messages,
        key=call.step.step_id,
        attempt=call.step.attempt,
        tools=env.tools.specs(),
    )
    stream = with_timeouts(
        env.provider.stream(request),
        first_event=env.limits.first_event_seconds,
        idle=env.limits.idle_event_seconds,
        total=env.limits.call_seconds,
    )
    asked_at, begun = trio.current_time(), False
    async with aclosing(stream) as events:
        async for event in events:
            if not begun:
                begun = True
                env.counts.first_event_seconds.observe(trio.current_time() - asked_at)
            await session.mailbox.feed(call, event)
