"""Instructions: what the server's program tells the model besides what users say, as internal User Messages (C3).

An instruction is history like any other Message, read back by the Composer; it only is in no page of clients that did
not ask for internal ones (M4). It starts no Turn. Runs in the Session's task.
"""

from typing import TYPE_CHECKING

from msgspec import UNSET

from turnwire.sessions.prompts import Prompt
from turnwire.store.base import SaveMessage
from turnwire_protocol.messages import UserMessage

if TYPE_CHECKING:
    from turnwire.sessions.session import Session

TAG = "instruction"
"""The tag of an instruction that is given as text: so a model can tell it from what the user says (P3)."""


async def instruct(session: "Session", instruction: Prompt) -> UserMessage:
    """Stores an instruction. It joins the running Turn, whose next Step reads it (M8); else the next Turn reads it.

    Raises RequestError `too_large`, StoreUnavailable.
    """
    turn = session.loop.active
    if turn is not None and turn.closing is not None:
        turn = None  # it has no next Step
    message = instruction.message(
        session_id=session.session_id,
        turn_id=UNSET if turn is None else turn.turn_id,
        message_id=session.env.new_id("msg"),
        sequence=session.record.message_count + 1,
        now=session.env.now(),
        max_bytes=session.env.limits.message_bytes,
        visibility="internal",
    )
    await session.commit([SaveMessage(message)])
    if turn is not None:
        turn.unread += 1
    session.publish_message(message)
    return message
