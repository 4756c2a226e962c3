"""Admission: where a prompt goes, decided and stored in one step (T1, S9).

Runs in the Session's task. What a prompt is made of is `prompts`; how its Turn goes on is `loop`.
"""

from typing import TYPE_CHECKING

from msgspec import UnsetType

from turnwire.sessions.prompts import Prompt, PromptOptions, accepted_answer, receipt_of
from turnwire.sessions.turns import Turn
from turnwire.store.base import Operation, SaveMessage, SaveTurn, TurnRecord
from turnwire_protocol import frames
from turnwire_protocol.codes import RequestError
from turnwire_protocol.messages import UserMessage

if TYPE_CHECKING:
    from turnwire.sessions.loop import TurnLoop
    from turnwire.sessions.session import Session


class Admission:
    """Takes in the prompts of one Session; a part of the Session, in its task."""

    def __init__(self, session: "Session", loop: "TurnLoop") -> None:
        self._session = session
        self._loop = loop
        self._env = session.env

    async def prompt(self, prompt: Prompt, options: PromptOptions) -> frames.Receipt:
        """Stores a prompt, and decides where it goes (T1, S9).

        Into a Turn of its own when the Session is idle (`started`); into the running Turn when it names that one by
        `expected_turn_id` (`steered`: its next Step reads it, M8); else behind those that wait (`queued`).

        Raises RequestError `conflict`, `rate_limited`, `draining` or `too_large`, StoreUnavailable.
        """
        session = self._session
        known = await self._env.store.request(session.session_id, prompt.client_request_id)
        if known is not None:
            return receipt_of(known, prompt)
        self._admit(options)
        now = self._env.now()
        steered = self._loop.active if options.expected_turn_id else None
        turn_id = steered.turn_id if steered else self._env.new_id("turn")
        message = prompt.message(
            session_id=session.session_id,
            turn_id=turn_id,
            message_id=self._env.new_id("msg"),
            sequence=session.record.message_count + 1,
            now=now,
            max_bytes=self._env.limits.message_bytes,
        )
        receipt = frames.Receipt(
            outcome="steered" if steered else "queued" if self._loop.busy else "started",
            turn_id=turn_id,
            message_id=message.message_id,
            sequence=message.sequence,
        )
        accepted = accepted_answer(prompt, receipt, session.session_id, now)
        stored: list[Operation] = [*session.details.brought_back(), SaveMessage(message), accepted]
        if steered is not None:
            await session.commit(stored)
            steered.unread += 1
            session.publish_message(message)
        else:
            await self._accept(message, stored, starts=not self._loop.busy)
        return receipt

    async def _accept(self, message: UserMessage, stored: list[Operation], *, starts: bool) -> None:
        """A prompt with a Turn of its own: it starts now, or waits."""
        session = self._session
        assert not isinstance(message.turn_id, UnsetType)
        record = TurnRecord(
            turn_id=message.turn_id,
            session_id=session.session_id,
            status="running" if starts else "queued",
            created_at=message.created_at,
            started_at=message.created_at if starts else None,
        )
        await session.commit([SaveTurn(record), *stored])
        turn = Turn(record, message.message_id, message.sequence)
        if starts:
            self._loop.active = turn
            session.publish(self._loop.start_of(turn))
            session.publish_message(message)
            self._loop.attempts.begin_step(turn)
        else:
            self._loop.queue.append(turn)
            session.publish_message(message)

    def _admit(self, options: PromptOptions) -> None:
        active, queue = self._loop.active, self._loop.queue
        if self._env.phase.draining and not options.expected_turn_id:
            raise RequestError("draining", "the server is about to restart; send the prompt again after it")
        if options.if_idle and self._loop.busy:
            raise RequestError("conflict", "if_idle: a turn is running", field="if_idle")
        if options.expected_turn_id:
            running = active.turn_id if active and active.closing is None else "none"
            if running != options.expected_turn_id:
                fault = f"expected_turn_id: the running turn is {running}"
                raise RequestError("conflict", fault, field="expected_turn_id")
        waiting = active.unread if active and options.expected_turn_id else len(queue)
        if waiting >= self._env.limits.queued_prompts:
            raise RequestError("rate_limited", f"{waiting} prompts are waiting already")
