"""Error and close codes: number or name, sentence, and what the client shall do next.

One table for every peer: `vectors/codes.json` is written from it, and the JavaScript client is tested against that.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType

from turnwire_protocol.frames import Error
from turnwire_protocol.parts import Ordinal

ErrorName: TypeAlias = Literal[
    "invalid_frame",
    "invalid_argument",
    "unknown_op",
    "unauthenticated",
    "forbidden",
    "not_found",
    "conflict",
    "already_resolved",
    "too_large",
    "rate_limited",
    "unavailable",
    "draining",
    "internal",
]


class ErrorCode(Struct, frozen=True):
    name: ErrorName
    retryable: bool
    sentence: str


ERROR_CODES: Final[dict[ErrorName, ErrorCode]] = {
    code.name: code
    for code in (
        ErrorCode("invalid_frame", False, "The frame is not one map in the negotiated format."),
        ErrorCode("invalid_argument", False, "A field is missing, unknown, or has a wrong value; `field` says which."),
        ErrorCode("unknown_op", False, "The server does not know this `op`."),
        ErrorCode("unauthenticated", False, "`hello` must come first, with a valid token."),
        ErrorCode("forbidden", False, "The principal may not do this."),
        ErrorCode("not_found", False, "There is no such thing, or it is not yours to see."),
        ErrorCode("conflict", False, "The request contradicts the present state."),
        ErrorCode(
            "already_resolved", False, "Somebody else answered first; `by`, `response` and `at` say who and what."
        ),
        ErrorCode("too_large", False, "The request is larger than the limits in `welcome` allow."),
        ErrorCode("rate_limited", True, "Too many requests; wait before the next."),
        ErrorCode("unavailable", True, "The server cannot store anything now; nothing was lost, try again."),
        ErrorCode("draining", True, "The server is about to restart and starts no new Turns."),
        ErrorCode("internal", True, "The server failed; the log of the server says more."),
    )
}


class RequestError(Exception):
    """A request that is refused: what `error` frame answers it (W9)."""

    def __init__(
        self, code: ErrorName, message: str, *, field: str | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.details = dict(details or {})
        """Further fields of the frame, as `already_resolved` has them."""
        self.code: ErrorName = code
        self.message = message
        self.field = field

    def frame(self, request_id: Ordinal | None) -> Error:
        return Error(
            id=_present(request_id),
            code=self.code,
            message=self.message,
            field=_present(self.field),
            retryable=ERROR_CODES[self.code].retryable,
            **self.details,
        )


T = TypeVar("T")


def _present(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value


Retry: TypeAlias = Literal["retry", "refresh_token", "stop"]


class CloseCode(Struct, frozen=True):
    code: int
    name: str
    retry: Retry
    sentence: str


CLOSE_CODES: Final[dict[int, CloseCode]] = {
    code.code: code
    for code in (
        CloseCode(1000, "done", "retry", "The client has finished. Where it has not, something in between closed."),
        CloseCode(1001, "going_away", "retry", "The peer goes away."),
        CloseCode(1003, "wrong_frame_kind", "stop", "Text came where binary was negotiated, or binary where text was."),
        CloseCode(1006, "lost", "retry", "The connection ended without a closing handshake."),
        CloseCode(1007, "not_utf8", "stop", "A text frame is not UTF-8."),
        CloseCode(1009, "too_large", "stop", "A frame is larger than `max_request`."),
        CloseCode(1011, "internal", "retry", "The server failed, or the client did not answer a ping."),
        CloseCode(1012, "restart", "retry", "The server restarts; `draining` said when to come back."),
        CloseCode(1013, "overloaded", "retry", "The server has too much to do."),
        CloseCode(4400, "bad_frame", "stop", "The connection cannot go on after this frame."),
        CloseCode(
            4401, "token", "refresh_token", "The token is missing, wrong or expired: get a new one once, then stop."
        ),
        CloseCode(4403, "not_allowed", "stop", "The principal may not be here."),
        CloseCode(4408, "too_slow", "retry", "No `hello` came in time, or a message took too long."),
        CloseCode(4429, "too_many_requests", "retry", "Too many requests; come back later."),
    )
}


def retry_of(code: int) -> Retry:
    """What a client does after a connection was closed with `code`, also for codes that it does not know."""
    known = CLOSE_CODES.get(code)
    if known is not None:
        return known.retry
    return "stop" if 4400 <= code <= 4499 else "retry"
