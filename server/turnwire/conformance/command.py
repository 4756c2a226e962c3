"""`turnwire conformance`: its arguments, and what it prints."""

import argparse
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import trio

from turnwire.conformance.client_suite import play_clients
from turnwire.conformance.pack import chosen_timelines, pack_folder, timeline_files
from turnwire.conformance.processes import has_folder
from turnwire.conformance.server_suite import JOBS, ServerUnderTest, fresh_servers, play_all
from turnwire.conformance.signer import Signer
from turnwire.conformance.streams import TcpDialer
from turnwire.conformance.verdict import Verdict, table
from turnwire.gateway.tokens import read_key
from turnwire_protocol.timelines import (
    ClientTimelines,
    ServerTimelines,
    TimelineFile,
)

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

DEFAULT_PORT: Final = 80
"""Of `ws://`."""

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


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
    parser.add_argument("--server", metavar="URL", help="a ws:// URL of a server that runs")
    parser.add_argument(
        "--server-command", metavar="COMMAND", help="starts a server; {port}, {data} and {folder} are filled in"
    )
    parser.add_argument("--client", metavar="COMMAND", help="starts a client's driver (see Conformance in SPEC.md)")
    parser.add_argument("--token", help="the token for every hello")
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
        "--seconds", metavar="S", type=float, default=30.0, help="how long an ordinary step may take [30]"
    )
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected an integer from 1 on, got {text!r}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Plays the pack and prints the verdicts; the exit code is 0 when nothing failed, 1 if so, 2 for wrong usage."""
    try:
        files = list(timeline_files(options.timelines or pack_folder()))
        verdicts = trio.run(partial(_run, options, files))
    except (ValueError, OSError) as error:
        print(f"turnwire conformance: {error}", file=sys.stderr)
        return EXIT_USAGE
    if not verdicts:
        print("turnwire conformance: no timeline was chosen", file=sys.stderr)
        return EXIT_USAGE
    print(msgspec.json.encode(verdicts).decode() if options.json else table(verdicts))
    return EXIT_FAILED if any(verdict.outcome == "failed" for verdict in verdicts) else 0


async def _run(options: argparse.Namespace, files: list[tuple[str, TimelineFile]]) -> list[Verdict]:
    for name in ("server_command", "client"):
        if getattr(options, name) is not None and not shlex.split(getattr(options, name)):
            raise ValueError(f"--{name.replace('_', '-')}: expected a command")
    if options.client is not None:
        if options.server is not None or options.server_command is not None:
            raise ValueError("a client and a server cannot be tested at once")
        chosen = chosen_timelines(files, ClientTimelines, options.only)
        return await play_clients(options.client, chosen, jobs=options.jobs, seconds=options.seconds)
    servers = chosen_timelines(files, ServerTimelines, options.only)
    async with _server(options) as server:
        return await play_all(server, servers, jobs=options.jobs)


@asynccontextmanager
async def _server(options: argparse.Namespace) -> AsyncIterator[ServerUnderTest]:
    if options.audience is not None and options.key_file is None:
        raise ValueError("--audience: tokens are made with --key-file only")
    signer = None if options.key_file is None else Signer(read_key(options.key_file), options.audience)
    common = {"token": options.token, "signer": signer, "seconds": options.seconds}
    has = frozenset(options.has)
    if options.server_command is None:
        if options.server is None:
            raise ValueError("give --server, --server-command or --client")
        yield ServerUnderTest(dialer=_dialer(options.server), has=has, **common)
        return
    if has_folder(options.server_command):
        has |= {"workspace"}
    with tempfile.TemporaryDirectory(prefix="turnwire-conformance-") as home:
        fresh = fresh_servers(options.server_command, Path(home))
        if options.server is not None:
            yield ServerUnderTest(dialer=_dialer(options.server), fresh=fresh, has=has, **common)
            return
        async with fresh() as shared:
            yield ServerUnderTest(dialer=shared, fresh=fresh, has=has, **common)


def _dialer(url: str) -> TcpDialer:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:  # such as a port that is no number
        host = None
    if host is None or parts.scheme != "ws":
        raise ValueError(f"--server: expected a URL such as ws://127.0.0.1:8787/ws, got {url!r}")
    return TcpDialer(url, host, port)
