"""All timelines against one server: which can be played, several at a time, each to its verdict."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import TypeAlias

import trio
from msgspec import Struct

from turnwire.conformance.arguments import JOBS
from turnwire.conformance.process_steps import ServerControl
from turnwire.conformance.processes import CommandServer, ServerEnded
from turnwire.conformance.server_run import STEP_SECONDS, ServerRun
from turnwire.conformance.signer import Signer
from turnwire.conformance.streams import Dialer
from turnwire.conformance.verdict import Failure, Verdict
from turnwire_protocol.timelines import ServerTimeline, ServerTimelines

FreshServer: TypeAlias = Callable[[], AbstractAsyncContextManager[ServerControl]]


class ServerUnderTest(Struct, frozen=True, kw_only=True):
    """How to reach a server. `fresh` starts one of its own for a timeline that kills it; `has` names what it can."""

    dialer: Dialer
    fresh: FreshServer | None = None
    has: frozenset[str] = frozenset()
    token: str | None = None
    signer: Signer | None = None
    """Makes tokens that it takes."""
    seconds: float = STEP_SECONDS
    """How long a step may take that says nothing else."""

    def lacks(self, timeline: ServerTimeline) -> str | None:
        """Why the timeline cannot be played here, or None."""
        for need in timeline.needs:
            if need == "control":
                if self.fresh is None:
                    return "starts and kills the server: needs --server-command"
            elif need == "tokens":
                if self.signer is None:
                    return "makes tokens of its own: needs --key-file"
            elif need not in self.has:
                return f"needs a server with {need}: --has {need}"
        return None


async def play_all(
    server: ServerUnderTest, files: Iterable[tuple[str, ServerTimelines]], *, jobs: int = JOBS
) -> list[Verdict]:
    """Every timeline, in the order of the files."""
    verdicts: dict[int, Verdict] = {}
    limit = trio.CapacityLimiter(jobs)
    numbers = count()
    async with trio.open_nursery() as nursery:
        for file, content in files:
            for timeline in content.timelines:
                nursery.start_soon(_play_one, server, file, content, timeline, limit, verdicts, next(numbers))
    return [verdicts[number] for number in sorted(verdicts)]


async def _play_one(
    server: ServerUnderTest,
    file: str,
    content: ServerTimelines,
    timeline: ServerTimeline,
    limit: trio.CapacityLimiter,
    verdicts: dict[int, Verdict],
    number: int,
) -> None:
    lack = server.lacks(timeline)
    failure: Failure | None = None
    if lack is None:
        async with limit:
            failure = await _failure_of(server, content, timeline)
    verdicts[number] = Verdict.of(file, timeline, failure, lack or "")


async def _failure_of(server: ServerUnderTest, content: ServerTimelines, timeline: ServerTimeline) -> Failure | None:
    failure: Failure | None = None
    try:
        async with _server_for(server, timeline) as (dialer, control), trio.open_nursery() as nursery:
            run = ServerRun(
                timeline,
                dialer,
                nursery,
                let=content.let,
                control=control,
                token=server.token,
                signer=server.signer,
                seconds=server.seconds,
            )
            try:
                await run.play()
            except Failure as failed:
                failure = failed  # kept, since the nursery would wrap it
            nursery.cancel_scope.cancel()
    except ServerEnded as ended:
        return Failure(str(ended), timeline.rules[0])
    return failure


@asynccontextmanager
async def _server_for(
    server: ServerUnderTest, timeline: ServerTimeline
) -> AsyncIterator[tuple[Dialer, ServerControl | None]]:
    if "control" not in timeline.needs or server.fresh is None:
        yield server.dialer, None
        return
    async with server.fresh() as control:
        yield control, control


def fresh_servers(command: str, home: Path) -> FreshServer:
    """Servers by a command line, each with a folder of its own below `home`."""
    numbers = count(1)

    @asynccontextmanager
    async def fresh() -> AsyncIterator[ServerControl]:
        server = CommandServer(command, home / f"server-{next(numbers)}")
        try:
            await server.start()
            yield server
        finally:
            await server.kill()

    return fresh
