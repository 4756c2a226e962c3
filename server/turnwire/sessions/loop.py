"""The loop: how a Session's Turns wait, start, go on and finish (T1-T4, S3, S8).

Runs in the Session's task only. A Turn is `queued` (stored, waiting), running, or finished exactly once. How prompts
become Turns is `admission`, how a Step of one is asked of the model `attempts`, what the model says `answer`.
"""

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET

from turnwire.context.composer import HistoryBounds
from turnwire.sessions.admission import Admission
from turnwire.sessions.answer import Answer
from turnwire.sessions.attempts import Attempts
from turnwire.sessions.tool_calls import ToolCalls
from turnwire.sessions.turns import Turn, TurnResult, changes_part, error_part
from turnwire.store.base import Operation, SaveMessage, SaveTurn, StoreUnavailable, TurnRecord
from turnwire.tools.base import FileDiffSummary
from turnwire_protocol import frames
from turnwire_protocol.messages import AgentMessage
from turnwire_protocol.mutations import (
    FileDiff,
    TurnError,
    TurnFinish,
    TurnStart,
    TurnStatus,
)
from turnwire_protocol.parts import AgentPart

if TYPE_CHECKING:
    from turnwire.sessions.session import Session

_log = logging.getLogger(__name__)

STOPPED = TurnError("stopped", "The turn was stopped.")


