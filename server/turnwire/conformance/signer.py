"""Tokens for a server that is under test, signed with the key that it checks them with."""

import time
from collections.abc import Iterable, Mapping

from msgspec import Struct

from turnwire.gateway.principals import Level
from turnwire.gateway.tokens import Key, create_token


class Signer(Struct, frozen=True):
    """Makes tokens for `audience`, which is None for a server that was told none."""

    key: Key
    audience: str | None = None

    def token(
        self,
        subject: str,
        lifetime_s: float,
        *,
        roles: Iterable[str] | None = None,
        grants: Mapping[str, Level] | None = None,
        audience: str | None = None,
    ) -> str:
        """A token that is good from now on; an `audience` takes the place of the server's own."""
        return create_token(
            self.key,
            subject=subject,
            roles=roles,
            grants=grants,
            audience=self.audience if audience is None else audience,
            lifetime_s=lifetime_s,
            now=time.time(),
        )
