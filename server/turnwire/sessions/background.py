"""Background requests: what a Session asks a model besides its Turns, for titles and summaries (T5).

They run in tasks of the Session's nursery, and change nothing: warnings and results reach the Session as jobs. No user
waits for them, so they hold up neither Turns nor tools.
"""

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import trio
from msgspec import UNSET

from turnwire.models.base import BlockDelta, BlockStart, ModelError, ModelMessage, ModelRequest, StepEnd
from turnwire.models.timeouts import with_timeouts
from turnwire.sessions.mailbox import Chore
from turnwire.sessions.model_calls import provider_failure
from turnwire_protocol.mutations import ModelRequestWarning

if TYPE_CHECKING:
    from turnwire.sessions.session import Session

Kind = Literal["title", "compaction"]

ANSWER_CHARACTERS: Final = 256 * 1024
"""The longest answer that is taken; titles and summaries are far shorter."""


async def ask(session: "Session", kind: Kind, messages: tuple[ModelMessage, ...]) -> str:
    """The text that the Session's model answers, tried again as the policy says. Raises ModelError."""
    key, attempt = session.env.new_id(kind), 0
    while True:
        attempt += 1
        try:
            return await _text(session, kind, messages, key, attempt)
        except ModelError as failure:
            error = failure
        delay = session.env.retry.delay_ms(attempt, error, session.env.random)
        session.mailbox.post(Chore(partial(_warn, session, kind, error, attempt, delay)))
        if delay is None:
            raise error
        await trio.sleep(delay / 1000)


async def _text(session: "Session", kind: Kind, messages: tuple[ModelMessage, ...], key: str, attempt: int) -> str:
    model = session.record.config.model
    request = ModelRequest(
        model=None if model is UNSET else model, messages=messages, key=key, attempt=attempt, kind=kind
    )
    try:
        return await _collect(session, request)
    except BaseException as raised:  # any fault of a provider fails the request, not the Session
        raise provider_failure(session, raised) from raised


async def _collect(session: "Session", request: ModelRequest) -> str:
    limits = session.env.limits
    stream = with_timeouts(
        session.env.provider.stream(request),
        first_event=limits.first_event_seconds,
        idle=limits.idle_event_seconds,
        total=limits.call_seconds,
    )
    texts: dict[int, list[str]] = {}
    room = ANSWER_CHARACTERS
    async with aclosing(stream) as events:
        async for event in events:
            if isinstance(event, BlockStart) and event.kind == "text":
                texts[event.block] = []
            elif isinstance(event, BlockDelta) and event.block in texts:
                texts[event.block].append(event.text)
                room -= len(event.text)
            elif isinstance(event, StepEnd) and event.reason == "content_filter":
                raise ModelError("content_filter", "the model's answer was withheld by a content filter")
            if room < 0:
                raise ModelError(
                    "internal", f"the model said more than {ANSWER_CHARACTERS} characters", retryable=False
                )
    return "\n".join("".join(text) for text in texts.values())


async def _warn(session: "Session", kind: Kind, error: ModelError, attempt: int, delay_ms: int | None) -> None:
    session.env.counts.warned(error.code)
    session.publish(
        ModelRequestWarning(
            **session.envelope(),
            request_kind=kind,
            code=error.code,
            message=error.message,
            retryable=error.retryable,
            attempt=attempt,
            max_attempts=session.env.retry.max_attempts,
            will_retry=delay_ms is not None,
            retry_in_ms=UNSET if delay_ms is None else delay_ms,
        )
    )
