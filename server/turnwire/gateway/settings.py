"""What a gateway can be told: addresses, limits and times, each with its unit. Where the values come from is not."""

import ssl
from typing import Final

from msgspec import Struct

from turnwire.gateway.inbox import InboxLimits
from turnwire.gateway.pace import PaceLimits
from turnwire.gateway.rates import Rate
from turnwire_protocol.codec import MAX_DEPTH, MAX_VALUES
from turnwire_protocol.frames import Limits

KIB: Final = 1024
MIB: Final = 1024 * 1024

LOOPBACK_NETWORKS: Final = ("127.0.0.0/8", "::1/128")
"""This machine."""


class GatewaySettings(Struct, kw_only=True, frozen=True):
    """Sizes in bytes, times in the unit that the name ends with, others as counts."""

    host: str = "127.0.0.1"
    port: int = 8787
    """0: any free port; `Gateway.serve` reports which."""

    tls: ssl.SSLContext | None = None
    """What `https` and `wss` are served with; None: `http` and `ws`."""
    compression: bool = False
    """Clients that offer permessage-deflate get it. It saves bytes and costs time and memory for each of them, since
    their frames cannot be shared; secrets beside text that others choose do not belong on such a connection.
    """

    allowed_hosts: tuple[str, ...] = ()
    """Host names besides those of this machine under which the server may be asked (X1)."""
    allowed_origins: tuple[str, ...] = ()
    """Origins besides the server's own whose pages may connect, such as `https://chat.example` (X1)."""

    max_frame_bytes: int = 4 * MIB
    """The largest frame to a client (W10)."""
    max_request_bytes: int = MIB
    """The largest message from a client; beyond it the connection is closed with 1009."""
    max_depth: int = MAX_DEPTH
    """How deep maps and lists of a request may nest, the request itself being 1."""
    max_values: int = MAX_VALUES
    """Of how many values a request may consist."""
    max_fragments: int = 1024
    """Frames of one message; a client that cuts one into more is closed with 1009."""
    message_timeout_s: float = 30.0
    message_bytes_per_s: float = 1024.0
    """How long a message from a client may take, and for each of so many bytes of it one second more; a client that
    sends more slowly is closed with 4408, at the next tick.
    """
    page: int = 50
    max_page: int = 200
    """Items of a page of history by default, and at most (M2)."""
    max_subscriptions: int = 100
    """Sessions that one connection may follow at a time."""
    max_sessions_per_principal: int = 10_000
    """Sessions that one principal may own, archived ones included."""

    max_connections: int = 10_000
    """WebSockets in all; further ones are answered with 503."""
    max_connections_per_address: int = 200
    """WebSockets from one address (a network of 64 bits of IPv6); further ones are answered with 503."""
    uncounted_networks: tuple[str, ...] = LOOPBACK_NETWORKS
    """Where connections are not counted by address: this machine, and the proxies that stand before it."""
    max_connections_per_principal: int = 100
    """WebSockets of one principal; further ones are closed with 4429 after their `hello`."""
    max_handshakes: int = 1000
    """Connections that are not yet WebSockets, or never will be; further ones get 503 before they have asked."""
    max_handshakes_per_address: int = 200
    """The same for one address: none shuts out all others by opening connections and saying nothing."""

    requests_per_s: float = 100.0
    request_burst: int = 1000
    """Messages of one connection, in the long run and at once; what is over is refused with `rate_limited`. A large
    message counts as several (`weight_of`).
    """
    principal_requests_per_s: float = 400.0
    principal_request_burst: int = 2000
    """The same for all connections of one principal together."""
    max_refusals: int = 2000
    """A connection with so many messages refused, and nothing accepted in between, is closed with 4429."""

    pings_per_s: float = 100.0
    ping_burst: int = 1000
    """Pings and pongs of one connection, in the long run and at once; who sends more is closed with 4429."""

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
    snapshot_bytes: int = MIB
    """Snapshots that wait for one slow client; above it no further `subscribe` or `reload` of this client is begun."""
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
            max_depth=self.max_depth,
            max_values=self.max_values,
            max_fragments=self.max_fragments,
            max_requests=self.max_queued_requests,
            max_queued_bytes=self.max_queued_bytes,
            requests_per_s=self.requests_per_s,
            request_burst=self.request_burst,
            principal_requests_per_s=self.principal_requests_per_s,
            principal_request_burst=self.principal_request_burst,
            max_connections=self.max_connections,
            max_connections_per_address=self.max_connections_per_address,
            max_connections_per_principal=self.max_connections_per_principal,
            max_sessions_per_principal=self.max_sessions_per_principal,
            hello_bytes=self.hello_bytes,
            hello_timeout_ms=round(self.hello_timeout_s * 1000),
        )

    @property
    def pace(self) -> PaceLimits:
        """How slowly a message may come."""
        return PaceLimits(self.message_timeout_s, self.message_bytes_per_s)

    @property
    def control_rate(self) -> Rate:
        """How many pings and pongs one connection may send."""
        return Rate(self.pings_per_s, self.ping_burst)

    @property
    def inbox_limits(self) -> InboxLimits:
        """What one connection may ask."""
        return InboxLimits(
            requests=self.max_queued_requests,
            bytes=self.max_queued_bytes,
            rate=Rate(self.requests_per_s, self.request_burst),
            refusals=self.max_refusals,
        )

    @property
    def principal_rate(self) -> Rate:
        """What all connections of one principal may ask together."""
        return Rate(self.principal_requests_per_s, self.principal_request_burst)
