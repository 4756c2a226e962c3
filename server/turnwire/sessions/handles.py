"""The in-process API: a Session and its Turns for code in the server's own process (L1, T1-T4).

The verbs are the wire's, and run through the same registry.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnwire.sessions.environment import Environment
from turnwire.sessions.faults import answered
from turnwire.sessions.instructions import TAG
from turnwire.sessions.subscribers import Callback, Holding, Interrupted
from turnwire.sessions.turns import TurnResult
from turnwire.store.base import DEFAULT_PAGE
from turnwire_protocol import frames, messages
from turnwire_protocol.codes import RequestError
from turnwire_protocol.messages import UserMessage
from turnwire_protocol.parts import ContextInput, PartInput, TextInput

if TYPE_CHECKING:
    from turnwire.sessions.registry import Registry


class SessionHandle:
    """The in-process API: the same verbs as on the wire (L1, T1-T4)."""

    def __init__(self, registry: "Registry", session_id: str, holding: Holding, environment: Environment) -> None:
        self.session_id = session_id
        self._registry = registry
        self._holding = holding
        self._env = environment

    def subscribe(
        self, callback: Callback, *, include_internal: bool = False, interrupted: Interrupted | None = None
    ) -> Callable[[], None]:
        """Calls `callback` with every Mutation from now on, in order; returns the idempotent unsubscribe (L1).

        An async callback is awaited in a task of its own, one Mutation after the other; it must be seen to be async
        before it is called. What a callback raises is logged and reaches no one else. `interrupted`, a plain function,
        is told in the same order why Mutations are missing, see `Interruption`; when an async callback falls more than
        `limits.callback_backlog` Mutations behind it is dropped (`lagged`), and that is logged as an error, too.

        Raises RequestError when the Session was deleted since it was opened, or the handle's block has ended.
        """
        return self._holding.subscribe(callback, include_internal=include_internal, interrupted=interrupted)

    async def messages(
        self, *, before_sequence: int | None = None, limit: int = DEFAULT_PAGE, include_internal: bool = False
    ) -> messages.Page:
        """Committed history (M1-M4); see `Registry.messages`."""
        return await self._registry.messages(
            self.session_id, before_sequence=before_sequence, limit=limit, include_internal=include_internal
        )

    async def prompt(
        self,
        content: str | tuple[PartInput, ...],
        *,
        client_request_id: str | None = None,
        if_idle: bool = False,
        expected_turn_id: str | None = None,
    ) -> "TurnHandle":
        """Says something to the agent; see `Registry.prompt` (T1)."""
        receipt = await self._registry.prompt(
            self.session_id,
            parts=(TextInput(content),) if isinstance(content, str) else content,
            client_request_id=client_request_id or self._env.new_id("req"),
            if_idle=if_idle,
            expected_turn_id=expected_turn_id,
        )
        return TurnHandle(self._registry, self.session_id, receipt, self._env)

    async def instruct(self, content: str | tuple[PartInput, ...]) -> UserMessage:
        """Tells the model something that no user said; text as `<instruction>`. See `Registry.instruct` (C3)."""
        parts = (ContextInput(TAG, content),) if isinstance(content, str) else content
        return await self._registry.instruct(self.session_id, parts=parts)

    async def interactions(self) -> frames.InteractionList:
        """See `Registry.interactions` (P7)."""
        return await self._registry.interactions(self.session_id)

    async def respond(
        self, interaction_id: str, *, revision: int, response: dict[str, Any], principal: str = "local"
    ) -> frames.InteractionAnswer:
        """See `Registry.respond` (P7)."""
        return await self._registry.respond(
            self.session_id, interaction_id, revision=revision, response=response, principal=principal
        )

    async def stop(self, *, turn_id: str | None = None) -> frames.StopResult:
        """See `Registry.stop` (T3)."""
        return await self._registry.stop(self.session_id, turn_id=turn_id)


class TurnHandle:
    """Where a prompt went, and how its Turn ends."""

    def __init__(
        self, registry: "Registry", session_id: str, receipt: frames.Receipt, environment: Environment
    ) -> None:
        self.receipt = receipt
        self.turn_id = receipt.turn_id
        self._registry = registry
        self._session_id = session_id
        self._env = environment

    async def finished(self) -> TurnResult:
        """Waits for the Turn's end. Never raises for a failure of model or tool: the result says so (T2).

        Raises RequestError `not_found` when the Session was deleted since, `unavailable` while the store cannot say.
        """
        session = self._registry.in_memory(self._session_id)
        turn = None if session is None else session.loop.find(self.turn_id)
        if turn is not None:
            await turn.finished.wait()
            if turn.result is not None:
                return turn.result
        with answered(self._env.limits.answer_seconds, self._session_id):
            record = await self._env.store.turn(self.turn_id)
        if record is None:
            raise RequestError("not_found", f"there is no turn {self.turn_id}", field="turn_id")
        assert record.status != "queued", "an unfinished Turn is in the loop"
        assert record.status != "running", "an unfinished Turn is in the loop"
        return TurnResult(record.turn_id, record.status, record.error)
