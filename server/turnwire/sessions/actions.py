"""Actions: what was done to a Session besides talking, and which Message holds the record of it (M9).

Runs in the Session's task.
"""

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from turnwire.store.base import Operation, SaveMessage
from turnwire_protocol.parts import ActionPart, ActionState

if TYPE_CHECKING:
    from turnwire.sessions.environment import Environment
    from turnwire.sessions.session import Session


def action(
    env: "Environment",
    action_type: str,
    title: str,
    *,
    state: ActionState = "completed",
    description: str | None = None,
    data: Any = UNSET,
) -> ActionPart:
    """An Action Part; its place is given by the Message that takes it."""
    return ActionPart(
        part_id=env.new_id("part"),
        sequence=1,
        action_id=env.new_id("act"),
        action_type=action_type,
        state=state,
        title=title,
        description=UNSET if description is None else description,
        data=data,
    )


async def record(session: "Session", actions: list[ActionPart], *operations: Operation) -> None:
    """Stores Actions together with what they did, in one commit, and publishes the Message that holds them (M9).

    While the running Turn has an open Agent Message they are appended to it; otherwise they become an Agent Message of
    their own. Raises StoreUnavailable; then nothing was stored.
    """
    if session.projection is not None:
        draft = session.projection.draft()
        for part in actions:
            draft.add(part)
        await session.checkpoint(draft, *operations)
        return
    turn = session.loop.active
    own = session.new_projection("" if turn is None else turn.turn_id)
    message = own.closed(updated_at=session.env.now(), extra=actions)
    await session.commit([SaveMessage(message), *operations])
    session.publish_message(message)
