"""Attempts: how each Step of a Turn is asked of the model, and what happens when that fails (T5, T6, S8).

Runs in the Session's task. A failed attempt is told, taken back and tried again, or ends the Turn. What the model says
meanwhile is `answer`; the calls as tasks are `model_calls`.
"""

from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET

from turnwire.models.base import ModelError
from turnwire.sessions.model_calls import run_call
from turnwire.sessions.steps import Step
from turnwire.sessions.turns import ModelCall, Turn
from turnwire.store.base import StoreUnavailable
from turnwire_protocol.mutations import ModelRequestWarning, TurnError

if TYPE_CHECKING:
    from turnwire.sessions.loop import TurnLoop
    from turnwire.sessions.session import Session


class Attempts:
    """The model calls of the Turns of one Session; a part of the Session, in its task."""

    def __init__(self, session: "Session", loop: "TurnLoop") -> None:
        self._session = session
        self._loop = loop
        self._env = session.env

    def begin_step(self, turn: Turn) -> None:
        """Starts the first attempt at the Turn's next Step, on the history as it is stored now."""
        turn.steps += 1
        turn.unread = 0
        self._session.compaction.start_if_due()
        self._start_call(turn, ModelCall(Step(self._env.new_id("step"), 1), self._loop.bounds(), delay_ms=0))

    def _start_call(self, turn: Turn, call: ModelCall) -> None:
        turn.call = call
        self._session.nursery.start_soon(run_call, self._session, call)

    async def fail(self, turn: Turn, call: ModelCall, error: ModelError) -> None:
        """Says what failed, then tries again or fails the Turn (T5, T6, S8)."""
        call.scope.cancel()
        turn.call = None
        # After a roll-over what was said stands in a closed Message, which nothing changes any more (M5): another
        # attempt would say it all again behind it, and one that goes on from there would be another answer. So the
        # Turn fails, whatever the failure; the next Turn's first Step is what a shorter history helps.
        if error.code == "context_length" and not call.compacted and not call.step.rolled_over:
            self._session.compaction.require(partial(self._compacted, turn, call, error))
            return
        delay = None if call.step.rolled_over else self._env.retry.delay_ms(call.step.attempt, error, self._env.random)
        self._warn(turn, call, error, delay)
        if delay is not None:
            await self._roll_back(call.step)
            self._try_again(turn, call, delay)
            return
        if error.code == "malformed_stream":
            turn.discarded = call.step.step_id
        await self._loop.close_turn(turn, "failed", TurnError(error.code, error.message))

    async def _compacted(self, turn: Turn, call: ModelCall, error: ModelError, shorter: bool) -> None:
        """The history was too long for the Step: it is tried once more with a shorter one, or fails (C2)."""
        if self._loop.active is not turn or turn.closing is not None:
            return
        self._warn(turn, call, error, 0 if shorter else None)
        failure = TurnError(error.code, error.message)
        if shorter:
            try:
                await self._roll_back(call.step)
            except StoreUnavailable as fault:
                failure = unstorable(fault)
            else:
                call.compacted = True
                self._try_again(turn, call, 0)
                return
        await self._loop.close_turn(turn, "failed", failure)

    def _try_again(self, turn: Turn, call: ModelCall, delay_ms: int) -> None:
        step = Step(call.step.step_id, call.step.attempt + 1)
        self._start_call(turn, ModelCall(step, call.history, delay_ms, compacted=call.compacted))

    def _warn(self, turn: Turn, call: ModelCall, error: ModelError, delay: int | None) -> None:
        session = self._session
        self._env.counts.warned(error.code)
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

    async def _roll_back(self, step: Step) -> None:
        """Takes back what the failed attempt has shown, by a corrective `message` (T6). Raises StoreUnavailable."""
        session = self._session
        if session.projection is None or not session.projection.has_step(step.step_id):
            return
        await session.checkpoint(session.projection.without_step(step.step_id))


def unstorable(error: StoreUnavailable) -> TurnError:
    """How a Turn fails whose answer the store does not take."""
    return TurnError("unavailable", f"the answer cannot be stored: {error}")
