"""Authorization: what each request needs, the rules that come with tokens, and the answer to what is refused."""

from collections.abc import Awaitable, Callable
from typing import Final, cast

from msgspec import UNSET, UnsetType

from turnwire.gateway.principals import EVERY_SESSION, Action, Authorizer, Level, Principal, answer_of
from turnwire.sessions.faults import unknown_session
from turnwire.store.base import Scope
from turnwire_protocol import frames
from turnwire_protocol.codes import RequestError

ADMIN: Final = "admin"
"""The role that may do everything in every Session."""

USER: Final = "user"
"""The role that may create Sessions; the role of a token that names none."""

LEVELS: Final[tuple[Level, ...]] = ("viewer", "editor", "owner")

NEEDED: Final[dict[Action, Level]] = {
    "session.get": "viewer",
    "subscribe": "viewer",
    "reload": "viewer",
    "messages": "viewer",
    "interactions": "viewer",
    "prompt": "editor",
    "stop": "editor",
    "interaction.respond": "editor",
    "session.update": "editor",
    "session.fork": "editor",
    "session.archive": "owner",
    "session.delete": "owner",
}
"""The least level that each request on a Session needs."""

CONNECTION_OPS: Final = frozenset({"hello", "ping", "unsubscribe"})
"""Requests that concern the connection alone: nobody is asked."""


class GrantRules:
    """The rules of roles, grants and ownership: who created a Session is its owner, whatever the token says.

    `owned_by` tells whether a Session belongs to a principal.
    """

    def __init__(self, owned_by: Callable[[str, str], Awaitable[bool]]) -> None:
        self._owned_by = owned_by

    async def may(self, principal: Principal, action: Action, session_id: str | None) -> bool:
        if ADMIN in principal.roles:
            return True
        if action == "session.list":
            return True
        if action == "session.create":
            return USER in principal.roles
        needed = NEEDED.get(action)
        if needed is None or session_id is None:
            return False
        if _reaches(principal.grants.get(session_id), needed) or _reaches(principal.grants.get(EVERY_SESSION), needed):
            return True
        return await self._owned_by(session_id, principal.id)

    def scope(self, principal: Principal) -> Scope | None:
        if ADMIN in principal.roles or EVERY_SESSION in principal.grants:
            return None
        return Scope(principal.id, frozenset(principal.grants))


def _reaches(granted: Level | None, needed: Level) -> bool:
    return granted is not None and LEVELS.index(granted) >= LEVELS.index(needed)


class Guard:
    """Asks the Authorizer, and says no: a Session that one may not see looks like one that does not exist."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def check(self, principal: Principal, request: frames.Request) -> None:
        """Raises RequestError `not_found`, or `forbidden` for what concerns a Session that the principal may see."""
        op = str(request.__struct_config__.tag)
        if op in CONNECTION_OPS:
            return
        given = getattr(request, "session_id", None)
        session_id = None if isinstance(given, UnsetType) else given
        await self._check(principal, cast(Action, op), session_id)
        if isinstance(request, frames.SessionUpdate) and request.archived is not UNSET:
            await self._check(principal, "session.archive", session_id)

    async def _check(self, principal: Principal, action: Action, session_id: str | None) -> None:
        if await self.may(principal, action, session_id):
            return
        if action in ("session.create", "session.list"):
            raise RequestError("forbidden", f"this principal may not use {action}")
        if action == "session.get" or not await self.may(principal, "session.get", session_id):
            raise unknown_session(session_id)
        raise RequestError("forbidden", f"this principal may see the session, but not use {action} on it")

    async def may(self, principal: Principal, action: Action, session_id: str | None) -> bool:
        return await answer_of(self._authorizer.may, principal, action, session_id)

    async def scope(self, principal: Principal) -> Scope | None:
        """What `session.list` may show."""
        return await answer_of(self._authorizer.scope, principal)
