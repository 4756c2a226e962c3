"""Tokens: what is let in, and all the ways in which something is no token of ours (X2, X3, X6)."""

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from turnwire.gateway.tokens import CLOCK_SKEW_SECONDS, Key, TokenAuthenticator, create_token, key_of
from turnwire_protocol.codes import RequestError

NOW = 1_800_000_000.0
SECRET = b"a secret that nobody can guess, really"
PAIR = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PRIVATE_PEM = PAIR.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
PUBLIC_PEM = PAIR.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
KEYS = {"HS256": key_of(SECRET), "EdDSA": key_of(PRIVATE_PEM)}
both_keys = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)


def authenticator(key: Key, now: float = NOW, audience: str | None = None) -> TokenAuthenticator:
    return TokenAuthenticator(key, now=lambda: now, audience=audience)


def signed(key: Key, **claims: Any) -> str:
    """A token with these claims, and with `sub` and `exp` unless they are given; None leaves one out."""
    filled = {"sub": "ada", "exp": NOW + 60} | claims
    return jwt.encode(
        {name: value for name, value in filled.items() if value is not None}, key.signing or b"", key.algorithm
    )


def refusal(key: Key, token: str | None, now: float = NOW) -> str:
    with pytest.raises(RequestError) as refused:
        authenticator(key, now).authenticate(token)
    assert refused.value.code == "unauthenticated"
    assert token is None or len(token) < 20 or token not in refused.value.message
    return refused.value.message


@both_keys
def test_X3_a_token_says_who_comes_and_what_is_granted_and_until_when(key: Key) -> None:
    token = create_token(
        key, subject="ada", roles=["guest"], grants={"s1": "viewer", "*": "editor"}, lifetime_s=60, now=NOW
    )
    principal = authenticator(key).authenticate(token)
    assert principal.id == "ada"
    assert principal.roles == {"guest"}
    assert principal.grants == {"s1": "viewer", "*": "editor"}
    assert principal.expires_at == NOW + 60 + CLOCK_SKEW_SECONDS
    assert not principal.shared


def test_X3_without_roles_one_is_a_user_and_with_an_empty_list_nothing() -> None:
    key = KEYS["HS256"]
    assert authenticator(key).authenticate(signed(key)).roles == {"user"}
    assert authenticator(key).authenticate(signed(key, roles=[])).roles == frozenset()


def test_X3_the_public_half_checks_and_cannot_sign() -> None:
    public = key_of(PUBLIC_PEM)
    assert authenticator(public).authenticate(signed(KEYS["EdDSA"])).id == "ada"
    with pytest.raises(ValueError, match="public key can only check"):
        create_token(public, subject="ada", lifetime_s=60, now=NOW)


@both_keys
def test_X3_a_token_ends_when_it_says_and_begins_when_it_says_give_or_take_the_clocks(key: Key) -> None:
    token = signed(key, exp=NOW, nbf=NOW - 100, iat=NOW - 100)
    skew = CLOCK_SKEW_SECONDS
    for moment in (NOW - 100 - skew, NOW - 50, NOW + skew - 0.5):
        assert authenticator(key, moment).authenticate(token).id == "ada"
    assert refusal(key, token, NOW - 101 - skew) == "the token is not good yet"
    assert refusal(key, token, NOW + skew) == "the token has expired"
    assert refusal(key, signed(key, iat=NOW + 1000)) == "the token is not good yet"


@both_keys
@pytest.mark.parametrize(
    "claims",
    [
        {"sub": None},
        {"sub": ""},
        {"sub": "x" * 201},
        {"sub": "\ud800"},
        {"exp": None},
        {"exp": True},
        {"exp": -1},
        {"exp": 2**60},
        {"exp": 10**400},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"nbf": "now"},
        {"roles": "admin"},
        {"roles": [1]},
        {"roles": {"admin": True}},
        {"grants": ["s1"]},
        {"grants": {"s1": "admin"}},
        {"grants": {"no spaces": "viewer"}},
        {"grants": {"": "viewer"}},
        {"nested": json.loads("[" * 200 + "]" * 200)},
    ],
)
def test_X6_claims_of_a_wrong_shape_are_refused_although_they_are_signed(key: Key, claims: dict[str, Any]) -> None:
    assert "claims of the token are wrong" in refusal(key, signed(key, **claims))


@pytest.mark.parametrize("claims", [{"sub": 7}, {"exp": "tomorrow"}, {"exp": [1]}, {"jti": 5}])
def test_X6_claims_that_the_library_refuses_are_refused_as_well(claims: dict[str, Any]) -> None:
    key = KEYS["HS256"]
    raw = jwt.api_jws.encode(json.dumps({"sub": "ada", "exp": NOW + 60} | claims).encode(), SECRET, "HS256")
    assert refusal(key, raw)


@both_keys
def test_X3_nobody_is_let_in_without_a_token_or_with_one_of_another_key(key: Key) -> None:
    assert refusal(key, None) == "a token is needed"
    other = key_of(SECRET[::-1]) if key.algorithm == "HS256" else _pair(b"1" * 32)
    assert refusal(key, signed(other)) == "the token was not signed with the key of this server"


