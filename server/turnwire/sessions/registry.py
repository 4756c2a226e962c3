"""The registry: every verb of Turnwire, in process and over the wire, and which Sessions are in memory.

A Session is opened by the first verb that changes or watches it, and evicted when it does nothing and nobody watches.
Reads of history go to the store directly and open nothing (M1).
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from msgspec import UNSET

from turnwire.sessions import creation
from turnwire.sessions.channel import Watcher
from turnwire.sessions.configs import changed
from turnwire.sessions.counts import SessionCounts
from turnwire.sessions.creation import Creator
from turnwire.sessions.environment import Environment
from turnwire.sessions.faults import store_faults, unknown_session
from turnwire.sessions.handles import SessionHandle
from turnwire.sessions.instructions import instruct
from turnwire.sessions.prompts import Prompt, PromptOptions, check_input
from turnwire.sessions.session import Session
from turnwire.sessions.snapshots import page_frame, session_frame
from turnwire.sessions.subscribers import Holding
from turnwire.store.base import (
    DEFAULT_PAGE,
    MAX_PAGE,
    DeleteSession,
    Scope,
    SessionRecord,
    StoreUnavailable,
)
from turnwire_protocol import frames, messages
from turnwire_protocol.codes import RequestError
from turnwire_protocol.messages import UserMessage
from turnwire_protocol.mutations import TurnError
from turnwire_protocol.parts import PartInput

_log = logging.getLogger(__name__)

SHUTDOWN = TurnError("server_shutdown", "The server was shut down while the answer was being written.")


class Registry:
    """All Sessions of one server. `run` owns the tasks of those in memory; every verb may be called from any task.

    Verbs raise RequestError: `not_found` for an unknown Session, `unavailable` while the store cannot serve, and what
    their own docstrings say.
    """

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._live: dict[str, Session] = {}
        self._opening: dict[str, trio.Event] = {}
        self._scopes: dict[str, trio.CancelScope] = {}
        self._holdings: dict[str, Holding] = {}
        """What code in this process holds of Sessions in memory, and of those that failed and were not opened since."""
        self._nursery: trio.Nursery
        self.draining = False
        """Whether new Turns are refused because the server is about to stop (W8)."""

    # -------------------------------------------------------------------------------------------------------- lifetime

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Owns every Session's task until it is cancelled; the store must have been recovered before (S7)."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            while True:
                await trio.sleep(self._env.limits.idle_seconds)
                self.evict_idle()

    def evict_idle(self) -> None:
        """Lets go of every Session that nobody needs in memory; the next verb opens it again, in a new epoch."""
        for session_id, holding in list(self._holdings.items()):
            session = self._live.get(session_id)
            if not holding.used and (session is None or session.idle):
                self._let_go(session_id, RequestError("unavailable", "the session is being closed"))

    def _let_go(self, session_id: str, error: RequestError) -> None:
        """Whoever still has a hold of the Session gets `error` from now on."""
        self._holdings.pop(session_id).end(error)
        session = self._live.pop(session_id, None)
        if session is not None:
            session.close(error)
            self._scopes.pop(session_id).cancel()

    async def drain(self, grace_seconds: float, reason: TurnError = SHUTDOWN) -> bool:
        """Refuses new Turns, gives running ones `grace_seconds`, then stops them with a stored reason (W8).

        False when an end could not be stored; the next start finds such a Turn and closes it (S7).
        """
        self.draining = True
        with trio.move_on_after(grace_seconds):
            for session in list(self._live.values()):
                while session.loop.active is not None:
                    await session.loop.active.finished.wait()
        failed: list[Session] = []

        async def end(session: Session) -> None:
            try:
                await session.do(partial(session.loop.stop, reason=reason), lasting=True)
            except Exception as error:  # noqa: BLE001 - one Session's fault must not keep the others from their end
                failed.append(session)
                _log.error(
                    "the turns of session %(session_id)s cannot be ended in the store: %(error)s",
                    {"session_id": session.session_id, "error": error},
                    exc_info=None if isinstance(error, RequestError) else error,
                )

        async with trio.open_nursery() as nursery:
            for session in self._live.values():
                if session.loop.busy:
                    nursery.start_soon(end, session)
        return not failed

    @property
    def counts(self) -> SessionCounts:
        """What all Sessions have counted."""
        return self._env.counts

    @property
    def live_sessions(self) -> int:
        """Sessions in memory."""
        return len(self._live)

    @property
    def running_turns(self) -> int:
        return sum(session.loop.executing for session in self._live.values())

    async def _open(self, session_id: str) -> Session:
        """The live Session. Raises RequestError `not_found` or `unavailable`."""
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
            record = await self._read_record(session_id)
            session = Session(record, self._env)
            scope = await self._nursery.start(self._run_session, session)
            self._live[session_id], self._scopes[session_id] = session, scope
            self._holding(session_id).attach(session.channel)
        finally:
            del self._opening[session_id]
            opened.set()
        return session

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
        try:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(session.run)
                    task_status.started(scope)
        except Exception:  # noqa: BLE001 - one Session's fault must not end the others
            _log.exception("session %(session_id)s failed and is recovered", {"session_id": session.session_id})
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

    async def _read_record(self, session_id: str) -> SessionRecord:
        with store_faults(session_id):
            return await self._env.store.session(session_id)

    # ------------------------------------------------------------------------------------------------------- Sessions

    async def create(
        self,
        *,
        session_id: str | None = None,
        title: str | None = None,
        config: frames.ConfigChange | None = None,
        metadata: dict[str, Any] | None = None,
        client_request_id: str | None = None,
        principal: str = "local",
        most: int | None = None,
    ) -> messages.Session:
        """A new Session, owned by `principal`. The same `client_request_id` with the same body gives the same one again
        (S9).

        Raises RequestError `conflict` when the id is taken, the request id was used with another body, or the principal
        owns `most` Sessions; `invalid_argument` when the metadata is too long.
        """
        record = await creation.create(
            self._env,
            session_id,
            title=title,
            config=config,
            metadata=metadata,
            creator=Creator(principal=principal, most=most, client_request_id=client_request_id),
        )
        return self._frame(record)

    async def owned_by(self, session_id: str, principal: str) -> bool:
        """Whether the Session exists and belongs to `principal`.

        One that does not exist costs the same as one of somebody else, in memory or not: nothing is told by the time.
        """
        live = self._live.get(session_id)
        if live is not None and live.record.owner == principal:
            return True
        try:
            record = await self._read_record(session_id)
        except RequestError as error:
            if error.code == "not_found":
                return False
            raise
        return record.owner == principal

    async def list(
        self,
        *,
        before: str | None = None,
        limit: int = DEFAULT_PAGE,
        archived: bool = False,
        scope: Scope | None = None,
    ) -> frames.SessionPage:
        """Sessions, those of `scope` or all, newest activity first.

        Raises RequestError `invalid_argument` for a `before` that is no cursor, or a `limit` that is not >= 1.
        """
        _check_positive("limit", limit)
        try:
            with store_faults():
                listing = await self._env.store.sessions(
                    before=before, limit=min(limit, MAX_PAGE), archived=archived, scope=scope
                )
        except ValueError:
            raise RequestError("invalid_argument", "before: not a cursor of this server", field="before") from None
        return frames.SessionPage(
            items=tuple(self._frame(record) for record in listing.items),
            next_before=UNSET if listing.next_before is None else listing.next_before,
            has_more=listing.has_more,
        )

    async def get(self, session_id: str) -> messages.Session:
        live = self._live.get(session_id)
        return live.frame() if live is not None else self._frame(await self._read_record(session_id))

    def _frame(self, record: SessionRecord) -> messages.Session:
        live = self._live.get(record.session_id)
        return live.frame() if live is not None else session_frame(record, executing=False)

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        config: frames.ConfigChange | None = None,
        archived: bool | None = None,
    ) -> messages.Session:
        """Changes title or config; stored with the Actions that record it, before everyone hears of it (M9, A3).

        `archived` takes the Session out of the ordinary listing, or brings it back, as the next prompt does, too.
        """
        session = await self._open(session_id)
        return await session.do(
            lambda: session.update(title=title, config=changed(session.record.config, config), archived=archived)
        )

    async def fork(
        self,
        session_id: str,
        *,
        through_message_id: str | None = None,
        new_session_id: str | None = None,
        client_request_id: str | None = None,
        principal: str = "local",
        most: int | None = None,
    ) -> messages.Session:
        """A new Session, owned by `principal`, with copies of this one's Messages, the first through
        `through_message_id`, or all (M5).

        Nothing that is still being written is copied, nor what stands behind it. Title and config are the other's. The
        same `client_request_id` with the same body gives the same fork again, as it is now (S9).

        Raises RequestError `not_found` for an unknown Message, `conflict` when it, or one before it, is still being
        written, the new id is taken, the request id was used with another body, or the principal owns `most` Sessions.
        """
        record = await creation.fork(
            self._env,
            session_id,
            through_message_id=through_message_id,
            new_session_id=new_session_id,
            creator=Creator(principal=principal, most=most, client_request_id=client_request_id),
        )
        return self._frame(record)

    async def archive(self, session_id: str) -> None:
        """Takes the Session out of the ordinary listing, until it is brought back; see `update`. Idempotent."""
        await self.update(session_id, archived=True)

    async def delete(self, session_id: str) -> None:
        """Stops the Session's Turn, removes all that is stored of it, and ends every subscription (`deleted`)."""
        session = await self._open(session_id)

        async def delete() -> None:
            await session.loop.stop()
            await session.commit([DeleteSession(session_id)])
            session.channel.end("deleted")
            self._let_go(session_id, unknown_session(session_id))

        await session.do(delete)

    # -------------------------------------------------------------------------------------------------------- history

    async def messages(
        self,
        session_id: str,
        *,
        before_sequence: int | None = None,
        limit: int = DEFAULT_PAGE,
        include_internal: bool = False,
    ) -> messages.Page:
        """A page of committed history, never of the live projection (M1-M4).

        Raises RequestError `invalid_argument` when `limit` or `before_sequence` is not an integer >= 1.
        """
        _check_positive("limit", limit)
        if before_sequence is not None:
            _check_positive("before_sequence", before_sequence)
        with store_faults(session_id):
            page = await self._env.store.page(
                session_id,
                before_sequence=before_sequence,
                limit=min(limit, MAX_PAGE),
                include_internal=include_internal,
            )
        return page_frame(page)

    # ---------------------------------------------------------------------------------------------------------- Turns

    async def prompt(
        self,
        session_id: str,
        *,
        parts: tuple[PartInput, ...],
        client_request_id: str,
        if_idle: bool = False,
        expected_turn_id: str | None = None,
    ) -> frames.Receipt:
        """Durable before it answers; started or queued by the Session's loop alone (T1, S9).

        Raises RequestError `invalid_argument` (empty), `too_large`, `conflict`, `rate_limited`, `draining`.
        """
        check_input(parts)
        session = await self._open(session_id)
        prompt = Prompt(parts, client_request_id, tuple(self._env.new_id("part") for _ in parts))

        async def prompt_now() -> frames.Receipt:
            # Asked in the Session's turn, not in the caller's: a drain may have begun while the job waited (W8).
            options = PromptOptions(if_idle=if_idle, expected_turn_id=expected_turn_id, draining=self.draining)
            return await session.loop.prompt(prompt, options)

        return await session.do(prompt_now)

    async def instruct(self, session_id: str, *, parts: tuple[PartInput, ...]) -> UserMessage:
        """Tells the model something that no user said, as an internal User Message, and gives that (C3).

        The next Step of the running Turn reads it, which goes on for one more if need be; when nothing runs, the next
        Turn does. For the server's own program: clients have no such request.

        Raises RequestError `invalid_argument` (empty), `too_large`.
        """
        check_input(parts)
        session = await self._open(session_id)
        instruction = Prompt(parts, self._env.new_id("req"), tuple(self._env.new_id("part") for _ in parts))
        return await session.do(lambda: instruct(session, instruction))

    async def stop(self, session_id: str, *, turn_id: str | None = None) -> frames.StopResult:
        """Ends the running Turn and cancels queued prompts; idempotent (T3).

        Raises RequestError `unavailable` when the store does not answer in time; it happens then as soon as it does.
        """
        session = await self._open(session_id)
        return await session.do(lambda: session.loop.stop(turn_id=turn_id), lasting=True)

    async def interactions(self, session_id: str) -> frames.InteractionList:
        """The pending Interactions (P7)."""
        live = self._live.get(session_id)
        if live is None:
            await self._read_record(session_id)
            return frames.InteractionList(())
        return frames.InteractionList(live.interactions.pending())

    async def respond(
        self,
        session_id: str,
        interaction_id: str,
        *,
        revision: int,
        response: Any,
        client_request_id: str | None = None,
        principal: str = "local",
    ) -> frames.InteractionAnswer:
        """Answers an approval or a question; the first answer counts (P7). See `Interactions.respond`."""
        session = await self._open(session_id)
        return await session.do(
            lambda: session.interactions.respond(
                interaction_id,
                revision=revision,
                response=response,
                by=principal,
                client_request_id=client_request_id,
            )
        )

    # ------------------------------------------------------------------------------------------------------- watching

    async def join(
        self, session_id: str, watcher: Watcher, *, limit: int = DEFAULT_PAGE, include_internal: bool = False
    ) -> None:
        """`watcher` gets a snapshot, and from that very point on every Mutation (W4). Joining again: a new snapshot.

        Raises RequestError `invalid_argument` when `limit` is not an integer >= 1.
        """
        _check_positive("limit", limit)
        session = await self._open(session_id)
        await session.join(watcher, limit=min(limit, MAX_PAGE), include_internal=include_internal)

    def leave(self, session_id: str, watcher: Watcher) -> None:
        """Nothing more for `watcher`; neither Session nor Turn takes notice (T4). Idempotent."""
        session = self._live.get(session_id)
        if session is not None:
            session.channel.remove(watcher)

    def in_memory(self, session_id: str) -> Session | None:
        """The Session, if it is in memory; opens none."""
        return self._live.get(session_id)

    @asynccontextmanager
    async def open(self, session_id: str) -> AsyncIterator[SessionHandle]:
        """A Session for use in this process, kept in memory until the block ends. Raises RequestError.

        Where it fails meanwhile the handle stays good: the next verb opens the Session again, and it is kept again.
        """
        await self._open(session_id)
        holding = self._holdings[session_id]
        holding.pins += 1
        try:
            yield SessionHandle(self, session_id, holding, self._env)
        finally:
            holding.pins -= 1


def _check_positive(name: str, value: int) -> None:
    if type(value) is not int or value < 1:
        raise RequestError("invalid_argument", f"{name}: expected an integer >= 1", field=name)
