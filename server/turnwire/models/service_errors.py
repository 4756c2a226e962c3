"""What went wrong with a model service, as a ModelError: the only place that knows their many ways (T5).

The SDKs of OpenAI and Anthropic fail alike, and the services' error bodies differ in names only, so both are read here.

Messages are sentences for people; of the service's own words they carry a bounded piece, without the API key.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, Final

import anyio
import httpx2
from msgspec import Struct

from turnwire.models.base import ErrorCode, ModelError, clean_text

QUOTED_CHARACTERS: Final = 300
"""How much of a service's own message is passed on."""

_CONTEXT: Final = re.compile(
    r"context.{0,20}(length|size|window|limit)|exceed_context|maximum context|prompt is too long|too many tokens", re.I
)
_FILTER: Final = re.compile(r"content.?(filter|policy|management)|responsible.?ai|moderation|safety system", re.I)
_SECRET: Final = re.compile(r"\b(sk|pk|key|Bearer)[-_ ][A-Za-z0-9*_-]{4,}")

_BY_NAME: Final[dict[str, ErrorCode]] = {
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_error": "rate_limited",
    "requests": "rate_limited",
    "tokens": "rate_limited",
    "insufficient_quota": "rate_limited",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "engine_overloaded": "overloaded",
    "insufficient_system_resource": "overloaded",
    "service_unavailable": "overloaded",
    "invalid_api_key": "auth",
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "invalid_request",
    "request_too_large": "invalid_request",
    "timeout": "timeout",
    "timeout_error": "timeout",
    "invalid_request_error": "invalid_request",
    "not_found_error": "invalid_request",
    "model_not_found": "invalid_request",
}
"""`code` or `type` of an error object, as services name them."""

_BY_STATUS: Final[dict[int, ErrorCode]] = {
    401: "auth",
    403: "auth",
    408: "timeout",
    409: "overloaded",
    425: "overloaded",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}

_SENTENCES: Final[dict[ErrorCode, str]] = {
    "timeout": "the model service did not answer in time",
    "connection": "no connection to the model service",
    "rate_limited": "the model service limits how much it is asked",
    "overloaded": "the model service is overloaded",
    "auth": "the model service does not accept the API key",
    "invalid_request": "the model service refused the request",
    "context_length": "the conversation is longer than the model can read",
    "content_filter": "the model service refused the content",
    "cut_stream": "the connection broke off in mid-answer",
    "malformed_stream": "the model service sent something that is no answer",
    "internal": "the model service failed",
}


class SdkErrors(Struct, kw_only=True, frozen=True):
    """The exceptions of an SDK: for an HTTP status, no answer in time, no connection, no sense, and all of them."""

    status: type[Exception]
    timeout: type[Exception]
    connection: type[Exception]
    validation: type[Exception]
    base: type[Exception]


@contextmanager
def classified(sdk: SdkErrors, *, answering: bool, now: Callable[[], float]) -> Iterator[None]:
    """Turns every failure of the SDK and its HTTP client into a ModelError.

    `answering` says that the answer had begun, so that a broken connection is a cut stream. `now` is the wall clock in
    seconds, for services that say at what time to come again.
    """
    try:
        yield
    except sdk.status as error:
        failed: Any = error
        raise from_status(failed.status_code, failed.body, failed.response.headers, now()) from error
    except (sdk.timeout, httpx2.TimeoutException) as error:
        raise _error("timeout", "") from error
    except (sdk.connection, httpx2.TransportError, OSError, anyio.EndOfStream) as error:
        cause = error.__cause__ if isinstance(error, sdk.connection) and error.__cause__ else error
        raise _error("cut_stream" if answering else "connection", str(cause)) from error
    except (sdk.validation, httpx2.DecodingError, httpx2.TooManyRedirects) as error:
        raise _error("malformed_stream", str(error)) from error
    except (sdk.base, httpx2.HTTPError) as error:
        raise _error("internal", str(error)) from error


def from_status(status: int, body: object, headers: Mapping[str, str], now: float) -> ModelError:
    """The failure that an HTTP answer of 400 and above stands for."""
    names, message = _describe(body)
    code = _code_of(status, names, message)
    wish = retry_after_ms(headers, now) if code in ("rate_limited", "overloaded") else None
    return _failure(code, names, message or f"HTTP {status}", wish)


def from_error_object(error: object) -> ModelError:
    """The failure that an error object in mid-stream stands for: there is no status, but sometimes a number in it."""
    names, message = _describe({"error": error})
    status = next((int(name) for name in names if re.fullmatch("[45][0-9][0-9]", name)), 500)
    return _failure(_code_of(status, names, message), names, message, None)


def malformed(what: str) -> ModelError:
    """The service sent something that cannot be understood."""
    return _error("malformed_stream", what)


def retry_after_ms(headers: Mapping[str, str], now: float) -> int | None:
    """When the service wants to be asked again, in ms from `now` (wall clock, seconds), or None if it does not say."""
    if (exact := _number(headers.get("retry-after-ms"))) is not None:
        return round(exact)
    value = headers.get("retry-after")
    if (seconds := _number(value)) is not None:
        return round(seconds * 1000)
    try:
        date = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    return max(0, round((date.timestamp() - now) * 1000))


def _number(value: str | None) -> float | None:
    if value is None or not re.fullmatch(r"\s*\d{1,12}(\.\d{0,12})?\s*", value, re.ASCII):
        return None
    return float(value)


def _code_of(status: int, names: tuple[str, ...], message: str) -> ErrorCode:
    words = " ".join([*names, message])
    named = next((_BY_NAME[name] for name in names if name in _BY_NAME), None)
    if status not in (401, 403, 429) and _CONTEXT.search(words):
        return "context_length"
    if (status in (400, 403, 422) and _FILTER.search(words)) or "content_filter" in names:
        return "content_filter"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return (named or "internal") if status >= 500 else "invalid_request"


def _describe(body: object) -> tuple[tuple[str, ...], str]:
    """(code and type, message) of an error body, in any of the shapes that services use."""
    inner: Any = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(inner, dict):
        names = (inner.get("code"), inner.get("type"))
        return tuple(str(name) for name in names if isinstance(name, str | int)), str(inner.get("message") or "")
    return (), inner if isinstance(inner, str) else ""


def _failure(code: ErrorCode, names: tuple[str, ...], message: str, retry_after_ms: int | None) -> ModelError:
    # A used-up quota is not cured by asking again; and what is said about a key may hold a piece of it.
    retryable = False if "insufficient_quota" in names else None
    return _error(code, "" if code == "auth" else message, retryable=retryable, retry_after_ms=retry_after_ms)


def _error(
    code: ErrorCode, detail: str, *, retryable: bool | None = None, retry_after_ms: int | None = None
) -> ModelError:
    sentence = _SENTENCES[code]
    detail = _SECRET.sub("[removed]", " ".join(clean_text(detail).split()))[:QUOTED_CHARACTERS]
    message = f"{sentence}: {detail}" if detail else sentence
    return ModelError(code, message, retryable=retryable, retry_after_ms=retry_after_ms)
