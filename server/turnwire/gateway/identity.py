"""Who is on one connection, and until when: the principal of its `hello`, renewed by later ones (W3, X3)."""

import logging
import math

import trio
from msgspec import UnsetType

from turnwire.gateway.principals import Principal, answer_of
from turnwire.gateway.requests import given
from turnwire.gateway.surroundings import Surroundings
from turnwire_protocol import frames
from turnwire_protocol.codes import RequestError

_log = logging.getLogger(__name__)


class Identity:
    """`bearer` is the token of the upgrade request; a token in `hello` goes before it."""

    def __init__(self, surroundings: Surroundings, bearer: str | None) -> None:
        self._around = surroundings
        self._bearer = bearer
        self._principal: Principal | None = None
        self._over = False
        self.lifetime = trio.CancelScope()
        """Cancelled when the token expires; the connection reads inside of it."""

    @property
    def known(self) -> bool:
        """The client has been welcomed."""
        return self._principal is not None

    @property
    def principal(self) -> Principal:
        assert self._principal is not None, "nothing is asked for before `hello`"
        return self._principal

    @property
    def expired(self) -> bool:
        """By the wall clock: the deadline of `lifetime` stands still while the machine sleeps."""
        principal = self._principal
        return principal is not None and principal.expires_at is not None and self._around.now() >= principal.expires_at

    async def hello(self, hello: frames.Hello) -> frames.Welcome:
        """The first `hello`, or one that renews: only the same principal may. Raises RequestError."""
        version = given(hello.protocol, frames.PROTOCOL_VERSION)
        if version != frames.PROTOCOL_VERSION:
            raise RequestError(
                "invalid_argument", f"protocol: this server speaks version {frames.PROTOCOL_VERSION}", field="protocol"
            )
        token = self._bearer if isinstance(hello.token, UnsetType) else hello.token
        principal = await answer_of(self._around.authenticator.authenticate, token)
        if self._over:
            raise RequestError("unauthenticated", "the connection is over")
        if self._principal is None:
            self._enter(principal)
        elif principal.id != self._principal.id:
            raise RequestError("forbidden", "a connection stays with its principal; open another one for this token")
        self._principal = principal
        self.lifetime.deadline = self._deadline(principal)
        return self._welcome(hello.id)

    def leave(self) -> None:
        """The connection is over, and no later `hello` counts. Idempotent."""
        self._over = True
        principal, self._principal = self._principal, None
        if principal is not None and not principal.shared:
            self._around.principals.leave(principal.id)

    def wait_for_request(self, weight: int) -> float:
        """Takes so many from the principal's rate: 0, or the seconds until there is one."""
        principal = self._principal
        if principal is None or principal.shared:
            return 0.0
        return self._around.principal_rates.take(principal.id, trio.current_time(), weight)

    def _enter(self, principal: Principal) -> None:
        if principal.shared:
            return
        places = self._around.principals
        if places.refusal(principal.id) is not None:
            _log.info("a principal has too many connections; one was refused")
            raise RequestError("rate_limited", "this principal has too many connections")
        places.enter(principal.id)

    def _deadline(self, principal: Principal) -> float:
        if principal.expires_at is None:
            return math.inf
        return trio.current_time() + (principal.expires_at - self._around.now())

    def _welcome(self, request_id: int) -> frames.Welcome:
        settings = self._around.settings
        return frames.Welcome(
            id=request_id,
            protocol=frames.PROTOCOL_VERSION,
            server=self._around.server,
            limits=settings.limits(),
            tick_ms=settings.tick_ms,
            principal=frames.Principal(self.principal.id),
        )
