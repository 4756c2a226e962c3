"""`turnwire conformance`: plays what its arguments say, and prints the verdicts."""

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
import trio

from turnwire.conformance.arguments import TOKEN_VARIABLE
from turnwire.conformance.client_suite import play_clients
from turnwire.conformance.pack import chosen_timelines, pack_folder, timeline_files
from turnwire.conformance.processes import has_folder
from turnwire.conformance.server_suite import ServerUnderTest, fresh_servers, play_all
from turnwire.conformance.signer import Signer
from turnwire.conformance.streams import TcpDialer
from turnwire.conformance.verdict import Verdict, table
from turnwire.gateway.tokens import read_key
from turnwire_protocol.timelines import (
    ClientTimelines,
    ServerTimelines,
    TimelineFile,
)

DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


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
    token = options.token if options.token is not None else os.environ.get(TOKEN_VARIABLE)
    common = {"token": token, "signer": signer, "seconds": options.seconds}
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
        host, port = parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme]
    except (ValueError, KeyError):  # such as a port that is no number
        host = None
    if host is None:
        raise ValueError(f"--server: expected a URL such as ws://127.0.0.1:8787/ws, got {url!r}")
    return TcpDialer(url, host, port)
