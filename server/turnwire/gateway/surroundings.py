"""What all connections of a gateway share."""

from collections.abc import Callable

from msgspec import Struct

from turnwire.gateway.authorization import Guard
from turnwire.gateway.fanout import Fanout
from turnwire.gateway.principals import Authenticator
from turnwire.gateway.rates import Buckets, Places
from turnwire.gateway.requests import Performer, Sessions
from turnwire.gateway.settings import GatewaySettings


class Surroundings(Struct, frozen=True):
    """`server` is the name in `welcome`; `now` the wall clock, in seconds since 1970.

    `principals` counts connections by principal, `principal_rates` their requests.
    """

    sessions: Sessions
    performer: Performer
    fanout: Fanout
    authenticator: Authenticator
    guard: Guard
    principals: Places
    principal_rates: Buckets
    now: Callable[[], float]
    settings: GatewaySettings
    server: str