class TurnLoop:
    """The Turns of one Session; a part of the Session, in its task."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._env = session.env
        self.admission = Admission(session, self)
        self.answer = Answer(session, self)
        self.attempts = Attempts(session, self)
        self.tools = ToolCalls(session, self)
        self.active: Turn | None = None
        self.queue: deque[Turn] = deque()

    @property
    def executing(self) -> bool:
        return self.active is not None

    @property
    def busy(self) -> bool:
        return self.executing or bool(self.queue)

    def active_frame(self) -> frames.ActiveTurn | None:
        if self.active is None:
            return None
        return frames.ActiveTurn(turn_id=self.active.turn_id, started_at=self.active.record.started_at or 0)

    def queue_frame(self) -> list[frames.QueuedPrompt]:
        return [frames.QueuedPrompt(turn.turn_id, turn.message_id) for turn in self.queue]

    def find(self, turn_id: str) -> Turn | None:
        """The running or queued Turn of this id."""
        turns = [self.active, *self.queue] if self.active else [*self.queue]
        return next((turn for turn in turns if turn.turn_id == turn_id), None)

    def bounds(self) -> HistoryBounds:
        """The history as it is stored now, without what waits."""
        active = self.active
        return HistoryBounds(
            session_id=self._session.session_id,
            through_sequence=self._session.record.message_count,
            exclude_turns=frozenset(queued.turn_id for queued in self.queue),
            turn_id=None if active is None else active.turn_id,
            turn_sequence=1 if active is None else active.sequence,
        )

    # ------------------------------------------------------------------------------------------------------- running

    async def _start_next(self) -> None:
        """The oldest queued prompt becomes the running Turn, unless the server is about to stop (W8)."""
        while self.queue and self.active is None and not self._env.phase.draining:
            turn = self.queue[0]
            now = self._env.now()
            record = TurnRecord(
                turn_id=turn.turn_id,
                session_id=self._session.session_id,
                status="running",
                created_at=turn.record.created_at,
                started_at=now,
            )
            try:
                await self._session.commit([SaveTurn(record)])
            except StoreUnavailable:
                self._session.post_later(self._start_next)
                return
            turn.record = record
            self.queue.popleft()
            self.active = turn
            self._session.publish(self.start_of(turn))
            self.attempts.begin_step(turn)

    def start_of(self, turn: Turn) -> TurnStart:
        """Its `created_at` is the Turn's `started_at`: who saw it start and who joins later agree (W4)."""
        envelope = {**self._session.envelope(), "created_at": turn.record.started_at}
        return TurnStart(**envelope, turn_id=turn.turn_id)

    async def step_done(self, turn: Turn, *, called_tools: bool) -> None:
        """A Step and all of its tools have ended: the next Step, or the Turn's end (M8). Raises StoreUnavailable."""
        if not called_tools and not turn.unread:
            await self.close_turn(turn, "completed", None)
        elif turn.steps >= self._env.limits.steps:
            reason = TurnError("too_many_steps", f"the turn was ended after {turn.steps} steps")
            await self.close_turn(turn, "failed", reason)
        else:
            if turn.unread:
                await self._session.close_message()
            self.attempts.begin_step(turn)

    # ---------------------------------------------------------------------------------------------------------- stop

    async def stop(self, *, turn_id: str | None = None, reason: TurnError = STOPPED) -> frames.StopResult:
        """Ends the running Turn and cancels the queued prompts, in one commit (T3, S8).

        With `turn_id` only that Turn: the running one as without it, a queued one alone; any other is `idle`.
        Raises StoreUnavailable; then the Turn goes on.
        """
        named = self.find(turn_id) if turn_id is not None else self.active
        if turn_id is not None and named is None:
            return frames.StopResult(stopped=False, cancelled_prompts=0, reason="idle")
        cancelled = [named] if named is not None and named is not self.active else list(self.queue)
        active = self.active if named is self.active else None
        if active is None and not cancelled:
            return frames.StopResult(stopped=False, cancelled_prompts=0, reason="idle")
        operations: list[Operation] = [self._finish_operation(turn, "stopped", reason) for turn in cancelled]
        closed, changes = None, None
        if active is not None:
            changes = await active.changes.summarise()
            closed = self._closed_message(active, reason, changes)
            operations = [SaveMessage(closed), self._finish_operation(active, "stopped", reason), *operations]
        await self._session.commit(operations)
        if active is not None:
            self._finished(active, closed, changes, "stopped", reason)
        for turn in cancelled:
            self.queue.remove(turn)
            self._announce(turn, "stopped", reason)
        return frames.StopResult(
            stopped=True,
            turn_id=active.turn_id if active is not None else cancelled[0].turn_id,
            cancelled_prompts=len(cancelled),
            reason="stopped",
        )

    # ------------------------------------------------------------------------------------------------- the Turn's end

    async def close_turn(self, turn: Turn, status: TurnStatus, error: TurnError | None) -> None:
        """Stores the Turn's end with the closed Message in one commit, then tells everyone (T2, S3, S8).

        While the store cannot write, the Turn stays open and its end is tried again.
        """
        turn.closing = (status, error)
        if turn.call is not None:
            turn.call.scope.cancel()
        changes = await turn.changes.summarise()
        operations: list[Operation] = [self._finish_operation(turn, status, error)]
        closed = None
        if self._session.projection is not None or error is not None or changes is not None:
            closed = self._closed_message(turn, error, changes)
            operations.insert(0, SaveMessage(closed))
        try:
            await self._session.commit(operations)
        except StoreUnavailable as failure:
            _log.error(
                "the end of turn %(turn_id)s cannot be stored yet: %(error)s",
                {"turn_id": turn.turn_id, "error": failure},
            )
            self._session.post_later(partial(self._close_again, turn))
            return
        self._finished(turn, closed, changes, status, error)
        await self._start_next()

    async def _close_again(self, turn: Turn) -> None:
        if self.active is turn and turn.closing is not None:
            await self.close_turn(turn, *turn.closing)

    def _finished(
        self,
        turn: Turn,
        closed: AgentMessage | None,
        changes: FileDiffSummary | None,
        status: TurnStatus,
        error: TurnError | None,
    ) -> None:
        """The Turn's end is stored: memory follows, then everyone hears of it. No await in here (K2)."""
        if turn.call is not None:
            turn.call.scope.cancel()
        self.tools.cancel_all()
        self.active = None
        self._session.projection = None
        if closed is not None:
            self._session.publish_message(closed)
        if changes is not None:
            self._publish_changes(turn, changes)
        self._announce(turn, status, error)
        if status == "completed":
            self._session.titles.exchanged()
        self._session.compaction.start_if_due()

    def _announce(self, turn: Turn, status: TurnStatus, error: TurnError | None) -> None:
        turn.result = TurnResult(turn.turn_id, status, error)
        turn.finished.set()
        self._env.counts.turn_finished(status)
        self._session.publish(
            TurnFinish(
                **self._session.envelope(),
                turn_id=turn.turn_id,
                status=status,
                error=UNSET if error is None else error,
            )
        )

    def _publish_changes(self, turn: Turn, changes: FileDiffSummary) -> None:
        """What the Turn's tools have done to files (L5)."""
        self._session.publish(
            FileDiff(
                **self._session.envelope(),
                turn_id=turn.turn_id,
                files=changes.files,
                additions=changes.additions,
                deletions=changes.deletions,
            )
        )

    def interrupted(self) -> None:
        """The Session's task has failed, and recovery has ended its Turns in the store, where who waits finds how."""
        turns = [*([self.active] if self.active else []), *self.queue]
        self.active = None
        self.queue.clear()
        for turn in turns:
            turn.finished.set()

    def _finish_operation(self, turn: Turn, status: TurnStatus, error: TurnError | None) -> SaveTurn:
        record = turn.record
        return SaveTurn(
            TurnRecord(
                turn_id=record.turn_id,
                session_id=record.session_id,
                status=status,
                created_at=record.created_at,
                started_at=record.started_at,
                finished_at=self._env.now(),
                error=error,
            )
        )

    def _closed_message(self, turn: Turn, error: TurnError | None, changes: FileDiffSummary | None) -> AgentMessage:
        """The open Message as it will be closed; a new one just for changes and error where none is open."""
        projection = self._session.projection or self._session.new_projection(turn.turn_id)
        if turn.discarded is not None and projection.has_step(turn.discarded):
            projection = projection.without_step(turn.discarded)
        extra: list[AgentPart] = []
        if changes is not None:
            extra.append(changes_part(self._env, turn, changes))
        if error is not None:
            extra.append(error_part(self._env, error))
        reason = "" if error is None else error.message
        return projection.closed(updated_at=self._env.now(), reason=reason, extra=extra)
