"""A port beside the gateway's, for what is internal: a few documents that are made when they are asked for."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TypeAlias, cast

import trio
from websockets.http11 import Request, Response
from websockets.trio.server import ServerConnection, serve

from turnwire.gateway.auth import Doorman, is_loopback
from turnwire.gateway.http import answer_reader, answer_with, plain, refuse_stranger
from turnwire.gateway.listening import PatientListener

Made: TypeAlias = tuple[bytes, str]
"""Body and content type."""

OPEN_SECONDS = 10.0
"""How long one request may take."""


async def serve_side_port(
    host: str,
    port: int,
    documents: Mapping[str, Callable[[], Made]],
    *,
    task_status: trio.TaskStatus[tuple[str, int]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answers GET and HEAD requests by exact path until it is cancelled; reports where it listens.

    On a loopback address only names of this machine are answered to (X1). Raises OSError when the address cannot be
    listened on.
    """
    doorman = Doorman() if is_loopback(host) else None

    def answer(_socket: ServerConnection, request: Request) -> Response:
        refused = None if doorman is None else refuse_stranger(doorman, request.headers)
        return refused or answer_reader(request, lambda: get(request.path.partition("?")[0]))

    def get(path: str) -> Response:
        made = documents.get(path)
        return plain(HTTPStatus.NOT_FOUND, "There is nothing here.\n") if made is None else answer_with(*made())

    async def never(_socket: ServerConnection) -> None:
        raise AssertionError("every request is answered before it becomes a WebSocket")

    listeners = await trio.open_tcp_listeners(port, host=host)
    bound: tuple[str, int] = listeners[0].socket.getsockname()[:2]
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(
                serve,
                never,
                listeners=cast(list[trio.SocketListener], [PatientListener(each) for each in listeners]),
                process_request=answer,
                open_timeout=OPEN_SECONDS,
                ping_interval=None,
                logger=logging.getLogger("websockets.server"),
            )
        )
        task_status.started(bound)
