"""One call of a model service over HTTP, whatever it speaks: where it is, its event stream, its end, and its failures.

The SDKs make the requests, with their own retries off, and the bytes of the answers are read here: the SDKs' own
streams leave async generators behind, which trio reports. What the events mean is the dialect's `AnswerReader`.
"""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from math import inf
from typing import Any, Final, Protocol

import httpx2
import trio

from turnwire.models.base import ModelError, ModelEvent
from turnwire.models.service_errors import SdkErrors, classified, malformed
from turnwire.models.sse import SseDecoder, SseOverflow

CONNECT_SECONDS: Final = 10.0
"""How long a connection may take; the limits of the answer itself are `timeouts`."""

USAGE_SECONDS: Final = 2.0
"""How long the token counts are waited for when the model has finished: an answer never fails for want of them."""

DRAIN_SECONDS: Final = 0.1
"""How long the end of the HTTP body is waited for after the last event, so that the connection can be used again."""

_NO_KEY: Final = "none"
"""Sent where no key is known: servers of one's own want none, but the SDKs insist."""

_NOT_A_STREAM: Final = ("application/json", "text/html")

Clock = Callable[[], float]
"""The wall clock, in seconds."""

wall_clock: Final[Clock] = time.time


class BadService(ValueError):
    """The service cannot be used as configured; the text says what to set."""


def address_and_key(
    base_url: str | None, api_key: str | None, environ: Mapping[str, str], prefix: str
) -> tuple[str | None, str]:
    """Where the service is (None: where the SDK says) and its key, given or from PREFIX_BASE_URL and PREFIX_API_KEY.

    With a base URL there need be no key. Raises BadService.
    """
    base_url = base_url or environ.get(f"{prefix}_BASE_URL") or None
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise BadService(f"the base URL must begin with http:// or https://, got {base_url!r}")
    api_key = api_key or environ.get(f"{prefix}_API_KEY") or (_NO_KEY if base_url else None)
    if api_key is None:
        raise BadService(f"{prefix}_API_KEY is not set, and no base URL of another service was given")
    return base_url, api_key


class AnswerReader(Protocol):
    """One answer in a service's dialect, read payload by payload. No I/O."""

    @property
    def finished(self) -> bool:
        """The model has said why it stopped; only bookkeeping can follow."""

    @property
    def done(self) -> bool:
        """The service has said that this was all."""

    def feed(self, payload: bytes) -> list[ModelEvent]:
        """The events of one payload. Raises ModelError for error objects and for what cannot be understood."""

    def end(self) -> list[ModelEvent]:
        """What ends the answer, or nothing when the model had not finished: then the stream was cut."""


async def read_answer(
    open_call: Callable[[], AbstractAsyncContextManager[Any]], reader: AnswerReader, sdk: SdkErrors, now: Clock
) -> AsyncGenerator[ModelEvent, None]:
    """One call, from the request to the end of its answer; `open_call` is an SDK's streaming response.

    Raises ModelError; ends without StepEnd when the service hangs up too early. Cancelling or closing it ends the
    request at once.
    """
    decoder, tail_until = SseDecoder(), inf
    async with AsyncExitStack() as stack:
        with classified(sdk, answering=False, now=now):
            response: httpx2.Response = (await stack.enter_async_context(open_call())).http_response
        _check_type(response.headers.get("content-type", ""))
        parts = response.aiter_bytes()
        stack.push_async_callback(_let_go, parts)
        while (part := await _next(parts, tail_until, sdk, now)) is not None:
            for payload in _payloads(decoder, part):
                for event in reader.feed(payload):
                    yield event
            tail_until = min(tail_until, _tail_until(reader))
    for event in reader.end():
        yield event


async def _next(parts: AsyncGenerator[bytes, None], tail_until: float, sdk: SdkErrors, now: Clock) -> bytes | None:
    """The next bytes, or None at the end; in the tail, whatever happens is the end, for the answer is complete."""
    try:
        with trio.move_on_at(tail_until), classified(sdk, answering=True, now=now):
            return await anext(parts, None)
    except ModelError:
        if tail_until == inf:
            raise
    return None


async def _let_go(parts: AsyncGenerator[bytes, None]) -> None:
    """Ends a body that was not read to its end, and with it the request.

    Merely closing `parts` would leave the generators of the HTTP client's inner layers to the garbage collector. A
    read that is cancelled at once unwinds them all, here and now.
    """
    with trio.CancelScope() as scope, suppress(httpx2.HTTPError):  # the call is over, whatever the connection says
        scope.cancel()
        while await anext(parts, None) is not None:
            pass


def _tail_until(reader: AnswerReader) -> float:
    if reader.done:
        return trio.current_time() + DRAIN_SECONDS
    return trio.current_time() + USAGE_SECONDS if reader.finished else inf


def _payloads(decoder: SseDecoder, part: bytes) -> list[bytes]:
    try:
        return decoder.feed(part)
    except SseOverflow as error:
        raise malformed(str(error)) from error


def _check_type(content_type: str) -> None:
    if content_type.partition(";")[0].strip().lower() in _NOT_A_STREAM:
        raise malformed(f"it answered with {content_type} instead of an event stream")
