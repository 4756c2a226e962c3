"""What tests of the conformance pack share: running its command, and playing one timeline against a broken server."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import trio

from broken_server import broken_server
from lying_stream import Liar
from turnwire.conformance.server_suite import play_all
from turnwire.conformance.verdict import Verdict
from turnwire_protocol.timelines import ServerTimelines

Map = dict[str, Any]

PATIENCE_SECONDS = 300

Ended = tuple[int, str, str]


def conformance(*arguments: str) -> Ended:
    """Exit code, output and complaints of `turnwire conformance`."""
    done = subprocess.run(
        [sys.executable, "-m", "turnwire", "conformance", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    return done.returncode, done.stdout, done.stderr


async def conformances(*runs: Sequence[str]) -> list[Ended]:
    """The same of several at a time: most of their time they wait."""
    ended: dict[int, Ended] = {}

    async def play(number: int, arguments: Sequence[str]) -> None:
        ended[number] = await trio.to_thread.run_sync(conformance, *arguments)

    async with trio.open_nursery() as nursery:
        for number, arguments in enumerate(runs):
            nursery.start_soon(play, number, arguments)
    return [ended[number] for number in range(len(runs))]


def verdicts_of(output: str) -> list[dict[str, Any]]:
    """The verdicts that it printed with `--json`."""
    verdicts: list[dict[str, Any]] = json.loads(output)
    return verdicts


SECONDS = 30.0
"""What a step may take."""

FOLLOWED = (
    {"do": "connect"},
    {"do": "ask", "frame": {"op": "session.create", "session_id": "$s"}},
    {"do": "ask", "frame": {"op": "subscribe", "session_id": "$s"}},
)
"""Someone follows a Session."""


async def verdict(make: Callable[[], Liar], folder: Path, *steps: Map) -> Verdict:
    """Of a timeline of these steps."""
    content = {"under_test": "server", "timelines": [{"name": "x", "rules": ["T1"], "steps": steps}]}
    file = msgspec.convert(content, ServerTimelines)
    async with broken_server(make, folder, seconds=SECONDS) as server:
        (only,) = await play_all(server, [("x", file)])
    return only
