"""The arguments of `turnwire conformance`, without the pack: every command reads them, and only one plays it."""

import argparse
from pathlib import Path
from typing import Any, Final

EXAMPLES: Final = """\
examples:
  turnwire conformance --server ws://127.0.0.1:8787/ws
      a server that runs already; timelines that start and kill it are left out
  turnwire conformance --server-command \\
      'turnwire serve --port {port} --data {data} --workspace {folder} --tick-ms 500'
      everything, on servers that are started for it
  turnwire conformance --server-command 'turnwire serve --port {port} --data {data} --key-file turnwire.key' \\
      --key-file turnwire.key
      also what tokens and grants allow
  turnwire conformance --client 'python -m turnwire.conformance.python_client'
      a client program, driven over its standard input and output
"""

TOKEN_VARIABLE: Final = "TURNWIRE_TOKEN"

JOBS: Final = 8
"""How many timelines are played at a time."""


def add_parser(commands: Any) -> None:
    """Adds `conformance` to the commands of `turnwire`."""
    parser = commands.add_parser(
        "conformance",
        help="test a server or a client against the protocol",
        description="Plays the conformance pack against a server (whose model is the scripted one) or a client.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--server", metavar="URL", help="a ws:// or wss:// URL of a server that runs")
    parser.add_argument(
        "--server-command", metavar="COMMAND", help="starts a server; {port}, {data} and {folder} are filled in"
    )
    parser.add_argument("--client", metavar="COMMAND", help="starts a client's driver (see Conformance in SPEC.md)")
    parser.add_argument(
        "--token", help=f"the token for every hello; in {TOKEN_VARIABLE} it is hidden from others on this machine"
    )
    parser.add_argument(
        "--key-file", metavar="PATH", type=Path, help="the key that the server checks tokens with, to make some"
    )
    parser.add_argument("--audience", metavar="NAME", help="whom the server takes tokens for, if it was told so")
    parser.add_argument(
        "--has", metavar="NEED", action="append", default=[], help="what the server can, such as workspace"
    )
    parser.add_argument("--only", metavar="TEXT", help="only timelines with this in their name, file or rules")
    parser.add_argument("--timelines", metavar="FOLDER", type=Path, help="other timelines than the built-in ones")
    parser.add_argument("--jobs", metavar="N", type=_count, default=JOBS, help=f"timelines at a time [{JOBS}]")
    parser.add_argument(
        "--seconds", metavar="S", type=_seconds, default=30.0, help="how long an ordinary step may take [30]"
    )
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected an integer from 1 on, got {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:  # nor is "nan" a time
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return value
