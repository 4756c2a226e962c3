"""The end of a served process: the orderly stop, and what ends it by force when it hangs or is told twice (W8).

signal    -> nothing new is begun, clients are told, Turns get their grace, the rest is stopped with a stored reason
+ grace   -> every connection is closed with 1012; a client that does not answer is cut off
+ close   -> ends that the store was too slow for are waited for once more; it finishes what it has accepted, and copies
             its log into the database file
+ reserve -> whatever still hangs, such as a disk that answers nothing, the process ends
"""

import logging
import threading
from collections.abc import Callable

import trio

from turnwire.gateway import Gateway
from turnwire.sessions.registry import Registry
from turnwire.signals import StopSignals

RESERVE_SECONDS = 20.0
"""What the store may take for the ends of Turns, and it and the model provider to close, beyond the grace of Turns and
the closing of clients. More than all of that may take by its own bounds: a busy machine is not a hanging one."""

AT_ONCE_SECONDS = 2.0
"""What they may take after a second signal."""

_log = logging.getLogger(__name__)


class Watchdog:
    """Calls `end`, on a thread of its own, when the time that was given last has passed without `cancel`.

    `reserve_seconds` is what a stop gets on top of its own bounds before it is taken to hang (W8).
    """

    def __init__(self, end: Callable[[], None], *, reserve_seconds: float = RESERVE_SECONDS) -> None:
        self.reserve_seconds = reserve_seconds
        self._end = end
        self._timer: threading.Timer | None = None

    def give(self, seconds: float) -> None:
        """From now on there is so much time; what was left before does not count."""
        self.cancel()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """The end has come by itself. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def stop(registry: Registry, gateway: Gateway, grace_seconds: float) -> bool:
    """The orderly stop: no new Turns, tell everyone, let Turns finish, store why the rest did not, close 1012 (W8).

    False when the end of a Turn could not be stored.
    """
    _log.info("stopping: %(turns)d turns are running", {"turns": registry.running_turns})
    registry.start_no_turns()
    gateway.announce()
    stored = await registry.drain(grace_seconds)
    await gateway.drain()
    return stored or await registry.drain(0)  # a store that was only slow has done it by now, or is about to


async def stop_unless_told_again(
    signals: StopSignals, registry: Registry, gateway: Gateway, grace_seconds: float
) -> bool:
    """As `stop`; False when a second signal came first and cut it short."""
    orderly = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_at_the_second, signals, nursery.cancel_scope)
        orderly = await stop(registry, gateway, grace_seconds)
        nursery.cancel_scope.cancel()
    return orderly


async def _cancel_at_the_second(signals: StopSignals, scope: trio.CancelScope) -> None:
    await signals.wait_for(2)
    _log.warning("a second signal: ending at once")
    scope.cancel()
