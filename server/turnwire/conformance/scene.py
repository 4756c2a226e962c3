"""What the steps of one timeline for a server share: its variables, its clients, and how a request is answered."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import trio

from turnwire.conformance.patterns import Mismatch, UnknownVariable, Variables, fill, match
from turnwire.conformance.peer import Peer, answer_to
from turnwire.conformance.shapes import Map
from turnwire.conformance.signer import Signer
from turnwire.conformance.streams import Dialer

TOKEN_SECONDS: Final = 86_400
"""How long the token of a timeline is good that asks for none of its own."""

Doing: TypeAlias = Mapping[type, Callable[[Any], Awaitable[None]]]
"""What is done for each kind of step."""


class Scene:
    """One timeline against the server behind `dialer`. `token` goes into each `hello` that has none.

    Without a `token` a `signer` makes one for this timeline alone, since there are limits for one principal.
    """

    def __init__(
        self, dialer: Dialer, nursery: trio.Nursery, variables: Variables, *, token: str | None, signer: Signer | None
    ) -> None:
        self.dialer = dialer
        self.nursery = nursery
        self.variables = variables
        self.peers: dict[str, Peer] = {}
        self.last = "nothing came"
        """What to say of a step that takes too long."""
        self.signer = signer
        if token is None and signer is not None:
            token = signer.token(f"conformance-{secrets.token_hex(6)}", TOKEN_SECONDS)
        self._token = token

    def peer(self, name: str) -> Peer:
        """The client of this name. Raises UnknownVariable when it has never connected."""
        if name not in self.peers:
            raise UnknownVariable(f"client {name} has not connected yet")
        return self.peers[name]

    async def answered(self, peer: Peer, request_id: int | None, result: Any, error: Any) -> Map:
        """The answer to a request, which must be like this; waits for it. Raises Mismatch, UnknownVariable."""
        if request_id is None:
            raise UnknownVariable("a request without an id has no answer to wait for")
        link = peer.link
        self.last = f"no answer to request {request_id}"
        if not await peer.until(lambda: answer_to(link, request_id) is not None):
            raise Mismatch(f"the connection ended with {link.code} before an answer came")
        answer = answer_to(link, request_id)
        assert answer is not None
        if (answer["op"] == "error") != (error is not None):
            raise Mismatch(f"answered by {answer}")
        if error is not None:
            match(error, answer, self.variables)
        elif result is not None:
            match(result, answer.get("result", answer), self.variables)
        return answer

    def request(self, template: Any) -> Map:
        """A request with its variables filled in, a `hello` with the token of this run."""
        request: Map = self.filled(template)
        if request.get("op") == "hello" and self._token is not None:
            request.setdefault("token", self._token)
        return request

    def filled(self, template: Any) -> Any:
        """The value of a template; new variables get fresh ids."""
        return fill(template, self.variables, self._fresh)

    def _fresh(self, name: str) -> str:
        value: str = f"{name}-{secrets.token_hex(6)}"
        self.variables[name] = value
        return value
