"""The gateway: WebSockets and plain HTTP. The only package that knows the network."""

from turnwire.gateway.auth import Authenticator, OpenAccess
from turnwire.gateway.http import Document, document, read_page
from turnwire.gateway.requests import Sessions
from turnwire.gateway.server import Gateway
from turnwire.gateway.settings import GatewaySettings

__all__ = [
    "Authenticator",
    "Document",
    "Gateway",
    "GatewaySettings",
    "OpenAccess",
    "Sessions",
    "document",
    "read_page",
]
