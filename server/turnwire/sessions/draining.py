"""Draining: how the Turns of all Sessions in memory come to their end before a server stops (W8)."""

import logging
from collections.abc import Iterable
from functools import partial

import trio

from turnwire.sessions.session import Session
from turnwire_protocol.codes import RequestError
from turnwire_protocol.mutations import TurnError

SHUTDOWN = TurnError("server_shutdown", "The server was shut down before the answer was complete.")

_log = logging.getLogger(__name__)


async def drain(sessions: Iterable[Session], grace_seconds: float, reason: TurnError) -> bool:
    """Gives running Turns `grace_seconds`, then stops them, and those that wait; none is started meanwhile.

    False when an end could not be stored.
    """
    with trio.move_on_after(grace_seconds):
        for session in list(sessions):
            await session.until_rested()  # what it is doing may be the start of a Turn
            while session.loop.active is not None:
                await session.loop.active.finished.wait()
    failed: list[Session] = []

    def concerned(session: Session) -> bool:
        return session.loop.busy or session.working

    async def end(session: Session) -> None:
        try:
            await session.do(partial(session.loop.stop, reason=reason), lasting=("stop", reason))
        except RequestError as error:
            if not concerned(session):
                return  # it was deleted meanwhile
            failed.append(session)
            _log.error(
                "the turns of session %(session_id)s cannot be ended in the store: %(error)s",
                {"session_id": session.session_id, "error": error},
            )

    async with trio.open_nursery() as nursery:
        for session in sessions:
            if concerned(session):
                nursery.start_soon(end, session)
    return not failed
