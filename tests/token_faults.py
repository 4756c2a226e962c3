"""The faults of broken servers that show when tokens differ, in how long they are good and in what they allow."""

from typing import Any, ClassVar

import jwt
import msgspec
from msgspec import structs

from lying_stream import Liar
from turnwire.gateway.authorization import GrantRules
from turnwire.gateway.principals import Action, Principal
from turnwire.gateway.tokens import Claims, TokenAuthenticator
from turnwire.store.base import Scope
from turnwire_protocol.codes import RequestError

Map = dict[str, Any]


class _Forgiving(TokenAuthenticator):
    def claims(self, token: str | None) -> Claims:
        try:
            return super().claims(token)
        except RequestError as refusal:
            if "expired" not in refusal.message:
                raise
            return _unchecked(token)


def _unchecked(token: str | None) -> Claims:
    return msgspec.convert(jwt.decode(token or "", options={"verify_signature": False}), Claims)


class WelcomesWhoseTokenHasEnded(Liar):
    authenticator = _Forgiving


class _ForAll(TokenAuthenticator):
    def claims(self, token: str | None) -> Claims:
        try:
            return super().claims(token)
        except RequestError as refusal:
            if "audience" not in refusal.message:
                raise
            return _unchecked(token)


class TakesTokensForOthers(Liar):
    authenticator = _ForAll


class _Endless(TokenAuthenticator):
    def authenticate(self, token: str | None) -> Principal:
        return structs.replace(super().authenticate(token), expires_at=None)


class ServesOnWhenATokenEnds(Liar):
    authenticator = _Endless


class CallsEveryoneLocal(Liar):
    """Does not know who comes."""

    def said(self, frame: Map) -> list[Map]:
        return [{**frame, "principal": {"id": "local"}}] if frame["op"] == "welcome" else [frame]


class TakesEveryRenewal(Liar):
    """Whoever was welcomed once is welcomed again."""

    def __init__(self) -> None:
        self._hellos: set[int] = set()
        self._welcome: Map = {}

    def asked(self, request: Map) -> list[Map]:
        if request.get("op") == "hello":
            self._hellos.add(request["id"])
        return [request]

    def said(self, frame: Map) -> list[Map]:
        if frame["op"] == "welcome":
            self._welcome = frame
        if frame["op"] == "error" and frame.get("id") in self._hellos and self._welcome:
            return [{**self._welcome, "id": frame["id"]}]
        return [frame]


class _ViewersPrompt(GrantRules):
    async def may(self, principal: Principal, action: Action, session_id: str | None) -> bool:
        return await super().may(principal, "messages" if action == "prompt" else action, session_id)


class ViewersMayPrompt(Liar):
    rules = _ViewersPrompt


class _EditorsArchive(GrantRules):
    async def may(self, principal: Principal, action: Action, session_id: str | None) -> bool:
        return await super().may(principal, "prompt" if action == "session.archive" else action, session_id)


class EditorsMayArchive(Liar):
    rules = _EditorsArchive


class _Grantless(GrantRules):
    async def may(self, principal: Principal, action: Action, session_id: str | None) -> bool:
        return await super().may(structs.replace(principal, grants={}), action, session_id)


class IgnoresGrants(Liar):
    rules = _Grantless


class _FreeReading(GrantRules):
    async def may(self, principal: Principal, action: Action, session_id: str | None) -> bool:
        return action in ("session.get", "messages") or await super().may(principal, action, session_id)


class LetsEveryoneRead(Liar):
    rules = _FreeReading


class _Scopeless(GrantRules):
    def scope(self, principal: Principal) -> Scope | None:
        return None


class ListsAllSessions(Liar):
    rules = _Scopeless


class TellsWhatExists(Liar):
    """Refuses a Session of others in other words than one that does not exist."""

    _made_by: ClassVar[dict[str, Liar]] = {}

    def __init__(self) -> None:
        self._named: dict[int, str] = {}

    def asked(self, request: Map) -> list[Map]:
        if isinstance(request.get("session_id"), str):
            self._named[request["id"]] = request["session_id"]
            if request["op"] == "session.create":
                self._made_by.setdefault(request["session_id"], self)
            if request["op"] == "session.delete" and self._made_by.get(request["session_id"]) is self:
                del self._made_by[request["session_id"]]
        return [request]

    def said(self, frame: Map) -> list[Map]:
        if frame["op"] == "error" and frame["code"] == "not_found":
            maker = self._made_by.get(self._named[frame["id"]])
            return [frame if maker in (None, self) else {**frame, "code": "forbidden"}]
        return [frame]


class SaysNotThatASubscriptionIsOver(Liar):
    def said(self, frame: Map) -> list[Map]:
        return [] if frame["op"] == "unsubscribed" else [frame]
