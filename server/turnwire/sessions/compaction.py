"""Compaction in a Session: when it is due, and the Action that records it (C2, M9).

The work is a task in the background, one at a time; what came of it is a job of the Session. Turns go on meanwhile,
but for a Step that the model has refused as too long: it waits for the outcome.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct

from turnwire.context.compaction import Compacted
from turnwire.context.composer import HistoryBounds
from turnwire.models.base import ModelError
from turnwire.sessions.actions import action, record
from turnwire.sessions.background import ask
from turnwire.sessions.mailbox import Chore
from turnwire.store.base import ConstraintViolated, NotFound, StoreUnavailable
from turnwire_protocol.parts import ActionPart

if TYPE_CHECKING:
    from turnwire.sessions.session import Session

GROWTH: Final = 1.05
"""By how much the input must have grown before a compaction that came to nothing is tried again."""

Then = Callable[[bool], Awaitable[None]]
"""What waits for a compaction; it is told whether the history has become shorter."""

_log = logging.getLogger(__name__)


class _Outcome(Struct, kw_only=True, frozen=True):
    compacted: Compacted | None = None
    error: str | None = None


class Compaction:
    """The compaction of one Session; a part of the Session, in its task."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._env = session.env
        self._input_tokens = 0
        """What the last Step's model call has read."""
        self._not_below = 0.0
        """Up to how many tokens it is not tried again."""
        self._then: Then | None = None
        self.running = False

    def reported(self, input_tokens: int) -> None:
        """A Step has ended, whose successor will read about this many tokens."""
        self._input_tokens = input_tokens

    def start_if_due(self) -> None:
        """Between Steps and after Turns: begins in the background when the model's window is nearly full."""
        tokens = self._input_tokens
        if not self.running and tokens > self._not_below and self._env.composer.is_due(tokens):
            self._start(force=False)

    def require(self, then: Then) -> None:
        """The running Turn cannot go on with this history. `then` is called when it has been compacted, or cannot be.

        A compaction that is under way counts.
        """
        self._then = then
        if not self.running:
            self._start(force=True)

    def _start(self, *, force: bool) -> None:
        self.running = True
        self._session.nursery.start_soon(self._run, self._session.loop.bounds(), self._input_tokens, force)

    async def _run(self, bounds: HistoryBounds, input_tokens: int, force: bool) -> None:
        try:
            outcome = _Outcome(
                compacted=await self._env.composer.advance_context(
                    bounds,
                    partial(ask, self._session, "compaction"),
                    now=self._env.now(),
                    input_tokens=input_tokens,
                    force=force,
                )
            )
        except ModelError as error:
            outcome = _Outcome(error=error.message)
        except (StoreUnavailable, ConstraintViolated, NotFound) as error:
            outcome = _Outcome(error=str(error))
        except Exception as error:  # noqa: BLE001 - C2: a compaction that fails, fails nothing else
            _log.exception("the compaction of session %(session_id)s failed", {"session_id": self._session.session_id})
            outcome = _Outcome(error=f"the compaction failed: {type(error).__name__}")
        self._session.mailbox.post(Chore(partial(self._ended, outcome, input_tokens)))

    async def _ended(self, outcome: _Outcome, input_tokens: int) -> None:
        self.running = False
        self._not_below = 0.0 if outcome.compacted is not None else input_tokens * GROWTH
        self._input_tokens = 0
        part = self._action(outcome)
        if part is not None:
            await self._record(part)
        then, self._then = self._then, None
        if then is not None:
            await then(outcome.compacted is not None)

    async def _record(self, part: ActionPart) -> None:
        """Stores the Action, later if the store does not work now."""
        try:
            await record(self._session, [part])
        except StoreUnavailable as error:
            _log.error(
                "a compaction of session %(session_id)s cannot be recorded yet: %(error)s",
                {"session_id": self._session.session_id, "error": error},
            )
            self._session.post_later(partial(self._record, part))

    def _action(self, outcome: _Outcome) -> ActionPart | None:
        data: Any = UNSET
        if outcome.error is not None:
            title, state, description = "The conversation could not be summarised", "failed", outcome.error
        elif outcome.compacted is not None:
            done = outcome.compacted
            title, state, description = "Earlier messages were summarised for the model", "completed", None
            data = {"through_sequence": done.through_sequence, "messages": done.messages}
        else:
            return None
        return action(
            self._env,
            "context-compaction",
            title,
            state="failed" if state == "failed" else "completed",
            description=description,
            data=data,
        )
