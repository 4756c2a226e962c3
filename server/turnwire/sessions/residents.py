"""Residents: which Sessions are in memory, who holds them there, and what happens when one fails (S7).

A Session is opened at most once at a time, and evicted when it does nothing and nobody watches.
"""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import trio

from turnwire.extensions import fault_of
from turnwire.sessions.environment import Environment
from turnwire.sessions.faults import answered
from turnwire.sessions.session import Session
from turnwire.sessions.subscribers import Holding
from turnwire.store.base import StoreUnavailable
from turnwire_protocol.codes import RequestError

_log = logging.getLogger(__name__)


class Residents:
    """The live Sessions of one server, by `session_id`; `run` owns their tasks."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._live: dict[str, Session] = {}
        self._opening: dict[str, trio.Event] = {}
        self._scopes: dict[str, trio.CancelScope] = {}
        self._holdings: dict[str, Holding] = {}
        """What code in this process holds of Sessions in memory, and of those that failed and were not opened since."""
        self._nursery: trio.Nursery

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._live.values())

    def get(self, session_id: str) -> Session | None:
        """The Session, if it is in memory."""
        return self._live.get(session_id)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Owns every Session's task until it is cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            while True:
                await trio.sleep(self._env.limits.idle_seconds)
                self.evict_idle()

    def evict_idle(self) -> None:
        """Lets go of every Session that nobody needs in memory."""
        for session_id, holding in list(self._holdings.items()):
            session = self._live.get(session_id)
            if not holding.used and (session is None or session.idle):
                self.let_go(session_id, RequestError("unavailable", "the session is being closed"))

    def let_go(self, session_id: str, error: RequestError) -> None:
        """The Session leaves memory; whoever still has a hold of it gets `error` from now on."""
        self._holdings.pop(session_id).end(error)
        session = self._live.pop(session_id, None)
        if session is not None:
            session.close(error)
            self._scopes.pop(session_id).cancel()

    async def open(self, session_id: str) -> Session:
        """The live Session. Raises RequestError `not_found` or `unavailable`, within `limits.answer_seconds`."""
        with answered(self._env.limits.answer_seconds, session_id):
            while True:
                session = self._live.get(session_id)
                if session is not None:
                    return session
                opening = self._opening.get(session_id)
                if opening is None:
                    return await self._load(session_id)
                await opening.wait()

    async def _load(self, session_id: str) -> Session:
        self._opening[session_id] = opened = trio.Event()
        try:
            record = await self._env.store.session(session_id)
            session = Session(record, self._env)
            scope = await self._nursery.start(self._run_session, session)
            self._live[session_id], self._scopes[session_id] = session, scope
            self._holding(session_id).attach(session.channel)
        finally:
            del self._opening[session_id]
            opened.set()
        return session

    async def hold(self, session_id: str) -> AbstractContextManager[Holding]:
        """Opens the Session; within the block it is kept in memory. Raises RequestError."""
        await self.open(session_id)
        return self._pinned(self._holdings[session_id])

    @contextmanager
    def _pinned(self, holding: Holding) -> Iterator[Holding]:
        holding.pins += 1
        try:
            yield holding
        finally:
            holding.pins -= 1

    def _holding(self, session_id: str) -> Holding:
        holding = self._holdings.get(session_id)
        if holding is None:
            backlog = self._env.limits.callback_backlog
            holding = self._holdings[session_id] = Holding(session_id, self._nursery, backlog=backlog)
        return holding

    async def _run_session(self, session: Session, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        """The task of one live Session. A fault in it is logged and ends that Session alone: it is recovered as after a
        crash (S7), and its watchers are told to ask for a new snapshot, in a new epoch.
        """

        def tell(fault: BaseException) -> None:
            _log.error(
                "session %(session_id)s failed and is recovered", {"session_id": session.session_id}, exc_info=fault
            )

        try:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(session.run)
                    task_status.started(scope)
        except BaseException as error:  # noqa: BLE001 - one Session's fault must not end the others
            tell(fault_of(error, tell))
            await self._recover(session)

    async def _recover(self, session: Session) -> None:
        """Until the store has done it, the Session stays known, closed, and answers `unavailable`."""
        while True:
            try:
                await self._env.store.recover(self._env.now(), session_id=session.session_id)
                break
            except StoreUnavailable as error:
                _log.error(
                    "session %(session_id)s cannot be recovered yet: %(error)s",
                    {"session_id": session.session_id, "error": error},
                )
            except Exception:  # noqa: BLE001 - one Session that cannot be recovered must not end the others
                _log.exception("session %(session_id)s cannot be recovered", {"session_id": session.session_id})
            await trio.sleep(self._env.limits.store_retry_seconds)
        del self._live[session.session_id], self._scopes[session.session_id]
        self._holdings[session.session_id].detach()
        session.loop.interrupted()
        session.channel.restarted()
