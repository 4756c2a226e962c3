"""Admission: how many connections there may be, in all and from one address. No I/O, no time.

Each connection has a `Ticket`: at first it is a handshake, which may become a WebSocket or stay plain HTTP, and in any
case it ends.
"""

from collections.abc import Callable, Hashable, Iterable

import trio

from turnwire.gateway.rates import Addresses, Places


class Admission:
    """`uncounted` are networks whose connections are not counted by address."""

    def __init__(
        self,
        *,
        handshakes: int,
        handshakes_per_address: int,
        connections: int,
        per_address: int,
        uncounted: Iterable[str],
    ) -> None:
        self._handshakes = Places(handshakes, handshakes_per_address)
        self._sockets = Places(connections, per_address)
        self._addresses = Addresses(uncounted)

    @property
    def handshakes(self) -> int:
        """Connections that are no WebSockets, or not yet."""
        return self._handshakes.taken

    @property
    def sockets(self) -> int:
        """WebSockets."""
        return self._sockets.taken

    def arrive(self, host: str | None) -> "Ticket | None":
        """A new connection from this address, which `Ticket.end` must follow; None when there are too many."""
        key = self._addresses.key_of(host)
        if self._handshakes.refusal(key) is not None:
            return None
        return Ticket(self._handshakes, self._sockets, key)


class Ticket:
    """The place that one connection takes."""

    def __init__(self, handshakes: Places, sockets: Places, key: Hashable | None) -> None:
        self._sockets = sockets
        self._key = key
        handshakes.enter(key)
        self._leave: Callable[[], None] | None = lambda: handshakes.leave(key)

    def upgrade(self) -> str | None:
        """Becomes a WebSocket; or says why it may not, as the end of a sentence."""
        refusal = self._sockets.refusal(self._key)
        if refusal is None and self._leave is not None:
            self._leave()
            self._sockets.enter(self._key)
            self._leave = lambda: self._sockets.leave(self._key)
        return refusal

    def end(self) -> None:
        """The connection is over. Idempotent."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


def host_of(stream: trio.abc.Stream) -> str | None:
    """The address of the peer; None where there is none, or the peer has gone already."""
    if not isinstance(stream, trio.SocketStream):
        return None
    try:
        address = stream.socket.getpeername()
    except OSError:
        return None
    return str(address[0]) if isinstance(address, tuple) else None
