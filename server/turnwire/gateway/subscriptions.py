"""The subscriptions of one connection: `subscribe`, `reload`, `unsubscribe`, and the end of them all (W1, W4)."""

from turnwire.gateway.principals import Principal
from turnwire.gateway.requests import given
from turnwire.gateway.stream import FrameStream
from turnwire.gateway.subscription import Subscription
from turnwire.gateway.surroundings import Surroundings
from turnwire.sessions.faults import unknown_session
from turnwire_protocol import frames
from turnwire_protocol.codec import Format
from turnwire_protocol.codes import RequestError


class Subscriptions:
    """At most `max_subscriptions` Sessions; requests come one at a time, `close` at any time."""

    def __init__(self, stream: FrameStream, format: Format, surroundings: Surroundings) -> None:
        self._stream = stream
        self._format: Format = format
        self._around = surroundings
        self._by_session: dict[str, Subscription] = {}
        self._closed = False

    async def subscribe(self, request: frames.Subscribe) -> None:
        """Joins the Session, or joins it again; the snapshot answers the request. Raises RequestError."""
        session_id = request.session_id
        known = self._standing(session_id)
        most = self._around.settings.max_subscriptions
        if known is None and len(self._by_session) >= most:
            # Not `rate_limited`: waiting would not help, only unsubscribing does.
            raise RequestError("conflict", f"a connection follows at most {most} Sessions; unsubscribe one first")
        subscription = known or self._new(session_id)
        subscription.limit = self._around.performer.limit(request.limit)
        subscription.include_internal = given(request.include_internal, False)
        joined = False
        try:
            await self._join(subscription, request.id)
            joined = True
        finally:
            if known is None and not joined:
                self._drop(session_id)

    async def reload(self, request: frames.Reload) -> None:
        """A new snapshot for a subscription that stands. Raises RequestError `not_found` when there is none."""
        subscription = self._standing(request.session_id)
        if subscription is None:
            raise RequestError("not_found", "session_id: not subscribed", field="session_id")
        await self._join(subscription, request.id)

    def unsubscribe(self, session_id: str) -> None:
        """Nothing more of this Session is sent. Idempotent (L1)."""
        self._drop(session_id)

    async def recheck(self, principal: Principal) -> None:
        """Ends those that the principal may no longer have (`unsubscribed`, X3). Raises what the Authorizer raises."""
        for session_id, subscription in list(self._by_session.items()):
            if subscription.ended_by_server or await self._around.guard.may(principal, "subscribe", session_id):
                continue
            if self._by_session.get(session_id) is subscription:
                self._around.sessions.leave(session_id, subscription)
                subscription.ended(session_id, "forbidden")

    def close(self) -> None:
        """Leaves every Session, also one that is just being joined; ends no Turn (T4)."""
        self._closed = True
        for session_id in list(self._by_session):
            self._drop(session_id)

    async def _join(self, subscription: Subscription, request_id: int) -> None:
        subscription.answering = request_id
        try:
            await self._around.sessions.join(
                subscription.session_id,
                subscription,
                limit=subscription.limit,
                include_internal=subscription.include_internal,
            )
            if subscription.ended_by_server and subscription.answering is not None:
                raise unknown_session(subscription.session_id)
        finally:
            subscription.answering = None
            # Where it ended while the Session was being read, what had been left was joined once more.
            if self._closed:
                self._leave(subscription)
            elif subscription.ended_by_server:
                self._around.sessions.leave(subscription.session_id, subscription)

    def _new(self, session_id: str) -> Subscription:
        subscription = self._by_session[session_id] = Subscription(
            session_id, self._stream, self._around.fanout, self._format
        )
        return subscription

    def _standing(self, session_id: str) -> Subscription | None:
        """The subscription, unless the server has ended it."""
        subscription = self._by_session.get(session_id)
        if subscription is not None and subscription.ended_by_server:
            del self._by_session[session_id]
            return None
        return subscription

    def _drop(self, session_id: str) -> None:
        subscription = self._by_session.pop(session_id, None)
        if subscription is not None:
            self._leave(subscription)

    def _leave(self, subscription: Subscription) -> None:
        self._around.sessions.leave(subscription.session_id, subscription)
        subscription.close()
