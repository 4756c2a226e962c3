"""Tokens: JSON Web Tokens signed with one key, made and checked here (X2, X3). No other kind of token is known.

The key decides the algorithm, never the token: a secret is for HS256, an Ed25519 key in PEM for EdDSA. Claims: `sub`
(the principal's id) and `exp` are required; `roles` is a list, `["user"]` when absent; `grants` maps Session ids, or
`*`, to `viewer`, `editor` or `owner`; `aud` names the servers that it is for. No message here quotes a token or a key.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from turnwire.gateway.authorization import USER
from turnwire.gateway.principals import Level, Principal
from turnwire_protocol.codec import check_json, convert
from turnwire_protocol.codes import RequestError

# What signs and checks is imported where that is done: it is slow to import, and most starts have no key.
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Algorithm: TypeAlias = Literal["HS256", "EdDSA"]

MIN_SECRET_BYTES: Final = 32
"""A shorter secret could be guessed from one token."""

MAX_TOKEN_CHARACTERS: Final = 16_384
"""What `hello` takes; nothing longer is looked at."""

CLOCK_SKEW_SECONDS: Final = 10.0
"""How far the clock of whoever signs tokens may be off: a token is good so long before `nbf` and after `exp`."""

_PEM: Final = b"-----BEGIN "


Audience: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
"""The name of a server, or of several that are one to their users."""


class Claims(Struct, frozen=True):
    """What a token says; claims that are not listed are not looked at."""

    sub: Annotated[str, Meta(min_length=1, max_length=200)]
    exp: Annotated[float, Meta(ge=0, le=2**53)]
    nbf: Annotated[float, Meta(ge=0, le=2**53)] = 0.0
    iat: Annotated[float, Meta(ge=0, le=2**53)] = 0.0
    roles: tuple[str, ...] = (USER,)
    grants: dict[Annotated[str, Meta(pattern=r"^(\*|[A-Za-z0-9_.:-]{1,128})$")], Level] = {}
    aud: Audience | tuple[Audience, ...] | UnsetType = UNSET


class Key(Struct, frozen=True):
    """What tokens are checked with, and signed with, unless only the public half is known."""

    algorithm: Algorithm
    checking: "bytes | Ed25519PublicKey"
    signing: "bytes | Ed25519PrivateKey | None"


def read_key(path: Path) -> Key:
    """The key in a file: a PEM with an Ed25519 key, private or public, or else a secret; white space around it is cut.

    Raises ValueError with a sentence that does not quote the file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    return key_of(data)


def key_of(data: bytes) -> Key:
    """As `read_key`, for the bytes themselves."""
    data = data.strip()
    if data.startswith(_PEM):
        return _pem_key(data)
    if len(data) < MIN_SECRET_BYTES:
        raise ValueError(f"a secret needs at least {MIN_SECRET_BYTES} bytes, this one has {len(data)}")
    return Key("HS256", data, data)


def _pem_key(data: bytes) -> Key:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

    try:
        if b"PRIVATE" in data.splitlines()[0]:
            private = load_pem_private_key(data, password=None)
            if isinstance(private, Ed25519PrivateKey):
                return Key("EdDSA", private.public_key(), private)
        else:
            public = load_pem_public_key(data)
            if isinstance(public, Ed25519PublicKey):
                return Key("EdDSA", public, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("the PEM cannot be read; an Ed25519 key without a password is expected") from None
    raise ValueError("the PEM holds another kind of key; an Ed25519 key is expected")


def create_token(
    key: Key,
    *,
    subject: str,
    roles: Iterable[str] | None = None,
    grants: Mapping[str, Level] | None = None,
    audience: str | None = None,
    lifetime_s: float,
    now: float,
) -> str:
    """A signed token that is good from `now` (seconds since 1970) for `lifetime_s`.

    Raises ValueError when the key can only check, or when the claims are not as they should be.
    """
    if key.signing is None:
        raise ValueError("a public key can only check tokens; the private key signs them")
    claims: dict[str, Any] = {"sub": subject, "iat": int(now), "exp": int(now + lifetime_s)}
    if roles is not None:
        claims["roles"] = list(roles)
    if grants:
        claims["grants"] = dict(grants)
    if audience is not None:
        claims["aud"] = audience
    try:
        _claims_of(claims)
    except RequestError as error:
        raise ValueError(error.message) from None
    import jwt

    token = jwt.encode(claims, key.signing, algorithm=key.algorithm)
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise ValueError(f"the token would have {len(token)} characters, more than {MAX_TOKEN_CHARACTERS}")
    return token


class TokenAuthenticator:
    """Lets in whoever has a token of this key. `now` is the wall clock in seconds since 1970.

    A token that names an audience (`aud`) is only good where `audience` is that, or among them; and where there is an
    `audience`, no other token is good.
    """

    def __init__(self, key: Key, *, now: Callable[[], float] = time.time, audience: str | None = None) -> None:
        import jwt  # noqa: F401 - now, so that the first `hello` need not wait for it

        self._key = key
        self._now = now
        self._audience = audience

    def authenticate(self, token: str | None) -> Principal:
        """Raises RequestError `unauthenticated`, with a sentence that says what is wrong with the token."""
        claims = self.claims(token)
        return Principal(
            id=claims.sub,
            roles=frozenset(claims.roles),
            grants=claims.grants,
            expires_at=claims.exp + CLOCK_SKEW_SECONDS,
        )

    def claims(self, token: str | None) -> Claims:
        """What a good token says. Raises RequestError `unauthenticated`."""
        if token is None:
            raise _refused("a token is needed")
        claims = _claims_of(self._verified(token))
        now = self._now()
        if now >= claims.exp + CLOCK_SKEW_SECONDS:
            raise _refused("the token has expired")
        if max(claims.nbf, claims.iat) > now + CLOCK_SKEW_SECONDS:
            raise _refused("the token is not good yet")
        return claims

    def _verified(self, token: str) -> dict[str, Any]:
        if len(token) > MAX_TOKEN_CHARACTERS or not token.isascii():
            raise _refused("this is no token")
        import jwt

        # Times are checked by our own clock; `sub` and `exp` are required by the shape of the claims.
        unchecked: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key.checking,
                algorithms=[self._key.algorithm],
                audience=self._audience,
                options=unchecked,
            )
        except jwt.InvalidSignatureError:
            raise _refused("the token was not signed with the key of this server") from None
        except jwt.InvalidAlgorithmError:
            raise _refused("the token was signed in another way than this server accepts") from None
        except (jwt.InvalidAudienceError, jwt.MissingRequiredClaimError):
            raise _refused("the token was made for another audience") from None
        except (jwt.PyJWTError, RecursionError, ValueError):
            # A library that meets such input for the first time may fail in its own way; in any case it is no token.
            raise _refused("this is no token") from None
        return claims


def _claims_of(claims: dict[str, Any]) -> Claims:
    try:
        check_json(claims)
        checked: Claims = convert(claims, Claims)
    except RequestError as error:
        raise _refused(f"the claims of the token are wrong: {error.message}") from None
    return checked


def _refused(sentence: str) -> RequestError:
    return RequestError("unauthenticated", sentence)