def _pair(seed: bytes) -> Key:
    private = Ed25519PrivateKey.from_private_bytes(seed)
    return key_of(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _segment(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def forged(header: Any, claims: Any = None, signature: bytes = b"") -> str:
    return f"{_segment(header)}.{_segment(claims or {'sub': 'ada', 'exp': NOW + 60})}.{_segment(signature)}"


@both_keys
@pytest.mark.parametrize("name", ["none", "None", "NONE", "", None, "HS384", "HS512", "RS256", "ES256", 5, ["HS256"]])
def test_X3_the_token_does_not_choose_the_algorithm(key: Key, name: Any) -> None:
    assert refusal(key, forged({"alg": name, "typ": "JWT"}))
    assert refusal(key, forged({"alg": name, "typ": "JWT"}, signature=b"x" * 64))
    assert refusal(key, forged({"typ": "JWT"}))


def test_X3_a_public_key_is_never_taken_for_a_secret() -> None:
    """Who knows the public key must not be able to sign with it as if it were an HS256 secret."""
    for known in (PUBLIC_PEM, PUBLIC_PEM.strip(), PAIR.public_key().public_bytes_raw()):
        head = f"{_segment({'alg': 'HS256', 'typ': 'JWT'})}.{_segment({'sub': 'ada', 'exp': NOW + 60})}"
        digest = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(head.encode(), known)
        token = f"{head}.{_segment(digest)}"
        assert refusal(key_of(PUBLIC_PEM), token) == "the token was signed in another way than this server accepts"
    assert (
        refusal(KEYS["HS256"], signed(KEYS["EdDSA"])) == "the token was signed in another way than this server accepts"
    )


@both_keys
def test_X3_a_token_for_another_audience_is_refused(key: Key) -> None:
    assert refusal(key, signed(key, aud="elsewhere")) == "the token was made for another audience"
    there = authenticator(key, audience="elsewhere")
    assert there.authenticate(signed(key, aud="elsewhere")).id == "ada"
    with pytest.raises(RequestError, match="another audience"):
        there.authenticate(signed(key))


@both_keys
@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "é.é.é",
        "\x00",
        "x" * 20_000,
        forged([]),
        forged({"alg": "HS256", "crit": ["b64"], "b64": False}),
        forged({"alg": "HS256", "kid": {"deep": 1}}),
        f"{_segment(b'[' * 9000)}.e30.e30",
        f"{_segment({'alg': 'HS256'})}.{_segment(b'[' * 9000)}.{_segment(b'x' * 32)}",
        f"{_segment({'alg': 'EdDSA'})}.e30.{_segment(b'short')}",
    ],
)
def test_X6_what_is_no_token_is_refused_with_a_sentence(key: Key, token: str) -> None:
    assert refusal(key, token)


def test_X6_signed_claims_that_are_no_map_or_too_deep_are_refused() -> None:
    for payload in (b"[]", b"null", b"{", b"\xff", b"[" * 9000):
        assert refusal(KEYS["HS256"], jwt.api_jws.encode(payload, SECRET, "HS256"))


@given(st.text(max_size=60), st.integers(0, 200), st.sampled_from(sorted(KEYS)))
def test_X6_no_change_of_a_token_is_let_in(text: str, position: int, name: str) -> None:
    token = signed(KEYS[name])
    for changed in (text, token[:position], token[:position] + text + token[position + len(text) :]):
        # The last characters of a segment hold bits that say nothing: another token of the same bytes.
        if changed != token and _bytes_of(changed) != _bytes_of(token):
            refusal(KEYS[name], changed)


def _bytes_of(token: str) -> list[bytes] | None:
    try:
        return [base64.urlsafe_b64decode(segment + "==") for segment in token.split(".")]
    except ValueError:
        return None


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "at least 32 bytes"),
        (b"  short  \n", "this one has 5"),
        (b"-----BEGIN PUBLIC KEY-----\nnonsense\n-----END PUBLIC KEY-----\n", "cannot be read"),
        (b"-----BEGIN PRIVATE KEY-----\n", "cannot be read"),
        (b"-----BEGIN CERTIFICATE-----\n", "cannot be read"),
        (
            PAIR.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")),
            "without a password",
        ),
        (
            generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            "another kind of key",
        ),
        (
            Ed448PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            "another kind of key",
        ),
    ],
)
def test_X2_a_key_that_cannot_be_used_is_refused_without_being_quoted(data: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refused:
        key_of(data)
    assert not any(line.decode() in str(refused.value) for line in data.split() if len(line) > 20)


def test_white_space_around_a_secret_is_no_part_of_it() -> None:
    assert key_of(SECRET + b"\n") == KEYS["HS256"]


def test_a_token_that_hello_would_not_take_is_not_made() -> None:
    grants = {f"session-{number}": "viewer" for number in range(1000)}
    with pytest.raises(ValueError, match="more than 16384"):
        create_token(KEYS["HS256"], subject="ada", grants=grants, lifetime_s=60, now=NOW)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sub"):
        create_token(KEYS["HS256"], subject="", lifetime_s=60, now=NOW)
