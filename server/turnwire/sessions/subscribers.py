"""Subscribers: code in this process that follows a Session, or holds it in memory, whatever becomes of its task (L1).

A subscriber is a `Watcher` like any other. What makes it more is that it stays when the Session's task has failed: it
hears of it, as clients are told to reload, and follows the Session again as soon as somebody opens it.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, TypeAlias, TypeGuard

import trio

from turnwire.extensions import fault_of
from turnwire.sessions.channel import Audience, Channel, EndReason, Listener, Published, SnapshotFrames
from turnwire_protocol.mutations import Mutation

Callback: TypeAlias = Callable[[Mutation], None] | Callable[[Mutation], Awaitable[None]]

Interruption: TypeAlias = Literal["restarted", "lagged"] | EndReason
"""Why Mutations are missing.

`restarted`: the Session failed and was recovered, which publishes nothing: read its history again. The subscription
goes on. After all others nothing more comes.
"""

Interrupted: TypeAlias = Callable[[Interruption], None]

_log = logging.getLogger(__name__)


class Subscriber:
    """One subscription, with a plain callback, which is called at once."""

    def __init__(self, session_id: str, callback: Callable[[Mutation], Any], interrupted: Interrupted | None) -> None:
        self.active = True
        self._session_id = session_id
        self._callback = callback
        self._interrupted = interrupted

    @property
    def listener(self) -> Listener:
        """Every subscriber hears for itself."""
        return self

    def joined(self, snapshot: SnapshotFrames) -> None:
        """Subscribers get no snapshot."""

    def published(self, item: Published) -> None:
        if self.active:
            self._call(self._callback, item.mutation)

    def restarted(self, session_id: str) -> None:
        self._tell("restarted")

    def ended(self, session_id: str, reason: EndReason) -> None:
        self._tell(reason)
        self.active = False

    def unsubscribe(self) -> None:
        """Nothing more for the callback. Idempotent."""
        self.active = False

    def _tell(self, reason: Interruption) -> None:
        if self.active and self._interrupted is not None:
            self._call(self._interrupted, reason)

    def _call(self, callback: Callable[[Any], Any], value: Any) -> None:
        try:
            result = callback(value)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError("the callback gave a coroutine: subscribe with an async function itself")
        except BaseException as error:  # noqa: BLE001 - L1: a subscriber's fault is logged and reaches no one else
            self._take(error)

    def _take(self, error: BaseException) -> None:
        """Logs the fault. Raises what is meant for the server."""
        self._log_fault(fault_of(error, self._log_fault))

    def _log_fault(self, fault: BaseException) -> None:
        _log.error("a subscriber of session %(session_id)s failed", {"session_id": self._session_id}, exc_info=fault)


class AsyncSubscriber(Subscriber):
    """One with an async callback: called by a task of its own, so that nobody waits for it, and not the Session."""

    def __init__(
        self,
        session_id: str,
        callback: Callable[[Mutation], Awaitable[None]],
        interrupted: Interrupted | None,
        *,
        backlog: int,
        forget: Callable[[Subscriber], None],
    ) -> None:
        super().__init__(session_id, callback, interrupted)
        self._forget = forget
        self._send, self._receive = trio.open_memory_channel[Mutation | Interruption](backlog)
        self._lagged = False

    def published(self, item: Published) -> None:
        self._put(item.mutation)

    def restarted(self, session_id: str) -> None:
        self._put("restarted")

    def ended(self, session_id: str, reason: EndReason) -> None:
        self._put(reason)
        self._send.close()

    def unsubscribe(self) -> None:
        super().unsubscribe()
        self._send.close()

    async def run(self) -> None:
        """Passes on what comes, one after the other, until nothing more does."""
        async for item in self._receive:
            if self._lagged or not self.active:
                break
            if isinstance(item, str):
                self._tell(item)
                continue
            try:
                await self._callback(item)
            except BaseException as error:  # noqa: BLE001 - L1: a subscriber's fault is logged and reaches no one else
                self._take(error)
        if self._lagged:
            self._tell("lagged")
        self.active = False
        self._forget(self)

    def _put(self, item: Mutation | Interruption) -> None:
        if not self.active or self._lagged:
            return
        try:
            self._send.send_nowait(item)
        except trio.WouldBlock:
            self._lagged = True
            self._send.close()
            self._forget(self)
            _log.error(
                "an async subscriber of session %(session_id)s fell behind and was dropped",
                {"session_id": self._session_id},
            )


class Holding:
    """All that code in this process holds of one Session: pins and subscriptions. Kept by the registry.

    `backlog` is how many Mutations may wait for an async subscriber.
    """

    def __init__(self, session_id: str, nursery: trio.Nursery, *, backlog: int) -> None:
        self.pins = 0
        """How many want the Session to stay in memory."""
        self._session_id = session_id
        self._nursery = nursery
        self._backlog = backlog
        self._channel: Channel | None = None
        self._subscribers: dict[Subscriber, Audience] = {}
        self._ended: Exception | None = None

    @property
    def used(self) -> bool:
        return bool(self.pins or self._subscribers)

    def attach(self, channel: Channel) -> None:
        """The Session has come into memory: from now on subscribers follow it."""
        self._channel = channel
        for subscriber, audience in self._subscribers.items():
            channel.add(subscriber, audience)

    def detach(self) -> None:
        """The Session has left memory, for a while."""
        self._channel = None

    def end(self, error: Exception) -> None:
        """Nobody can subscribe any more, but gets `error`."""
        self._ended = error
        self._subscribers.clear()

    def subscribe(
        self, callback: Callback, *, include_internal: bool, interrupted: Interrupted | None
    ) -> Callable[[], None]:
        """See `SessionHandle.subscribe`."""
        if self._ended is not None:
            raise self._ended
        subscriber: Subscriber
        if _is_async(callback):
            subscriber = queued = AsyncSubscriber(
                self._session_id, callback, interrupted, backlog=self._backlog, forget=self._forget
            )
            self._nursery.start_soon(queued.run)
        else:
            subscriber = Subscriber(self._session_id, callback, interrupted)
        audience = self._subscribers[subscriber] = "all" if include_internal else "visible"
        if self._channel is not None:
            self._channel.add(subscriber, audience)

        def unsubscribe() -> None:
            subscriber.unsubscribe()
            self._forget(subscriber)

        return unsubscribe

    def _forget(self, subscriber: Subscriber) -> None:
        self._subscribers.pop(subscriber, None)
        if self._channel is not None:
            self._channel.remove(subscriber)


def _is_async(callback: Callback) -> TypeGuard[Callable[[Mutation], Awaitable[None]]]:
    """Whether this is an async function or method, a callable object with an async `__call__`, or a partial of one."""
    function: Any = callback
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
