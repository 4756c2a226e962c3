"""Principals: who is behind a connection, who says so, and who says what they may do. Tokens are one way of it.

An `Authenticator` turns what a client brought into a `Principal`; an `Authorizer` is asked before every request that
concerns Sessions. Both are hooks for embedding programs, and may answer at once or be awaited.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from turnwire.extensions import fault_of
from turnwire.store.base import Scope

P = ParamSpec("P")
T = TypeVar("T")

Level: TypeAlias = Literal["viewer", "editor", "owner"]
"""What a grant allows in one Session; each contains the one before."""

EVERY_SESSION = "*"
"""The Session id of a grant for all Sessions."""

Action: TypeAlias = Literal[
    "session.create",
    "session.list",
    "session.get",
    "session.update",
    "session.fork",
    "session.archive",
    "session.delete",
    "subscribe",
    "reload",
    "messages",
    "prompt",
    "stop",
    "interactions",
    "interaction.respond",
]
"""The `op` of a request that concerns Sessions; `hello`, `ping` and `unsubscribe` concern the connection alone."""

_log = logging.getLogger(__name__)


class Principal(Struct, kw_only=True, frozen=True):
    """Somebody who may connect: `id` names them in Sessions and Interactions."""

    id: str
    roles: frozenset[str] = frozenset()
    grants: Mapping[str, Level] = {}
    """By Session id, or EVERY_SESSION."""
    expires_at: float | None = None
    """When connections of this principal end, in seconds since 1970, unless they are renewed (X3)."""
    shared: bool = False
    """Stands for everyone who can reach the server, so that no limit for one principal applies."""


class Authenticator(Protocol):
    """Tells who a client is."""

    def authenticate(self, token: str | None) -> Principal | Awaitable[Principal]:
        """The principal behind the token of a `hello` or an `Authorization` header; None when there is none.

        Raises RequestError `unauthenticated` (the client gets a new token once, then stops) or `forbidden` (it stops).
        """


class Authorizer(Protocol):
    """Tells what principals may do."""

    def may(self, principal: Principal, action: Action, session_id: str | None) -> bool | Awaitable[bool]:
        """Whether this request is allowed; `session_id` is None for `session.list`, and where none was chosen.

        May be asked about Sessions that do not exist, and should take as long for them as for those of others. Raises
        RequestError `unavailable` when it cannot tell.
        """

    def scope(self, principal: Principal) -> Scope | Awaitable[Scope | None] | None:
        """Which Sessions `session.list` may show; None for all."""


LOCAL: Final = Principal(id="local", roles=frozenset({"admin"}), shared=True)


class OpenAccess:
    """For a server that only this machine can reach: everyone is `local` and may do everything (X1 still holds)."""

    def authenticate(self, token: str | None) -> Principal:
        return LOCAL


class HookFailed(Exception):
    """A hook has raised what no hook may."""


async def answer_of(hook: Callable[P, T | Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """The answer of a hook that may be sync or async.

    Raises the hook's own exception, without the groups of its nurseries, or HookFailed for one beyond Exception.
    """
    try:
        answer = hook(*args, **kwargs)
        if inspect.isawaitable(answer):
            awaited: T = await answer
            return awaited
    except BaseException as error:
        fault = fault_of(error, _tell)
        if fault is error and isinstance(fault, Exception):
            raise
        raise (fault if isinstance(fault, Exception) else HookFailed(type(fault).__name__)) from error
    return answer


def _tell(fault: BaseException) -> None:
    _log.error("a hook failed as it was cancelled", exc_info=fault)
