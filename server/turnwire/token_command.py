"""`turnwire token create | check`: makes and reads tokens on the command line.

A key is only ever read from a file and a token from standard input: the arguments of a process can be seen by everyone
on the machine.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

import msgspec

from turnwire.gateway.principals import Level
from turnwire.gateway.tokens import MAX_TOKEN_CHARACTERS, Key, TokenAuthenticator, create_token, read_key
from turnwire_protocol.codes import RequestError

KEY_VARIABLE: Final = "TURNWIRE_KEY_FILE"
AUDIENCE_VARIABLE: Final = "TURNWIRE_AUDIENCE"

DEFAULT_LIFETIME_SECONDS: Final = 3600

EXAMPLES: Final = """\
examples:
  head -c 48 /dev/urandom | base64 > turnwire.key
      a secret, for HS256: whoever can check tokens can also make them
  openssl genpkey -algorithm ed25519 -out turnwire.pem && openssl pkey -in turnwire.pem -pubout -out turnwire.pub
      a pair of keys, for EdDSA: the server needs turnwire.pub only
  turnwire token create --key-file turnwire.key --sub ada
      may create sessions, and owns what it creates
  turnwire token create --key-file turnwire.key --sub guest --role guest --grant ses_1=viewer --lifetime 86400
      may read one session, for a day
  turnwire token check --key-file turnwire.key < token.txt
"""


def add_token_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds `token` to the command line."""
    token = commands.add_parser(
        "token",
        help="make and check tokens",
        description="Makes and checks tokens: JSON Web Tokens, signed with HS256 or EdDSA as the key says.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    actions = token.add_subparsers(dest="token_command", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="print a new token", allow_abbrev=False)
    _add_key_and_audience(create)
    create.add_argument("--sub", metavar="ID", required=True, help="who the token is for: the id of the principal")
    create.add_argument(
        "--role",
        metavar="ROLE",
        action="append",
        help="admin (everything), user (may create sessions; the default), or any other, which allows nothing by"
        " itself; may be repeated",
    )
    create.add_argument(
        "--grant",
        metavar="SESSION=LEVEL",
        action="append",
        default=[],
        help="a level in one session, or in all (*): viewer reads, editor also prompts and answers, owner also archives"
        " and deletes; may be repeated",
    )
    create.add_argument(
        "--lifetime",
        metavar="SECONDS",
        default=str(DEFAULT_LIFETIME_SECONDS),
        help=f"how long the token is good for; default {DEFAULT_LIFETIME_SECONDS}",
    )
    check = actions.add_parser("check", help="read a token from standard input and print what it says")
    _add_key_and_audience(check)


def _add_key_and_audience(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--key-file",
        metavar="PATH",
        help=f"the key: an Ed25519 key in PEM, or a secret of at least 32 bytes [{KEY_VARIABLE}]",
    )
    parser.add_argument(
        "--audience",
        metavar="NAME",
        help=f"the server that the token is for, as `turnwire serve` was told [{AUDIENCE_VARIABLE}]",
    )


def run_token_command(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> int:
    """The exit code: 0, or 1 for a token that is not good. Raises ValueError for wrong arguments."""
    key = _key(options.key_file, environment)
    audience = options.audience if options.audience is not None else environment.get(AUDIENCE_VARIABLE)
    if options.token_command == "create":
        print(_create(options, key, audience))
        return 0
    return _check(key, audience)


def _key(given: str | None, environment: Mapping[str, str]) -> Key:
    path = given if given is not None else environment.get(KEY_VARIABLE)
    if path is None:
        raise ValueError(f"a key is needed: give --key-file or {KEY_VARIABLE}")
    source = "--key-file" if given is not None else KEY_VARIABLE
    try:
        return read_key(Path(path))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _create(options: argparse.Namespace, key: Key, audience: str | None) -> str:
    if not options.lifetime.isdecimal() or not 1 <= int(options.lifetime) <= 10 * 366 * 86_400:
        raise ValueError(f"--lifetime: expected 1 second to 10 years, got {options.lifetime!r}")
    return create_token(
        key,
        subject=options.sub,
        roles=options.role,
        grants=dict(_grant(text) for text in options.grant),
        audience=audience,
        lifetime_s=int(options.lifetime),
        now=time.time(),
    )


def _grant(text: str) -> tuple[str, Level]:
    session_id, _, level = text.rpartition("=")
    for known in get_args(Level):
        if level == known and session_id:
            return session_id, known
    raise ValueError(f"--grant: expected SESSION=viewer, SESSION=editor or SESSION=owner, got {text!r}")


def _check(key: Key, audience: str | None) -> int:
    token = sys.stdin.read(MAX_TOKEN_CHARACTERS + 2).strip()
    try:
        claims = TokenAuthenticator(key, audience=audience).claims(token)
    except RequestError as error:
        print(f"turnwire token check: {error.message}", file=sys.stderr)
        return 1
    print(json.dumps(msgspec.to_builtins(claims), indent=2))
    return 0
