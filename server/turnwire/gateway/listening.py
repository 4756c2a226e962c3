"""Listening: the addresses of a gateway, and what becomes of connections that the system cannot take."""

import errno
import logging
import os
from typing import Any, Final, TypeVar

import trio

_log = logging.getLogger(__name__)

StreamT = TypeVar("StreamT", bound=trio.abc.Stream)

OUT_OF_CAPACITY: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""Faults of `accept` that say nothing about the listener: there is no room now, for want of open files or memory."""

FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0
"""How long a new connection is left waiting before it is tried again; the pauses grow."""

REPORT_SECONDS: Final = 60.0
"""How often a lack of room is logged, as long as it lasts."""


class PatientListener(trio.abc.Listener[StreamT]):
    """Waits where the system has no room for a further connection. Clients that are connected notice nothing."""

    def __init__(self, inner: trio.abc.Listener[StreamT]) -> None:
        self._inner = inner
        self._reported_at = -REPORT_SECONDS
        self._unreported = 0

    @property
    def socket(self) -> Any:
        """What websockets names in its log."""
        return self._inner.socket  # type: ignore[attr-defined]

    async def accept(self) -> StreamT:
        """The next connection. Raises OSError for faults other than a lack of room."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._inner.accept()
            except OSError as error:
                if error.errno not in OUT_OF_CAPACITY:
                    raise
                self._report(error.errno)
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _report(self, number: int) -> None:
        self._unreported += 1
        now = trio.current_time()
        if now - self._reported_at < REPORT_SECONDS:
            return
        _log.error(
            "no connection can be accepted: %(reason)s (%(failures)d failures since the last report); trying again",
            {"reason": os.strerror(number), "failures": self._unreported},
        )
        self._reported_at = now
        self._unreported = 0


def address_of(listener: trio.abc.Listener[Any]) -> tuple[str, int]:
    """Where it listens: host and port; none of either for one that is not on a network."""
    if isinstance(listener, trio.SocketListener):
        host, port = listener.socket.getsockname()[:2]
        return host, port
    return "", 0
