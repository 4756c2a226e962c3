"""The store's exceptions as answers to requests (W9)."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from turnwire.store.base import NotFound, StoreUnavailable
from turnwire_protocol.codes import RequestError


def unknown_session(session_id: str | None) -> RequestError:
    """The one answer for a Session that does not exist and for one that somebody may not see: they look alike."""
    return RequestError("not_found", f"there is no session {session_id}", field="session_id")


def too_many_sessions(most: int | None) -> RequestError:
    """Not `rate_limited`: waiting would not help, only deleting does."""
    return RequestError("conflict", f"you own {most} sessions, and may own no more; delete one first")


def too_late(seconds: float) -> RequestError:
    """For who has waited so long for a store that does not answer."""
    return RequestError("unavailable", f"the store has not answered for more than {seconds:g} s")


@contextmanager
def store_faults(session_id: str | None = None) -> Iterator[None]:
    """Turns NotFound into RequestError `not_found` and StoreUnavailable into `unavailable`."""
    try:
        yield
    except NotFound:
        raise unknown_session(session_id) from None
    except StoreUnavailable as error:
        raise RequestError("unavailable", f"the store does not work at present: {error}") from error


@contextmanager
def answered(seconds: float, session_id: str | None = None) -> Iterator[trio.CancelScope]:
    """For reads that somebody waits for: as `store_faults`, and `unavailable` when the block takes longer than so many
    seconds. Gives the scope that has this deadline.
    """
    with store_faults(session_id), trio.move_on_after(seconds) as scope:
        yield scope
    if scope.cancelled_caught:
        raise too_late(seconds)
