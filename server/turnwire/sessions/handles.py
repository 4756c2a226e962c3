"""The in-process API: a Session and its Turns for code in the server's own process (L1, T1-T4).

The verbs are the wire's, and run through the same registry.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnwire.sessions.faults import store_faults
from turnwire.sessions.session import Callback, Session
from turnwire.sessions.turns import TurnResult
from turnwire.store.base import DEFAULT_PAGE
from turnwire_protocol import frames, messages
from turnwire_protocol.codes import RequestError
from turnwire_protocol.parts import PartInput, TextInput

if TYPE_CHECKING:
    from turnwire.sessions.registry import Registry


class SessionHandle:
    """The in-process API: the same verbs as on the wire (L1, T1-T4)."""

    def __init__(self, registry: "Registry", session: Session) -> None:
        self._registry = registry
        self._session = session
        self.session_id = session.session_id

    def subscribe(self, callback: Callback, *, include_internal: bool = False) -> Callable[[], None]:
        """Live Mutations from now on, without replay; see `Session.subscribe` (L1).

        Raises RequestError when the Session has failed or was deleted since it was opened.
        """
        return self._session.subscribe(callback, include_internal=include_internal)

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
            client_request_id=client_request_id or self._session.env.new_id("req"),
            if_idle=if_idle,
            expected_turn_id=expected_turn_id,
        )
        return TurnHandle(self._registry, self._session, receipt)

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

    def __init__(self, registry: "Registry", session: Session, receipt: frames.Receipt) -> None:
        self._registry = registry
        self._session = session
        self.receipt = receipt
        self.turn_id = receipt.turn_id

    async def finished(self) -> TurnResult:
        """Waits for the Turn's end. Never raises for a failure of model or tool: the result says so (T2).

        Raises RequestError `not_found` when the Session was deleted since, `unavailable` while the store cannot say.
        """
        # After a fault the Session goes on as another object, and with it the Turns that were prompted since.
        session = self._registry.in_memory(self._session.session_id) or self._session
        turn = session.loop.find(self.turn_id)
        if turn is not None:
            await turn.finished.wait()
            return turn.result
        with store_faults(session.session_id):
            record = await session.env.store.turn(self.turn_id)
        if record is None:
            raise RequestError("not_found", f"there is no turn {self.turn_id}", field="turn_id")
        assert record.status != "queued", "an unfinished Turn is in the loop"
        assert record.status != "running", "an unfinished Turn is in the loop"
        return TurnResult(record.turn_id, record.status, record.error)
