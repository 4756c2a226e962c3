"""The store's exceptions as answers to requests (W9)."""

from collections.abc import Iterator
from contextlib import contextmanager

from turnwire.store.base import NotFound, StoreUnavailable
from turnwire_protocol.codes import RequestError


@contextmanager
def store_faults(session_id: str | None = None) -> Iterator[None]:
    """Turns NotFound into RequestError `not_found` and StoreUnavailable into `unavailable`."""
    try:
        yield
    except NotFound:
        raise RequestError("not_found", f"there is no session {session_id}", field="session_id") from None
    except StoreUnavailable as error:
        raise RequestError("unavailable", f"the store does not work at present: {error}") from error
