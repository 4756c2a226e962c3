"""All timelines against one client program: one process plays many clients, several at a time."""

from collections.abc import Iterable
from functools import partial
from itertools import count

import trio

from turnwire.conformance.client_run import STEP_SECONDS, ClientRun
from turnwire.conformance.driver import Driver, DriverError, driven
from turnwire.conformance.stage import open_stage
from turnwire.conformance.verdict import Failure, Verdict
from turnwire_protocol.timelines import ClientTimeline, ClientTimelines

READY_SECONDS = 60.0
"""How long the client program may take to say what it can."""


async def play_clients(
    command: str, files: Iterable[tuple[str, ClientTimelines]], *, jobs: int, seconds: float = STEP_SECONDS
) -> list[Verdict]:
    """Every timeline, in the order of the files; `seconds` is for a step that says nothing else.

    Raises OSError or ValueError when the program does not start.
    """
    verdicts: dict[int, Verdict] = {}
    limit = trio.CapacityLimiter(jobs)
    numbers = count()
    async with driven(command) as driver:
        fault = await _fault_of(driver)
        if fault is None:
            async with trio.open_nursery() as nursery:
                for file, content in files:
                    for timeline in content.timelines:
                        play = partial(_play_one, driver, file, content, timeline, seconds=seconds)
                        nursery.start_soon(play, limit, verdicts, next(numbers))
    if fault is not None:
        raise ValueError(f"--client: {fault}")
    return [verdicts[number] for number in sorted(verdicts)]


async def _fault_of(driver: Driver) -> str | None:
    """Why the program is no driver."""
    try:
        with trio.fail_after(READY_SECONDS):
            await driver.wait_ready()
    except DriverError as error:
        return str(error)
    except trio.TooSlowError:
        return f"the client program said nothing for {READY_SECONDS:g} s"
    return None


async def _play_one(
    driver: Driver,
    file: str,
    content: ClientTimelines,
    timeline: ClientTimeline,
    limit: trio.CapacityLimiter,
    verdicts: dict[int, Verdict],
    number: int,
    *,
    seconds: float,
) -> None:
    lacking = sorted(set(timeline.needs) - driver.can)
    failure: Failure | None = None
    if not lacking:
        async with limit:
            failure = await _failure_of(driver, content, timeline, f"c{number}", seconds)
    verdicts[number] = Verdict.of(file, timeline, failure, f"the client cannot {', '.join(lacking)}" if lacking else "")


async def _failure_of(
    driver: Driver, content: ClientTimelines, timeline: ClientTimeline, name: str, seconds: float
) -> Failure | None:
    failure: Failure | None = None
    async with open_stage() as stage, trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_at_fault, driver, nursery.cancel_scope)
        client = driver.client(name)
        try:
            await ClientRun(timeline, client, stage, let=content.let, seconds=seconds).play()
        except Failure as failed:
            failure = failed  # kept, since the nursery would wrap it
        try:
            await client.tell("disconnect", {})
        except DriverError as error:
            failure = failure or Failure(str(error), timeline.rules[0])
        nursery.cancel_scope.cancel()
    if failure is None and driver.fault is not None:
        failure = Failure(driver.fault, timeline.rules[0])
    return failure


async def _cancel_at_fault(driver: Driver, scope: trio.CancelScope) -> None:
    """Nothing that a step waits for can come any more."""
    await driver.faulted.wait()
    scope.cancel()
