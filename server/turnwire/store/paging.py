"""Pages of history and of Sessions: where they end, and the cursors that lead on. What both stores share (M2, M3)."""

import base64
import binascii
from collections.abc import Iterable
from typing import Final, NamedTuple

from turnwire.store.base import MAX_PAGE, PAGE_BYTES, SessionListing, SessionRecord, StoredMessage, StoredPage
from turnwire_protocol.parts import MAX_SAFE_INTEGER

END: Final = MAX_SAFE_INTEGER + 1
"""Above every sequence: where the newest page begins."""


class Cursor(NamedTuple):
    """The last Session of a listing; the next one begins after it."""

    updated_at: int
    session_id: str


def check_limit(limit: int) -> None:
    """Raises ValueError unless `limit` is 1..MAX_PAGE."""
    if not 1 <= limit <= MAX_PAGE:
        raise ValueError(f"limit: expected an integer from 1 to {MAX_PAGE}")


def check_before(before_sequence: int | None) -> None:
    """Raises ValueError unless `before_sequence` is absent or a positive integer."""
    if before_sequence is not None and before_sequence < 1:
        raise ValueError("before_sequence: expected an integer >= 1")


def fill_page(newest_first: Iterable[StoredMessage], *, limit: int, total: int) -> StoredPage:
    """The page of at most `limit` Messages and PAGE_BYTES; at most one Message more than it holds is taken."""
    items: list[StoredMessage] = []
    room = PAGE_BYTES
    for message in newest_first:
        room -= len(message.json.text)
        if len(items) == limit or (items and room < 0):
            return StoredPage(items=tuple(reversed(items)), total=total, has_more=True)
        items.append(message)
    return StoredPage(items=tuple(reversed(items)), total=total, has_more=False)


def fill_listing(records: list[SessionRecord], limit: int) -> SessionListing:
    """The listing of the first `limit` records; one record more says that it goes on."""
    items = tuple(records[:limit])
    has_more = len(records) > limit
    return SessionListing(items=items, next_before=_encode_cursor(items[-1]) if has_more else None, has_more=has_more)


def decode_cursor(before: str) -> Cursor:
    """The place that an earlier `next_before` stands for. Raises ValueError when it is none."""
    try:
        text = base64.b64decode(before + "=" * (-len(before) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise ValueError("before: not a cursor of this server") from None
    updated_at, colon, session_id = text.partition(":")
    if not (updated_at.isascii() and updated_at.isdigit() and len(updated_at) <= 16 and colon and session_id):
        raise ValueError("before: not a cursor of this server")
    return Cursor(int(updated_at), session_id)


def _encode_cursor(record: SessionRecord) -> str:
    text = f"{record.updated_at}:{record.session_id}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
