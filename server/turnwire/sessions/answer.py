"""The answer: how a running Turn's model calls become Parts, Messages and Mutations (S1-S4, S8, T5, T6).

Runs in the Session's task, but for the calls themselves: one at a time runs in a task of its own and feeds events into
the Session's mailbox. What comes from a call that is no longer the current one is dropped, so nothing that hangs can
hold a Turn open. When Turns start and finish is `loop`.
"""

import logging
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import trio
from msgspec import UNSET

from turnwire.context.composer import HistoryBounds
from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelError, ModelRequest, StepEnd
from turnwire.models.timeouts import with_timeouts
from turnwire.sessions.projection import LiveText, TextKind
from turnwire.sessions.steps import Step
from turnwire.sessions.turns import CallEnded, ModelCall, Turn
from turnwire.store.base import SaveMessage, StoreUnavailable
from turnwire_protocol.mutations import DeltaMutation, ModelRequestWarning, PartMutation, TurnError

if TYPE_CHECKING:
    from turnwire.sessions.loop import TurnLoop
    from turnwire.sessions.session import Session

_log = logging.getLogger(__name__)


class Answer:
    """What the model says in the Turns of one Session; a part of the Session, in its task."""

    def __init__(self, session: "Session", loop: "TurnLoop") -> None:
        self._session = session
        self._loop = loop
        self._env = session.env

    def begin_step(self, turn: Turn) -> None:
        """Starts the first attempt at the Turn's next Step, on the history as it is stored now."""
        history = HistoryBounds(
            session_id=self._session.session_id,
            through_sequence=self._session.record.message_count,
            exclude_turns=frozenset(queued.turn_id for queued in self._loop.queue),
        )
        self._start_call(turn, ModelCall(Step(self._env.new_id("step"), 1), history, delay_ms=0))

    def _start_call(self, turn: Turn, call: ModelCall) -> None:
        turn.call = call
        self._session.nursery.start_soon(self._run_call, call)

    async def _run_call(self, call: ModelCall) -> None:
        """The task of one model call: its events go into the mailbox, and at last how it ended."""
        with call.scope:
            await trio.sleep(call.delay_ms / 1000)
            error: ModelError | None = None
            try:
                await self._feed_events(call)
            except ModelError as failure:
                error = failure
            except StoreUnavailable as failure:
                error = ModelError("internal", f"the history cannot be read now: {failure}")
            except Exception as failure:  # noqa: BLE001 - any fault of a provider fails its Turn, not the Session
                _log.exception("the model provider %s failed", self._env.provider.name)
                error = ModelError("internal", f"the model provider failed: {type(failure).__name__}", retryable=False)
            await self._session.mailbox.feed(call, CallEnded(error))

    async def _feed_events(self, call: ModelCall) -> None:
        model = self._session.record.config.model
        request = ModelRequest(
            model=None if model is UNSET else model,
            messages=await self._env.composer.compose(call.history),
            key=call.step.step_id,
            attempt=call.step.attempt,
        )
        limits = self._env.limits
        stream = with_timeouts(
            self._env.provider.stream(request),
            first_event=limits.first_event_seconds,
            idle=limits.idle_event_seconds,
            total=limits.call_seconds,
        )
        async with aclosing(stream) as events:
            async for event in events:
                await self._session.mailbox.feed(call, event)

    async def handle_events(self, events: Sequence[tuple[object, object]]) -> None:
        """Applies what the current model call produced, and publishes what that changes (S1)."""
        for source, event in events:
            turn = self._loop.active
            call = turn.call if turn is not None and turn.closing is None else None
            if turn is None or call is None or call is not source:
                continue  # of a call that was stopped or has failed already
            await self._handle_event(turn, call, event)

    async def _handle_event(self, turn: Turn, call: ModelCall, event: object) -> None:
        try:
            try:
                await self._apply(turn, call, event)
            except ModelError as error:
                await self._fail_step(turn, call, error)
        except StoreUnavailable as error:
            await self._loop.close_turn(
                turn, "failed", TurnError("unavailable", f"the answer cannot be stored: {error}")
            )

    async def _apply(self, turn: Turn, call: ModelCall, event: object) -> None:
        """Raises ModelError when the call has failed, StoreUnavailable."""
        step = call.step
        match event:
            case BlockStart():
                step.start(event)
            case BlockDelta():
                await self._append(turn, step, event)
            case BlockEnd():
                step.end(event)
            case StepEnd():
                step.finish(event)
            case CallEnded(error=None):
                await self._loop.close_turn(turn, "completed", None)
            case CallEnded(error=ModelError() as error):
                raise error
            case _:
                raise ModelError("malformed_stream", f"unknown model event {type(event).__name__}", retryable=False)

    async def _append(self, turn: Turn, step: Step, event: BlockDelta) -> None:
        kind = step.kind(event)
        if not event.text:
            return
        self._finish_ended(turn, step)
        projection = self._session.projection
        if projection is not None and projection.json_bytes + len(event.text) > self._env.limits.message_bytes:
            await self._roll_over(turn, step)
            projection = None
        part = step.part(event.block)
        if projection is None or part is None:
            await self._begin_part(turn, step, event, kind)
            return
        projection.append(part, event.text)
        session = self._session
        session.publish(
            DeltaMutation(
                **session.envelope(),
                type=kind,
                message_id=projection.message_id,
                revision=projection.bump(),
                turn_id=turn.turn_id,
                part_id=part.part_id,
                delta=event.text,
            )
        )

    def _finish_ended(self, turn: Turn, step: Step) -> None:
        """Says that Parts are done whose block has ended, once more text follows.

        Not at the end of the block: mostly the Step ends with it, and then the committed Message says so in any case,
        so that a plain answer does not travel once more.
        """
        for part in step.take_ended():
            part.finish()
            self._publish_part(turn, part)

    async def _begin_part(self, turn: Turn, step: Step, event: BlockDelta, kind: TextKind) -> None:
        """The first text of a block: a Part, and with a Message's first Part its row (M10)."""
        session = self._session
        projection = session.projection
        # The first Part makes the row, and a stand-in is replaced by a Message that must be stored to be complete (T6).
        checkpoint = projection is None or projection.stand_in
        if projection is None:
            projection = session.new_projection(turn.turn_id)
        part = projection.begin_text(part_id=self._env.new_id("part"), step_id=step.step_id, kind=kind, text=event.text)
        step.bind(event.block, part)
        if not checkpoint:
            self._publish_part(turn, part)
            return
        message = projection.candidate(updated_at=self._env.now())
        await session.commit([SaveMessage(message)])
        session.projection = projection
        projection.committed(message)
        session.publish_message(message)

    def _publish_part(self, turn: Turn, part: LiveText) -> None:
        session = self._session
        projection = session.projection
        assert projection is not None
        session.publish(
            PartMutation(
                **session.envelope(),
                type=part.kind,
                message_id=projection.message_id,
                revision=projection.bump(),
                turn_id=turn.turn_id,
                part_id=part.part_id,
                part=part.part(),
            )
        )

    async def _roll_over(self, turn: Turn, step: Step) -> None:
        """Closes a full Message; the Turn's later output opens the next one (W10)."""
        session = self._session
        assert session.projection is not None
        message = session.projection.closed(updated_at=self._env.now())
        await session.commit([SaveMessage(message)])
        step.roll_over()
        session.projection = None
        session.publish_message(message)

    async def _fail_step(self, turn: Turn, call: ModelCall, error: ModelError) -> None:
        """Says what failed, then tries again or fails the Turn (T5, T6, S8)."""
        call.scope.cancel()
        turn.call = None
        delay = None if call.step.rolled_over else self._env.retry.delay_ms(call.step.attempt, error, self._env.random)
        session = self._session
        session.publish(
            ModelRequestWarning(
                **session.envelope(),
                request_kind="turn",
                turn_id=turn.turn_id,
                code=error.code,
                message=error.message,
                retryable=error.retryable,
                attempt=call.step.attempt,
                max_attempts=self._env.retry.max_attempts,
                will_retry=delay is not None,
                retry_in_ms=UNSET if delay is None else delay,
            )
        )
        if delay is None:
            if error.code == "malformed_stream":
                await self._roll_back(call.step)
            await self._loop.close_turn(turn, "failed", TurnError(error.code, error.message))
            return
        await self._roll_back(call.step)
        self._start_call(turn, ModelCall(Step(call.step.step_id, call.step.attempt + 1), call.history, delay))

    async def _roll_back(self, step: Step) -> None:
        """Takes back what the failed attempt has shown, by a corrective `message` (T6). Raises StoreUnavailable."""
        session = self._session
        if session.projection is None or not session.projection.has_step(step.step_id):
            return
        projection = session.projection.without_step(step.step_id)
        message = projection.candidate(updated_at=self._env.now())
        await session.commit([SaveMessage(message)])
        session.projection = projection
        projection.committed(message)
        session.publish_message(message)
