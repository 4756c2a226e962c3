"""A live Session: its order, its projection and its channel, changed by one task only (W4, S3-S5, T1-T4).

Everything that changes a Session runs as a job or a model event in `run`: it decides, commits where a commit is due,
then changes memory and publishes without waiting in between. So the order on disk, the order of numbers and the order
in which watchers hear of it are one order, and a snapshot can be taken between any two steps without a gap.

How Turns go on is `loop`, who joins gets what `joining` says; who opens and closes Sessions is `residents`.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, TypeVar

import trio
from msgspec import structs

from turnwire.sessions.channel import Channel
from turnwire.sessions.compaction import Compaction
from turnwire.sessions.details import Details
from turnwire.sessions.environment import Environment
from turnwire.sessions.faults import store_faults, too_late
from turnwire.sessions.interactions import Interactions
from turnwire.sessions.joining import Joining
from turnwire.sessions.loop import TurnLoop
from turnwire.sessions.mailbox import Chore, Job, Mailbox
from turnwire.sessions.preview import Preview
from turnwire.sessions.projection import Projection
from turnwire.sessions.snapshots import session_frame
from turnwire.sessions.titles import Titles
from turnwire.store.base import (
    Operation,
    SaveMessage,
    SessionRecord,
    UpdateSession,
)
from turnwire_protocol.codes import RequestError
from turnwire_protocol.messages import AgentMessage, Message, UserMessage
from turnwire_protocol.messages import Session as SessionFrame
from turnwire_protocol.mutations import MessageMutation, Mutation

T = TypeVar("T")


class Session:
    """One Session while it is in memory. Made and run by the registry."""

    def __init__(self, record: SessionRecord, environment: Environment) -> None:
        self.env = environment
        self.record = record
        self.session_id = record.session_id
        self.channel = Channel(record.session_id, environment.new_id("epoch"))
        self.mailbox = Mailbox(environment.limits.pending_events)
        self.projection: Projection | None = None
        self.loop = TurnLoop(self)
        self.interactions = Interactions(self)
        self.compaction = Compaction(self)
        self.details = Details(self)
        self.joining = Joining(self)
        self.titles = Titles(self)
        self.nursery: trio.Nursery
        self._closed: Exception | None = None
        self._busy_since: float | None = None
        """Since when a job or an event is being worked on: the Session's task must not be ended now."""
        self._rested = trio.Event()
        """Set when that has been done."""
        self._postponed = 0
        """How many things are to be tried again later."""
        self._preview = Preview(record)

    # ------------------------------------------------------------------------------------------------- the one task

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Owns the Session until it is cancelled by the registry."""
        try:
            async with trio.open_nursery() as self.nursery:
                task_status.started()
                while True:
                    item = await self.mailbox.take()
                    self._busy_since = trio.current_time()
                    self._rested = trio.Event()
                    if isinstance(item, Job):
                        await item.run()
                    else:
                        await self.loop.answer.handle_events(item)
                    self._busy_since = None
                    self._rested.set()
        finally:
            self.close(RequestError("unavailable", "the session is being closed"))

    async def do(self, action: Callable[[], Awaitable[T]], *, lasting: Hashable | None = None) -> T:
        """Runs `action` in the Session's task and gives its result.

        Raises what it may answer with, with `StoreUnavailable` as RequestError `unavailable`, and `internal` for any
        fault, which fails the Session, too. A caller that is cancelled stops waiting; the action runs all the same.

        A store that does not answer holds the Session's task up, for a commit is never given up (S9). So nobody waits
        longer than `limits.answer_seconds`, but gets `unavailable` then. An action that has not begun by that time is
        not run any more, unless it is `lasting`: under this name it is done in any case, and once for all who ask for
        it while it waits.
        """
        if self._closed is not None:
            raise self._closed
        if self._held_up and lasting is None:
            raise too_late(self.env.limits.answer_seconds)
        job: Job[T] | None = None if lasting is None else self.mailbox.pending(lasting)
        if job is None:
            job = Job(action, lasting=lasting)
            self.mailbox.post(job)
        with store_faults(self.session_id), trio.move_on_after(self.env.limits.answer_seconds):
            return await job.wait()
        if lasting is None:
            self.mailbox.withdraw(job)
        raise too_late(self.env.limits.answer_seconds)

    @property
    def _held_up(self) -> bool:
        """Whether the Session's task waits longer than anybody may wait for it."""
        since = self._busy_since
        return since is not None and trio.current_time() - since >= self.env.limits.answer_seconds

    def post_later(self, action: Callable[[], Awaitable[None]]) -> None:
        """Tries again, in the Session's task, what the store could not do just now."""

        async def post() -> None:
            await trio.sleep(self.env.limits.store_retry_seconds)
            self._postponed -= 1
            self.mailbox.post(Chore(action))

        self._postponed += 1
        self.nursery.start_soon(post)

    def close(self, error: Exception) -> None:
        """From now on every job is answered with `error`, and no snapshot is kept. Idempotent."""
        if self._closed is None:
            self._closed = error
        for job in self.mailbox.drain_jobs():
            job.abandon(error)
        self.joining.forget()
        self._rested.set()

    @property
    def idle(self) -> bool:
        """Nobody needs the Session in memory: no Turn, watcher or job, nor anything in the background."""
        needed = self.loop.busy or self.channel.watched or self.working or self._postponed
        return not (needed or self.compaction.running or self.titles.running)

    @property
    def working(self) -> bool:
        """Something that was asked of it, or that a model said, is being worked on, or waits for that."""
        return self._busy_since is not None or not self.mailbox.empty

    async def until_rested(self) -> None:
        """Waits until what is being worked on now is done, or the Session has been closed."""
        if self._busy_since is not None and self._closed is None:
            await self._rested.wait()

    # ------------------------------------------------------------------------------------- commit, then tell everyone

    async def commit(self, operations: Sequence[Operation]) -> None:
        """Stores all operations, then takes over what they change in the Session's row.

        Raises StoreUnavailable; then nothing was stored and nothing has changed. Shielded: whether a commit that was
        begun has happened must be known before anything else is decided (S9).
        """
        with trio.CancelScope(shield=True):
            await self.env.store.commit(operations)
        for operation in operations:
            if isinstance(operation, SaveMessage):
                self._count(operation.message)
            elif isinstance(operation, UpdateSession):
                self._take_over(operation.record)
        self.joining.stored()

    def _count(self, message: Message) -> None:
        self._preview.stored(message)
        self.record = structs.replace(
            self.record,
            message_count=max(self.record.message_count, message.sequence),
            preview=self._preview.text,
            updated_at=max(self.record.updated_at, message.updated_at),
        )

    def _take_over(self, changed: SessionRecord) -> None:
        self.joining.changed()
        self.record = structs.replace(
            self.record,
            title=changed.title,
            config=changed.config,
            archived_at=changed.archived_at,
            updated_at=max(self.record.updated_at, changed.updated_at),
        )

    def publish(self, mutation: Mutation, *, internal: bool = False) -> None:
        self.joining.changed()
        self.channel.publish(mutation, internal=internal)

    def publish_message(self, message: UserMessage | AgentMessage) -> None:
        """The `message` Mutation of a Message that was just committed (S3, S4)."""
        self.publish(
            MessageMutation(
                **self.envelope(),
                type="user" if isinstance(message, UserMessage) else "agent",
                message_id=message.message_id,
                sequence=message.sequence,
                revision=message.revision,
                turn_id=message.turn_id,
                message=message,
            ),
            internal=message.visibility == "internal",
        )

    async def checkpoint(self, draft: Projection, *operations: Operation) -> None:
        """Stores the draft and what goes with it in one commit; then it is the projection, and is published (S3, P6).

        Raises StoreUnavailable; then everything is as before.
        """
        message = draft.candidate(updated_at=self.env.now())
        await self.commit([SaveMessage(message), *operations])
        draft.committed(message)
        self.projection = draft
        self.publish_message(message)

    async def close_message(self) -> None:
        """Closes the open Message, if there is one, while its Turn goes on; later output opens the next one (M8)."""
        if self.projection is not None:
            message = self.projection.closed(updated_at=self.env.now())
            await self.commit([SaveMessage(message)])
            self.projection = None
            self.publish_message(message)

    def envelope(self) -> dict[str, Any]:
        """The fields that every Mutation has (L2)."""
        return {
            "mutation_id": self.env.new_id("mut"),
            "session_id": self.session_id,
            "created_at": self.env.now(),
        }

    def new_projection(self, turn_id: str) -> Projection:
        return Projection(
            message_id=self.env.new_id("msg"),
            session_id=self.session_id,
            turn_id=turn_id,
            sequence=self.record.message_count + 1,
            created_at=self.env.now(),
        )

    def frame(self) -> SessionFrame:
        """The Session as clients see it now."""
        return session_frame(self.record, executing=self.loop.executing)
