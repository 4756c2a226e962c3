"""Plain HTTP beside the WebSocket: the page's files by exact match, health, and the schema. No path is ever resolved.

websockets reads one request without a body, hands it over here, and closes the connection after the answer.
"""

import hashlib
import mimetypes
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from websockets.datastructures import Headers, MultipleValuesError
from websockets.http11 import Request, Response

from turnwire.gateway.auth import Doorman, bearer_of, has_token_in_query

SOCKET_PATH: Final = "/ws"
HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Answered whatever Host they are asked under: load balancers ask by address, and the answers hold no secret."""

NO_PAGE: Final = (
    b"The chat page is not built. Run `make run`, or `npm ci && npm run build` in clients/js, and start again.\n"
)

TOKEN_IN_QUERY: Final = (
    "A token must not stand in a URL, since URLs end in logs. Send it in `hello` or as `Authorization: Bearer`.\n"
)

TOO_BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 32\r\n"
    b"Retry-After: 5\r\nConnection: close\r\n\r\nThere are too many connections.\n"
)
"""What is said to a peer who has asked for nothing yet, if it can be written at once."""

SECURITY_HEADERS: Final = (
    (
        "Content-Security-Policy",
        # 'self' covers the WebSocket of the same host, in every browser that is new enough for the page's styles.
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)

_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


class Document(Struct, frozen=True):
    """What one path answers with."""

    body: bytes
    content_type: str
    etag: str


Documents: TypeAlias = Mapping[str, Document | Callable[[], Document]]
"""What is answered by path; one that takes time to make is made when it is asked for."""


def document(body: bytes, content_type: str) -> Document:
    return Document(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def read_page(directory: Path) -> dict[str, Document]:
    """The files of the built page by the path that they are served under; empty when it was not built.

    Read once at the start: what is not in the table does not exist (X7).
    """
    table: dict[str, Document] = {}
    for file in sorted(directory.rglob("*")):
        relative = file.relative_to(directory)
        if not file.is_file() or any(part.startswith(".") for part in relative.parts):
            continue
        suffix = file.suffix.lower()
        content_type = _TYPES.get(suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        table[f"/{relative.as_posix()}"] = document(file.read_bytes(), content_type)
    if "/index.html" in table:
        table["/"] = table["/index.html"]
    return table


class Site:
    """Answers HTTP requests. `problem` says why the server is not ready, as a sentence, or None."""

    def __init__(
        self,
        doorman: Doorman,
        documents: Documents,
        problem: Callable[[], str | None],
    ) -> None:
        self._doorman = doorman
        self._documents = documents
        self._problem = problem

    def answer(self, request: Request) -> Response | None:
        """The answer, or None when the request may go on to become a WebSocket."""
        path = request.path.partition("?")[0]
        if has_token_in_query(request.path):
            return plain(HTTPStatus.BAD_REQUEST, TOKEN_IN_QUERY)
        refused = None if path in HEALTH_PATHS else refuse_stranger(self._doorman, request.headers)
        if refused is not None or path == SOCKET_PATH:
            return refused
        return answer_reader(request, lambda: self._get(path, request.headers))

    def _get(self, path: str, headers: Headers) -> Response:
        if path == "/healthz":
            return _response(HTTPStatus.OK, b'{"alive":true}', "application/json")
        if path == "/readyz":
            return self._readiness()
        found = self._documents.get(path)
        if found is not None:
            return _serve(found if isinstance(found, Document) else found(), headers)
        if path == "/":
            return _response(HTTPStatus.SERVICE_UNAVAILABLE, NO_PAGE, "text/plain; charset=utf-8")
        return plain(HTTPStatus.NOT_FOUND, "There is nothing here.\n")

    def _readiness(self) -> Response:
        problem = self._problem()
        if problem is None:
            return _response(HTTPStatus.OK, b'{"ready":true}', "application/json")
        body = msgspec.json.encode({"ready": False, "reason": problem})
        return _response(HTTPStatus.SERVICE_UNAVAILABLE, body, "application/json")


def refuse_stranger(doorman: Doorman, headers: Headers) -> Response | None:
    """The answer to a request that may not come in (X1), or None."""
    try:
        bearer_of(headers)
        refusal = doorman.refusal(headers.get("Host"), headers.get("Origin"))
    except MultipleValuesError:
        return plain(HTTPStatus.BAD_REQUEST, "Host, Origin and Authorization may be given once only.\n")
    return None if refusal is None else plain(HTTPStatus.FORBIDDEN, refusal + "\n")


def answer_reader(request: Request, get: Callable[[], Response]) -> Response:
    """What `get` makes for a request that only reads, without its body for HEAD; all others are refused."""
    if request.method not in ("GET", "HEAD"):
        response = plain(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are served here.\n")
        response.headers["Allow"] = "GET, HEAD"
        return response
    response = get()
    if request.method == "HEAD":
        response.body = b""
    return response


def plain(status: HTTPStatus, text: str) -> Response:
    """A short answer for people."""
    return _response(status, text.encode(), "text/plain; charset=utf-8")


def answer_with(body: bytes, content_type: str) -> Response:
    """A whole document that is made for this answer."""
    return _response(HTTPStatus.OK, body, content_type)


def _serve(found: Document, headers: Headers) -> Response:
    known = {tag.strip().removeprefix("W/") for value in headers.get_all("If-None-Match") for tag in value.split(",")}
    if found.etag in known or "*" in known:
        response = _response(HTTPStatus.NOT_MODIFIED, b"", found.content_type)
        del response.headers["Content-Length"]
    else:
        response = _response(HTTPStatus.OK, found.body, found.content_type)
    response.headers["ETag"] = found.etag
    return response


def _response(status: HTTPStatus, body: bytes, content_type: str) -> Response:
    headers = Headers(SECURITY_HEADERS)
    headers["Content-Type"] = content_type
    headers["Content-Length"] = str(len(body))
    headers["Cache-Control"] = "no-cache"
    headers["Connection"] = "close"
    return Response(status.value, status.phrase, headers, body)
