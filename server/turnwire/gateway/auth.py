"""Who may come in: the Host and Origin of every HTTP request (X1), and the principal that a `hello` stands for.

A browser lets any web page open a WebSocket to this machine, so a loopback address protects nobody: what the browser
says about the page (`Origin`) and about the name it used (`Host`, against DNS rebinding) is checked on loopback, too.
"""

import ipaddress
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import urlsplit

from turnwire_protocol.frames import Hello, Principal

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Authenticator(Protocol):
    """Tells who says `hello`."""

    def principal_of(self, hello: Hello) -> Principal:
        """The principal behind this `hello`. Raises RequestError `unauthenticated` or `forbidden`."""


class OpenAccess:
    """For a server that only this machine can reach: everyone is `local`, a token that comes is not looked at."""

    def principal_of(self, hello: Hello) -> Principal:
        return Principal(id="local")


class Doorman:
    """Checks Host and Origin. `hosts` are further host names without port, `origins` further origins as sent."""

    def __init__(self, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        self._hosts = frozenset(host.lower().strip("[]") for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    def refusal(self, host: str | None, origin: str | None) -> str | None:
        """Why a request with these headers is not let in, as a sentence, or None (X1)."""
        place = None if host is None else _place_of(f"http://{host}")
        if place is None:
            return "The Host header is missing or malformed."
        if not (place[0] in self._hosts or is_loopback(place[0])):
            return "This host name is not allowed here; the server's list of allowed hosts can name it."
        if origin is None or origin.lower() in self._origins or _same_place(origin, host or ""):
            return None
        return "Pages of this origin are not allowed here; the server's list of allowed origins can name it."


def is_loopback(host: str) -> bool:
    """The name or address can only mean this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _same_place(origin: str, host: str) -> bool:
    scheme, separator, _ = origin.partition("://")
    if not separator or scheme.lower() not in _DEFAULT_PORTS:
        return False
    place = _place_of(origin)
    return place is not None and place == _place_of(f"{scheme}://{host}")


def _place_of(url: str) -> tuple[str, int] | None:
    """Host (lower case, without brackets) and port of a URL that has nothing else, or None."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname or "@" in parts.netloc or parts.path or parts.query or parts.fragment:
        return None
    return parts.hostname, port or _DEFAULT_PORTS.get(parts.scheme.lower(), 0)
