"""What the Composer is given of a store: history to read, and summaries of its own to write (C1, C2).

Summaries are derived: they can be thrown away and made again, and are never Messages. Whoever holds a `ContextStore`
has no way to change history; in a file the database itself refuses it (see `context_sqlite`).
"""

from collections.abc import Collection
from typing import Protocol

from msgspec import Struct

from turnwire.store.base import ConstraintViolated, StoredPage
from turnwire_protocol.parts import MAX_SAFE_INTEGER


class Summary(Struct, kw_only=True, frozen=True):
    """What was said up to and including the Message `through_sequence`, in a model's words; `created_at` is in ms."""

    session_id: str
    through_sequence: int
    text: str
    created_at: int


class ContextStore(Protocol):
    """A store as the Composer sees it."""

    async def page(
        self, session_id: str, *, before_sequence: int | None, limit: int, include_internal: bool
    ) -> StoredPage:
        """Committed history, as `Store.page`. Raises NotFound, StoreUnavailable."""

    async def cancelled_turns(self, turn_ids: Collection[str]) -> frozenset[str]:
        """Those of these Turns that were stopped before they began (T3). Raises StoreUnavailable."""

    async def summary(self, session_id: str) -> Summary | None:
        """The Session's summary that reaches furthest, or None. Raises StoreUnavailable."""

    async def save_summary(self, summary: Summary) -> None:
        """Keeps a summary; one that reached as far is replaced. Durable when it returns.

        It goes with its Session. Raises NotFound (an unknown Session), ConstraintViolated (it reaches beyond the last
        Message, or cannot be stored) or StoreUnavailable; then nothing was stored.
        """


def check_summary(summary: Summary) -> None:
    """Raises ConstraintViolated when no store could keep it."""
    where = f"summary of session {summary.session_id}"
    for number, least in ((summary.through_sequence, 1), (summary.created_at, 0)):
        if not least <= number <= MAX_SAFE_INTEGER:
            raise ConstraintViolated(f"{where}: {number} is not an integer from {least} to 2**53-1")
    if not summary.text.strip():
        raise ConstraintViolated(f"{where}: it says nothing")
    try:
        summary.text.encode()
    except UnicodeEncodeError as error:
        raise ConstraintViolated(f"{where}: {error}") from error
