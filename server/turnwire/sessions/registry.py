"""The registry: every verb of Turnwire, in process and over the wire.

A Session is opened by the first verb that changes or watches it; which ones are in memory is `residents`. Reads of
history go to the store directly and open nothing (M1). All verbs stand here, none of them long, so this file is.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from msgspec import UNSET

from turnwire.sessions import creation
from turnwire.sessions.channel import Watcher
from turnwire.sessions.counts import SessionCounts
from turnwire.sessions.creation import Creator
from turnwire.sessions.draining import SHUTDOWN, drain
from turnwire.sessions.environment import Environment
from turnwire.sessions.faults import answered, unknown_session
from turnwire.sessions.given import as_request
from turnwire.sessions.handles import SessionHandle
from turnwire.sessions.instructions import instruct
from turnwire.sessions.prompts import Prompt, PromptOptions, check_input
from turnwire.sessions.residents import Residents
from turnwire.sessions.session import Session
from turnwire.sessions.snapshots import page_frame, session_frame
from turnwire.store.base import (
    DEFAULT_PAGE,
    MAX_PAGE,
    DeleteSession,
    Scope,
    SessionRecord,
)
from turnwire_protocol import frames, messages
from turnwire_protocol.codes import RequestError
from turnwire_protocol.messages import UserMessage
from turnwire_protocol.mutations import TurnError
from turnwire_protocol.parts import PartInput


class Registry:
    """All Sessions of one server. `run` owns the tasks of those in memory; every verb may be called from any task.

    What verbs are given is held against the rules of their requests on the wire, also by code in this process (W9).
    Verbs raise RequestError: `invalid_argument` for what no request could say, `not_found` for an unknown Session,
    `unavailable` while the store cannot serve, and what their own docstrings say.
    """

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._residents = Residents(environment)

    # -------------------------------------------------------------------------------------------------------- lifetime

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Owns every Session's task until it is cancelled; the store must have been recovered before (S7)."""
        await self._residents.run(task_status=task_status)

    def evict_idle(self) -> None:
        """Lets go of every Session that nobody needs in memory; the next verb opens it again, in a new epoch."""
        self._residents.evict_idle()

    def start_no_turns(self) -> None:
        """From now on no Turn is started, neither for a new prompt nor for one that waits (W8). Idempotent."""
        self._env.phase.draining = True

    async def drain(self, grace_seconds: float, reason: TurnError = SHUTDOWN) -> bool:
        """Starts no Turn any more, gives running ones `grace_seconds`, then stops them, and those that wait, with a
        stored reason (W8).

        False when an end could not be stored; the next start finds such a Turn and closes it (S7).
        """
        self.start_no_turns()
        return await drain(self._residents, grace_seconds, reason)

    @property
    def counts(self) -> SessionCounts:
        """What all Sessions have counted."""
        return self._env.counts

    @property
    def live_sessions(self) -> int:
        """Sessions in memory."""
        return len(self._residents)

    @property
    def running_turns(self) -> int:
        return sum(session.loop.executing for session in self._residents)

    async def _read_record(self, session_id: str) -> SessionRecord:
        with answered(self._env.limits.answer_seconds, session_id):
            return await self._env.store.session(session_id)

    # ------------------------------------------------------------------------------------------------------- Sessions

    @as_request("session.create")
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
        live = self._residents.get(session_id)
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
            with answered(self._env.limits.answer_seconds):
                listing = await self._env.store.sessions(
                    before=before, limit=min(limit, MAX_PAGE), archived=archived, scope=scope
                )
        except ValueError:
            raise RequestError("invalid_argument", "before: not a cursor of this server", field="before") from None
        items = (self._frame(record) for record in listing.items)  # some may have changed places since they were read
        return frames.SessionPage(
            items=tuple(item for item in items if (item.archived_at is not UNSET) == archived),
            next_before=UNSET if listing.next_before is None else listing.next_before,
            has_more=listing.has_more,
        )

    async def get(self, session_id: str) -> messages.Session:
        live = self._residents.get(session_id)
        return live.frame() if live is not None else self._frame(await self._read_record(session_id))

    def _frame(self, record: SessionRecord) -> messages.Session:
        live = self._residents.get(record.session_id)
        return live.frame() if live is not None else session_frame(record, executing=False)

    @as_request("session.update")
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
        session = await self._residents.open(session_id)
        return await session.do(lambda: session.details.update(title=title, config=config, archived=archived))

    @as_request("session.fork")
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
        session = await self._residents.open(session_id)

        async def delete() -> None:
            await session.loop.stop()
            await session.commit([DeleteSession(session_id)])
            session.channel.end("deleted")
            self._residents.let_go(session_id, unknown_session(session_id))

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
        with answered(self._env.limits.answer_seconds, session_id):
            page = await self._env.store.page(
                session_id,
                before_sequence=before_sequence,
                limit=min(limit, MAX_PAGE),
                include_internal=include_internal,
            )
        return page_frame(page)

    # ---------------------------------------------------------------------------------------------------------- Turns

    @as_request("prompt")
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
        session = await self._residents.open(session_id)
        prompt = Prompt(parts, client_request_id, tuple(self._env.new_id("part") for _ in parts))

        async def prompt_now() -> frames.Receipt:
            options = PromptOptions(if_idle=if_idle, expected_turn_id=expected_turn_id)
            return await session.loop.admission.prompt(prompt, options)

        return await session.do(prompt_now)

    @as_request("prompt", client_request_id="instruction")
    async def instruct(self, session_id: str, *, parts: tuple[PartInput, ...]) -> UserMessage:
        """Tells the model something that no user said, as an internal User Message, and gives that (C3).

        The next Step of the running Turn reads it, which goes on for one more if need be; when nothing runs, the next
        Turn does. For the server's own program: clients have no such request.

        Raises RequestError `invalid_argument` (empty), `too_large`.
        """
        check_input(parts)
        session = await self._residents.open(session_id)
        instruction = Prompt(parts, self._env.new_id("req"), tuple(self._env.new_id("part") for _ in parts))
        return await session.do(lambda: instruct(session, instruction))

    async def stop(self, session_id: str, *, turn_id: str | None = None) -> frames.StopResult:
        """Ends the running Turn and cancels queued prompts; idempotent (T3).

        Raises RequestError `unavailable` when the store does not answer in time; it happens then as soon as it does.
        """
        session = await self._residents.open(session_id)
        # A Turn that is not there has nothing to be stopped later, and its name would be one of any number.
        known = turn_id is None or session.loop.find(turn_id) is not None
        return await session.do(
            lambda: session.loop.stop(turn_id=turn_id), lasting=("stop", turn_id) if known else None
        )

    async def interactions(self, session_id: str) -> frames.InteractionList:
        """The pending Interactions (P7)."""
        live = self._residents.get(session_id)
        if live is None:
            await self._read_record(session_id)
            return frames.InteractionList(())
        return frames.InteractionList(live.interactions.pending())

    @as_request("interaction.respond")
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
        session = await self._residents.open(session_id)
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
        session = await self._residents.open(session_id)
        await session.joining.join(watcher, limit=min(limit, MAX_PAGE), include_internal=include_internal)

    def leave(self, session_id: str, watcher: Watcher) -> None:
        """Nothing more for `watcher`; neither Session nor Turn takes notice (T4). Idempotent."""
        session = self._residents.get(session_id)
        if session is not None:
            session.channel.remove(watcher)

    def in_memory(self, session_id: str) -> Session | None:
        """The Session, if it is in memory; opens none."""
        return self._residents.get(session_id)

    @asynccontextmanager
    async def open(self, session_id: str) -> AsyncIterator[SessionHandle]:
        """A Session for use in this process, kept in memory until the block ends. Raises RequestError.

        Where it fails meanwhile the handle stays good: the next verb opens the Session again, and it is kept again.
        """
        with await self._residents.hold(session_id) as holding:
            yield SessionHandle(self, session_id, holding, self._env)


def _check_positive(name: str, value: int) -> None:
    if type(value) is not int or value < 1:
        raise RequestError("invalid_argument", f"{name}: expected an integer >= 1", field=name)
