"""What all connections of a gateway share."""

from msgspec import Struct

from turnwire.gateway.auth import Authenticator
from turnwire.gateway.fanout import Fanout
from turnwire.gateway.requests import Performer, Sessions
from turnwire.gateway.settings import GatewaySettings


class Surroundings(Struct, frozen=True):
    """`server` is the name in `welcome`."""

    sessions: Sessions
    performer: Performer
    fanout: Fanout
    authenticator: Authenticator
    settings: GatewaySettings
    server: str
