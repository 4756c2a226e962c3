"""Requests: which verb of the Sessions answers which `op`. Knows no socket and no subscription."""

from typing import Any, Protocol, TypeVar

from msgspec import UNSET, UnsetType

from turnwire.gateway.authorization import Guard
from turnwire.gateway.principals import Principal
from turnwire.sessions.channel import Watcher
from turnwire.store.base import Scope
from turnwire_protocol import frames
from turnwire_protocol.codes import RequestError
from turnwire_protocol.messages import Page, Session
from turnwire_protocol.parts import PartInput, TextInput

T = TypeVar("T")


class Sessions(Protocol):
    """What the gateway asks of the Session runtime. Every verb raises RequestError for a request that it refuses.

    A verb may be cancelled at any time when the server stops; what it had accepted by then stays accepted.
    """

    async def create(
        self,
        *,
        session_id: str | None = None,
        title: str | None = None,
        config: frames.ConfigChange | None = None,
        metadata: dict[str, Any] | None = None,
        client_request_id: str | None = None,
        principal: str,
        most: int | None = None,
    ) -> Session:
        """`most` is how many Sessions the principal may own, None for any number."""

    async def list(
        self,
        *,
        before: str | None = None,
        limit: int = 50,
        archived: bool = False,
        scope: Scope | None = None,
    ) -> frames.SessionPage:
        """Only Sessions of `scope`, or all."""

    async def owned_by(self, session_id: str, principal: str) -> bool:
        """Whether the Session exists and is this principal's; takes as long for either kind of no."""

    async def get(self, session_id: str) -> Session: ...

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        config: frames.ConfigChange | None = None,
        archived: bool | None = None,
    ) -> Session: ...

    async def messages(
        self,
        session_id: str,
        *,
        before_sequence: int | None = None,
        limit: int = 50,
        include_internal: bool = False,
    ) -> Page: ...

    async def prompt(
        self,
        session_id: str,
        *,
        parts: tuple[PartInput, ...],
        client_request_id: str,
        if_idle: bool = False,
        expected_turn_id: str | None = None,
    ) -> frames.Receipt: ...

    async def stop(self, session_id: str, *, turn_id: str | None = None) -> frames.StopResult: ...

    async def interactions(self, session_id: str) -> frames.InteractionList: ...

    async def respond(
        self,
        session_id: str,
        interaction_id: str,
        *,
        revision: int,
        response: Any,
        client_request_id: str | None = None,
        principal: str,
    ) -> frames.InteractionAnswer: ...

    async def fork(
        self,
        session_id: str,
        *,
        through_message_id: str | None = None,
        new_session_id: str | None = None,
        client_request_id: str | None = None,
        principal: str,
        most: int | None = None,
    ) -> Session:
        """`most` as in `create`."""

    async def archive(self, session_id: str) -> None: ...

    async def delete(self, session_id: str) -> None: ...

    async def join(self, session_id: str, watcher: Watcher, *, limit: int = 50, include_internal: bool = False) -> None:
        """Calls `watcher.joined` at one point of the Session's order; later Mutations follow (W4).

        A watcher that has joined already gets a new snapshot.
        """

    def leave(self, session_id: str, watcher: Watcher) -> None:
        """The watcher gets nothing more. Idempotent; never ends a Turn (T4)."""


def given(value: T | UnsetType, default: T) -> T:
    """A field of a request, or what counts when the client left it out."""
    return default if isinstance(value, UnsetType) else value


def optional(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


class Performer:
    """Answers requests that concern Sessions and have been allowed. `page` and `max_page` count items (M2), `most` the
    Sessions that one principal may own.
    """

    def __init__(self, sessions: Sessions, guard: Guard, *, page: int, max_page: int, most: int) -> None:
        self._sessions = sessions
        self._guard = guard
        self._most = most
        self._page = page
        self._max_page = max_page

    def limit(self, asked: int | UnsetType) -> int:
        """How many items a page holds: the default when not asked for, never more than the most (M2)."""
        return min(given(asked, self._page), self._max_page)

    async def perform(self, request: frames.Request, principal: Principal) -> Any:
        """The `result` of one request. Raises RequestError."""
        sessions = self._sessions
        match request:
            case frames.Prompt():
                return await self._prompt(request)
            case frames.Messages():
                return await sessions.messages(
                    request.session_id,
                    before_sequence=optional(request.before_sequence),
                    limit=self.limit(request.limit),
                    include_internal=given(request.include_internal, False),
                )
            case frames.Stop():
                return await sessions.stop(request.session_id, turn_id=optional(request.turn_id))
            case frames.Interactions():
                return await sessions.interactions(request.session_id)
            case frames.InteractionRespond():
                return await sessions.respond(
                    request.session_id,
                    request.interaction_id,
                    revision=request.revision,
                    response=request.response,
                    client_request_id=optional(request.client_request_id),
                    principal=principal.id,
                )
            case frames.SessionArchive():
                await sessions.archive(request.session_id)
                return {}
            case frames.SessionDelete():
                await sessions.delete(request.session_id)
                return {}
            case frames.SessionCreate():
                return frames.SessionResult(await self._create(request, principal))
            case frames.SessionGet():
                return frames.SessionResult(await sessions.get(request.session_id))
            case frames.SessionUpdate():
                updated = await sessions.update(
                    request.session_id,
                    title=optional(request.title),
                    config=optional(request.config),
                    archived=optional(request.archived),
                )
                return frames.SessionResult(updated)
            case frames.SessionFork():
                return frames.SessionResult(await self._fork(request, principal))
            case frames.SessionList():
                return await sessions.list(
                    before=optional(request.before),
                    limit=self.limit(request.limit),
                    archived=given(request.archived, False),
                    scope=await self._guard.scope(principal),
                )
        op = request.__struct_config__.tag
        raise RequestError("unknown_op", f"op: {op!r} is not served here", field="op")

    async def _create(self, request: frames.SessionCreate, principal: Principal) -> Session:
        return await self._sessions.create(
            session_id=optional(request.session_id),
            title=optional(request.title),
            config=optional(request.config),
            metadata=optional(request.metadata),
            client_request_id=optional(request.client_request_id),
            principal=principal.id,
            most=None if principal.shared else self._most,
        )

    async def _fork(self, request: frames.SessionFork, principal: Principal) -> Session:
        return await self._sessions.fork(
            request.session_id,
            through_message_id=optional(request.through_message_id),
            new_session_id=optional(request.new_session_id),
            client_request_id=optional(request.client_request_id),
            principal=principal.id,
            most=None if principal.shared else self._most,
        )

    async def _prompt(self, request: frames.Prompt) -> frames.Receipt:
        parts = _parts_of(request)
        try:
            return await self._sessions.prompt(
                request.session_id,
                parts=parts,
                client_request_id=request.client_request_id,
                if_idle=given(request.if_idle, False),
                expected_turn_id=optional(request.expected_turn_id),
            )
        except RequestError as error:
            if error.field != "parts" or isinstance(request.text, UnsetType):
                raise
            # The client sent no such field: `text` is short for one Part.
            raise RequestError(error.code, error.message.replace("parts", "text", 1), field="text") from None


def _parts_of(request: frames.Prompt) -> tuple[PartInput, ...]:
    if isinstance(request.parts, UnsetType):
        if isinstance(request.text, UnsetType):
            raise RequestError("invalid_argument", "text: a prompt has either `text` or `parts`", field="text")
        return (TextInput(text=request.text),)
    if request.text is not UNSET:
        raise RequestError("invalid_argument", "parts: a prompt has `text` or `parts`, not both", field="parts")
    return request.parts
