"""What a gateway can be told: addresses, limits and times, each with its unit. Where the values come from is not."""

from typing import Final

from msgspec import Struct

from turnwire_protocol.frames import Limits

KIB: Final = 1024
MIB: Final = 1024 * 1024


class GatewaySettings(Struct, kw_only=True, frozen=True):
    """Sizes in bytes, times in the unit that the name ends with, others as counts."""

    host: str = "127.0.0.1"
    port: int = 8787
    """0: any free port; `Gateway.serve` reports which."""

    allowed_hosts: tuple[str, ...] = ()
    """Host names besides those of this machine under which the server may be asked (X1)."""
    allowed_origins: tuple[str, ...] = ()
    """Origins besides the server's own whose pages may connect, such as `https://chat.example` (X1)."""

    max_frame_bytes: int = 4 * MIB
    """The largest frame to a client (W10)."""
    max_request_bytes: int = MIB
    """The largest message from a client; beyond it the connection is closed with 1009."""
    page: int = 50
    max_page: int = 200
    """Items of a page of history by default, and at most (M2)."""
    max_subscriptions: int = 100
    """Sessions that one connection may follow at a time."""

    hello_bytes: int = 64 * KIB
    """The most that a client may send before its `hello`, opening handshake included (W3)."""
    hello_timeout_s: float = 10.0
    open_timeout_s: float = 20.0
    """How long one HTTP exchange may take: the opening handshake, or a file of the page."""

    max_queued_requests: int = 64
    max_queued_bytes: int = 2 * MIB
    """Requests that wait for their turn on one connection; beyond either they are refused with `rate_limited`."""

    outbox_bytes: int = MIB
    """Mutations that wait for one slow client; beyond it they are dropped and `reload` is sent (W6)."""
    control_bytes: int = 64 * KIB
    """Answers that wait for one slow client; above it no further request of this client is begun."""
    write_timeout_s: float = 30.0
    """A client that has taken no byte for so long, while some waited, is given up."""
    close_timeout_s: float = 10.0
    """How long a client may take to end a connection that is being closed."""

    tick_ms: int = 15_000
    """How often every client gets a `tick` (W8)."""
    max_silent_ticks: int = 3
    """A client that is pinged with every tick and was silent for so many of them is given up."""

    retry_after_ms: int = 1_000
    retry_spread_ms: int = 4_000
    """On shutdown each client is told to come back after the first plus a random share of the second (R5)."""

    def limits(self) -> Limits:
        """As `welcome` tells them to clients."""
        return Limits(
            max_frame=self.max_frame_bytes,
            max_request=self.max_request_bytes,
            page=self.page,
            max_page=self.max_page,
            max_subscriptions=self.max_subscriptions,
        )
