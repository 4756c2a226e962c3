"""Interactions: approvals and questions, and who answered them first (P6, P7).

Runs in the Session's task. An answer is a compare-and-set: it names the Interaction and the revision that the user saw.
The first one counts; whoever comes later is told who won and with what, and changes nothing.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, structs

from turnwire.sessions.projection import Projection
from turnwire.sessions.prompts import digest_of
from turnwire.sessions.responses import checked
from turnwire.sessions.turns import Turn
from turnwire.store.base import RequestRecord, SaveRequest, StoreUnavailable
from turnwire.tools.base import OUTPUT_BYTES
from turnwire.tools.plain import json_size
from turnwire_protocol import lifecycle
from turnwire_protocol.codec import encode_json
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import InteractionAnswer, PendingInteraction
from turnwire_protocol.parts import InteractionPart, InteractionStatus

if TYPE_CHECKING:
    from turnwire.sessions.session import Session

_log = logging.getLogger(__name__)


class Interactions:
    """The Interactions of one Session; a part of the Session, in its task."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._env = session.env

    def pending(self) -> tuple[PendingInteraction, ...]:
        """What waits for the user; only the open Message can hold any."""
        projection = self._session.projection
        if projection is None:
            return ()
        return tuple(
            PendingInteraction(
                interaction_id=part.interaction_id,
                interaction_type=part.interaction_type,
                tool_call_id=part.tool_call_id,
                message_id=projection.message_id,
                part_id=part.part_id,
                revision=part.revision,
                request=part.request,
            )
            for part in projection.interactions()
            if part.status == "pending"
        )

    async def respond(
        self, interaction_id: str, *, revision: int, response: Any, by: str, client_request_id: str | None
    ) -> InteractionAnswer:
        """Answers an Interaction, once (P7).

        Raises RequestError `not_found`, `already_resolved` (with who and what), `conflict` when it has changed since
        it was shown, `invalid_argument` for a response of the wrong shape; StoreUnavailable.
        """
        known = await self._known(interaction_id, response, client_request_id)
        if known is not None:
            return known
        turn, part = await self._find(interaction_id)
        if part.revision != revision:
            raise RequestError("conflict", "revision: the interaction has changed since it was shown", field="revision")
        status, answer = checked(part, response)
        draft, part = self._resolved(part, status, answer, by)
        tool = draft.tool(part.tool_call_id)
        assert tool is not None, "an Interaction belongs to a Tool of its Message"
        if part.interaction_type == "question":
            self._check_size(draft, answer)
        result = InteractionAnswer(status=status, response=answer)
        also = [] if client_request_id is None else [self._remember(part, client_request_id, result)]
        tools = self._session.loop.tools
        if status == "denied":
            reason = answer.get("reason")
            await tools.refuse(turn, draft, tool, f"denied by {by}" + (f": {reason}" if reason else ""), *also)
        elif part.interaction_type == "approval":
            await tools.allow(turn, draft, tool, *also)
        else:
            await tools.answer(turn, draft, tool, answer["answers"], *also)
        return result

    def _check_size(self, draft: Projection, answer: Any) -> None:
        """Refuses answers that a tool could not have for its result either (Z3): they become one."""
        size = json_size(answer)
        if size > OUTPUT_BYTES or draft.exceeds(self._env.limits.held_message_bytes - size):
            raise RequestError(
                "invalid_argument", "response.answers: too large to be kept; answer shorter", field="response.answers"
            )

    async def expire(self, interaction_id: str) -> None:
        """Nobody answered in time; nothing happens when somebody did."""
        turn = self._session.loop.active
        part = self._held(interaction_id)
        if turn is None or turn.closing is not None or part is None or part.status != "pending":
            return
        draft, part = self._resolved(part, "expired", UNSET, UNSET)
        tool = draft.tool(part.tool_call_id)
        assert tool is not None, "an Interaction belongs to a Tool of its Message"
        try:
            await self._session.loop.tools.refuse(turn, draft, tool, "nobody answered in time")
        except StoreUnavailable as error:
            _log.error("interaction %s cannot expire yet: %s", interaction_id, error)
            self._session.post_later(partial(self.expire, interaction_id))

    def _held(self, interaction_id: str) -> InteractionPart | None:
        projection = self._session.projection
        parts = [] if projection is None else projection.interactions()
        return next((part for part in parts if part.interaction_id == interaction_id), None)

    async def _find(self, interaction_id: str) -> tuple[Turn, InteractionPart]:
        """The pending Interaction and its Turn. Raises RequestError for one that is no longer pending, or unknown."""
        part = self._held(interaction_id) or await self._stored(interaction_id)
        if part is None:
            raise RequestError("not_found", f"there is no interaction {interaction_id}", field="interaction_id")
        turn = self._session.loop.active
        if part.status != "pending" or turn is None or turn.closing is not None:
            raise _already_resolved(part)
        return turn, part

    async def _stored(self, interaction_id: str) -> InteractionPart | None:
        stored = await self._env.store.interaction(self._session.session_id, interaction_id)
        return None if stored is None else msgspec.json.decode(stored.text, type=InteractionPart)

    def _resolved(
        self, part: InteractionPart, status: InteractionStatus, response: Any, by: Any
    ) -> tuple[Projection, InteractionPart]:
        """A draft in which the Interaction has ended, and that Part."""
        projection = self._session.projection
        assert projection is not None, "a pending Interaction is in the open Message"
        draft = projection.draft()
        part = structs.replace(
            part,
            status=lifecycle.advance(lifecycle.INTERACTION, part.status, status),
            revision=draft.revision + 1,
            response=response,
            resolved_by=by,
            resolved_at=self._env.now(),
        )
        draft.replace(part)
        return draft, part

    async def _known(
        self, interaction_id: str, response: Any, client_request_id: str | None
    ) -> InteractionAnswer | None:
        """The answer that this very request got before (S9)."""
        if client_request_id is None:
            return None
        known = await self._env.store.request(self._session.session_id, client_request_id)
        if known is None:
            return None
        if known.digest != digest_of((interaction_id, response)):
            raise RequestError(
                "conflict", "client_request_id: it was used for another request", field="client_request_id"
            )
        return msgspec.json.decode(known.answer.text, type=InteractionAnswer)

    def _remember(self, part: InteractionPart, client_request_id: str, answer: InteractionAnswer) -> SaveRequest:
        return SaveRequest(
            RequestRecord(
                session_id=self._session.session_id,
                client_request_id=client_request_id,
                digest=digest_of((part.interaction_id, answer.response)),
                answer=encode_json(answer),
                created_at=self._env.now(),
            )
        )


def _already_resolved(part: InteractionPart) -> RequestError:
    """What the loser is told: who won, when, and with what (P7)."""
    return RequestError(
        "already_resolved",
        f"the interaction is {part.status} already",
        field="interaction_id",
        details={
            "status": part.status,
            "response": part.response,
            "by": part.resolved_by,
            "at": part.resolved_at,
        },
    )
