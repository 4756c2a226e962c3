"""What has gone through a gateway: connections, frames, bytes, and losses, as plain numbers.

Each connection counts for itself; its numbers are added up when somebody asks, and kept when it ends.
"""

from collections.abc import Iterable
from typing import Protocol

from turnwire.gateway.stream import FrameStream


class Counted(Protocol):
    """A connection, as far as it is counted."""

    frames_in: int
    stream: FrameStream


class Traffic:
    """Sums since the start. `bytes` are those on the network, TLS aside; `frames` are whole WebSocket messages, and
    outgoing ones include pings and closes.
    """

    def __init__(self) -> None:
        self.opened = 0
        self.frames_in = 0
        self.frames_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.reloads = {"lagged": 0, "restarted": 0}
        """`reload` notices, by reason (W6, W7)."""
        self.closes: dict[int, int] = {}
        """Connections that ended, by close code; 1006 is the end without one."""

    def add(self, connection: Counted) -> None:
        """Adds what this connection has counted so far."""
        stream = connection.stream
        self.frames_in += connection.frames_in
        self.frames_out += stream.outbox.frames_out - 1  # the first was the answer to the opening handshake
        self.bytes_in += stream.bytes_in
        self.bytes_out += stream.bytes_out
        self.reloads["lagged"] += stream.outbox.lags
        self.reloads["restarted"] += stream.outbox.interruptions

    def ended(self, connection: Counted, code: int) -> None:
        """Keeps what this connection has counted; it is not to be added again."""
        self.add(connection)
        self.closes[code] = self.closes.get(code, 0) + 1

    def with_open(self, connections: Iterable[Counted]) -> "Traffic":
        """The sums with these open connections."""
        total = Traffic()
        total.opened = self.opened
        total.frames_in, total.frames_out = self.frames_in, self.frames_out
        total.bytes_in, total.bytes_out = self.bytes_in, self.bytes_out
        total.reloads = dict(self.reloads)
        total.closes = dict(self.closes)
        for connection in connections:
            total.add(connection)
        return total
