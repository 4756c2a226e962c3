"""SIGTERM and SIGINT: how often the process was told to stop, counted from the first moment to the last (W8).

The first asks for the orderly stop, the second for the end at once, and further ones say nothing new: they are ignored.
None is lost between the start of the process and that of trio, and none ends the process by itself.
"""

import signal
from types import FrameType, TracebackType
from typing import Any, Final

import trio

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_MOST: Final = 2
"""So many say something."""


class StopSignals:
    """Counts them from entering to leaving, in the main thread; `for_good` ignores them afterwards, for a process that
    is about to end: what the interpreter does when it ends would let them through.
    """

    def __init__(self, *, for_good: bool = False) -> None:
        self._for_good = for_good
        self._before: dict[signal.Signals, Any] = {}
        self._count = 0
        self._token: trio.lowlevel.TrioToken | None = None
        self._came = trio.Event()

    def __enter__(self) -> "StopSignals":
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._count_one)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._for_good:
            _ignore()
        else:
            for number, before in self._before.items():
                signal.signal(number, before)

    async def wait_for(self, count: int) -> None:
        """Returns when so many have come since entering."""
        self._token = trio.lowlevel.current_trio_token()
        while self._count < count:
            await self._came.wait()

    def _count_one(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count == _MOST:
            _ignore()
        if self._token is not None:
            try:
                self._token.run_sync_soon(self._wake, idempotent=True)
            except trio.RunFinishedError:
                return  # nobody waits any more

    def _wake(self) -> None:
        self._came.set()
        self._came = trio.Event()


def _ignore() -> None:
    """From now on the kernel drops them. None may come while that changes: Python would complain of it on stderr."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
