"""The gateway: WebSockets and plain HTTP. The only package that knows the network."""

from turnwire.gateway.authorization import GrantRules
from turnwire.gateway.http import Document, document, read_page
from turnwire.gateway.principals import Action, Authenticator, Authorizer, Level, OpenAccess, Principal
from turnwire.gateway.requests import Sessions
from turnwire.gateway.server import Gateway
from turnwire.gateway.settings import GatewaySettings
from turnwire.gateway.side_port import serve_side_port
from turnwire.gateway.tokens import Key, TokenAuthenticator, create_token, read_key

__all__ = [
    "Action",
    "Authenticator",
    "Authorizer",
    "Document",
    "Gateway",
    "GatewaySettings",
    "GrantRules",
    "Key",
    "Level",
    "OpenAccess",
    "Principal",
    "Sessions",
    "TokenAuthenticator",
    "create_token",
    "document",
    "read_key",
    "read_page",
    "serve_side_port",
]
