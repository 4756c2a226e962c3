"""Forks: a new Session that begins with a copy of another one's history. What is copied how is the store's."""

from typing import TYPE_CHECKING

import trio

from turnwire.sessions.faults import store_faults, too_many_sessions
from turnwire.store.base import (
    ConstraintViolated,
    ForkSession,
    MessageNotFound,
    MessageOpen,
    SessionRecord,
    TooManySessions,
)
from turnwire_protocol.codes import RequestError

if TYPE_CHECKING:
    from turnwire.sessions.environment import Environment


async def fork(
    env: "Environment",
    session_id: str,
    *,
    through_message_id: str | None,
    new_session_id: str | None,
    owner: str,
    most: int | None,
) -> SessionRecord:
    """The new Session. See `Registry.fork` for what it raises."""
    operation = ForkSession(
        session_id=session_id,
        new_session_id=new_session_id or env.new_id("ses"),
        through_message_id=through_message_id,
        now=env.now(),
        owner=owner,
        most=most,
    )
    with store_faults(session_id), trio.CancelScope(shield=True):
        try:
            await env.store.commit([operation])
        except MessageNotFound as error:
            raise RequestError("not_found", f"through_message_id: {error}", field="through_message_id") from None
        except MessageOpen as error:
            raise RequestError("conflict", f"through_message_id: {error}", field="through_message_id") from None
        except TooManySessions:
            raise too_many_sessions(most) from None
        except ConstraintViolated:
            taken = f"new_session_id: {operation.new_session_id} exists"
            raise RequestError("conflict", taken, field="new_session_id") from None
    with store_faults(operation.new_session_id):
        return await env.store.session(operation.new_session_id)
