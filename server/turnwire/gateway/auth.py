"""Who may come in over HTTP: the Host and Origin of every request (X1), and where a token may stand in it (X2).

A browser lets any web page open a WebSocket to this machine, so a loopback address protects nobody: what the browser
says about the page (`Origin`) and about the name it used (`Host`, against DNS rebinding) is checked on loopback, too.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

from websockets.datastructures import Headers

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
LAST_PORT: Final = 65_535

_PLACE: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9a-f]*:[0-9a-f:.]*)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>[0-9]{0,5}))?",
    re.ASCII | re.IGNORECASE,
)
"""What browsers send: a name, an IPv4 or a bracketed IPv6 address, and a port that may be empty."""

TOKEN_PARAMETERS: Final = frozenset({"token", "access_token", "id_token", "jwt", "authorization", "bearer"})
"""Query parameters in which people put tokens. URLs end in logs and histories, so such a request is refused (X2)."""


def has_token_in_query(path: str) -> bool:
    """The request's path carries a token in its query."""
    names = (name.strip().lower() for name, _ in parse_qsl(path.partition("?")[2], keep_blank_values=True))
    return not TOKEN_PARAMETERS.isdisjoint(names)


def bearer_of(headers: Headers) -> str | None:
    """The token of an `Authorization: Bearer` header; other schemes, such as a proxy's own, are none of ours.

    Raises MultipleValuesError when the header comes twice.
    """
    scheme, _, token = (headers.get("Authorization") or "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


class Doorman:
    """Checks Host and Origin. `hosts` are further host names without port, `origins` further origins as sent."""

    def __init__(self, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        self._hosts = frozenset(host.lower().strip("[]") for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    def refusal(self, host: str | None, origin: str | None) -> str | None:
        """Why a request with these headers is not let in, as a sentence, or None (X1)."""
        place = None if host is None else _place_of(host, _DEFAULT_PORTS["http"])
        if place is None:
            return "The Host header is missing or malformed."
        if not (place[0] in self._hosts or is_loopback(place[0])):
            return "This host name is not allowed here; the server's list of allowed hosts can name it."
        if origin is None or origin.lower() in self._origins or _same_place(origin, host or ""):
            return None
        return "Pages of this origin are not allowed here; the server's list of allowed origins can name it."


def own_names(host: str) -> tuple[str, ...]:
    """The address that is listened on, if it is one that clients can ask for; no page can pass its own off as it."""
    try:
        return () if ipaddress.ip_address(host).is_unspecified else (host,)
    except ValueError:
        return (host,)


def is_loopback(host: str) -> bool:
    """The name or address can only mean this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _same_place(origin: str, host: str) -> bool:
    scheme, separator, place = origin.partition("://")
    default = _DEFAULT_PORTS.get(scheme.lower())
    if not separator or default is None:
        return False
    found = _place_of(place, default)
    return found is not None and found == _place_of(host, default)


def _place_of(text: str, default_port: int) -> tuple[str, int] | None:
    """Host (lower case, without brackets) and port; None for what is no host with a port or without."""
    match = _PLACE.fullmatch(text)
    if match is None:
        return None
    port = int(match["port"] or default_port)
    return ((match["ipv6"] or match["name"]).lower(), port) if port <= LAST_PORT else None
