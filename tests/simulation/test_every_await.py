"""A fault at every await: the store fails, or the process dies, at points of runs that pass through all awaits.

Whatever the point, all comes to rest by the rules, and the next prompt is answered (S4-S9, T1-T3, P7, W4). The points
are counted, not picked: operations of the store, and steps of the process's tasks. Of those that stand at the same
awaits the first is tried, in the shortest run the first after each operation of the store; `make simulation` tries all
in each. Which awaits of Sessions and Composer no run waits at is said here, and why.
"""

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import pytest
import trio

import turnwire.context
import turnwire.sessions
from simulation.awaits import Await, Awaits
from simulation.course import run_course
from simulation.faulty_store import Killed, SimulatedBug, StoreFaults, unavailable
from simulation.scenario import OPERATION_SECONDS, Scenario
from simulation.scenarios import Busy, Embedded, Unlucky
from turnwire.store.base import Store
from turnwire.store.memory import open_memory

OUTAGE = 12
"""Operations that fail in a row when the store is away for a while."""

SCENARIOS = (Busy, Unlucky, Embedded)
AWAITS = Awaits([turnwire.sessions, turnwire.context])

EVERY_POINT = bool(os.environ.get("TURNWIRE_EVERY_POINT"))

NEVER_WAIT = {
    "context.composer.Composer.advance_context: async with"
    " aclosing(self._transcript(bounds.session_id, after, through)) as texts":
        "the transcript has come to its end when it is closed",
    "sessions.background._collect: async with aclosing(stream) as events":
        "closing a model's stream does not wait here",
    "sessions.draining.drain: await session.until_rested()": "the play's drain finds no Session that is storing",
    "sessions.handles.SessionHandle.interactions: await self._registry.interactions(self.session_id)":
        "a handle keeps its Session in memory, where they are",
    "sessions.loop.TurnLoop.close_turn: await turn.changes.summarise()": "short texts are compared at once",
    "sessions.loop.TurnLoop.stop: await active.changes.summarise()": "short texts are compared at once",
    "sessions.mailbox.Mailbox.feed: await trio.lowlevel.checkpoint_if_cancelled()": "who is not cancelled goes on",
    "sessions.model_calls._feed_events: async with aclosing(stream) as events":
        "closing a model's stream does not wait here",
    "sessions.model_calls.run_call: await session.mailbox.feed(call, CallEnded(error))":
        "it waits as the feed of any event does, if exactly as many are pending as may be",
    "sessions.registry.Registry.delete.delete: await session.loop.stop()":
        "the one Session that is deleted in the play has no Turn; that of every run is, with one, but in the end",
    "sessions.residents.Residents.run: async with trio.open_nursery() as self._nursery":
        "it ends with the process only",
    "sessions.session.Session.until_rested: await self._rested.wait()":
        "the play's drain finds no Session that is storing",
    "sessions.tool_calls.ToolCalls._run_task: await trio.lowlevel.checkpoint_if_cancelled()":
        "who is not cancelled goes on",
}  # fmt: skip
"""Awaits at which no task waits in any scenario, and why not: a new one that is not in this list wants a scenario."""


class Point(NamedTuple):
    """Where a fault may strike."""

    operations: int
    """How many operations of the store have begun: what is stored differs from one number to the next."""
    awaits: tuple[Await, ...]
    """Where the task that is struck stands."""


class Count(StoreFaults):
    """No fault but those of the story: counts the operations of the play."""

    scenario: Scenario

    def __init__(self, number: int = -1) -> None:
        self.number = number
        self.seen = 0

    def before(self, number: int) -> None:
        if self.scenario.playing:
            self.seen += 1
            self.fault(self.seen - 1)
        self.scenario.strike()

    def fault(self, number: int) -> None:
        """What befalls operation `number` of the play, before it is done."""

    def pause(self) -> float:
        return OPERATION_SECONDS


class Marks(Count):
    """Where each operation was asked for, in a run without a fault."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[Point] = []

    def fault(self, number: int) -> None:
        self.points.append(Point(number, AWAITS.here()))


class FailsOnce(Count):
    def fault(self, number: int) -> None:
        if number == self.number:
            raise unavailable()


class FailsForAWhile(Count):
    def fault(self, number: int) -> None:
        if self.number <= number < self.number + OUTAGE:
            raise unavailable()


class MeetsABug(Count):
    """A fault that nobody foresaw: the Session's task fails, or the request."""

    def fault(self, number: int) -> None:
        if number == self.number:
            raise SimulatedBug


class DiesBefore(Count):
    def fault(self, number: int) -> None:
        if number == self.number:
            self.scenario.world.kill()
            raise Killed


class DiesAfter(Count):
    """The operation is done, but whoever asked for it never knows."""

    def after(self, number: int) -> None:
        if self.scenario.playing and self.seen == self.number + 1:
            self.seen += 1
            self.scenario.world.kill()
            raise Killed


class Steps(trio.abc.Instrument):
    """Counts the steps of the process's tasks, and kills it before one of them."""

    def __init__(self, number: int = -1) -> None:
        self.scenario: Scenario | None = None
        self.operations: Count
        self.number = number
        self.seen = 0
        self.points: list[Point] = []
        """Where the task stood before each step, in a run without a fault."""

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.scenario is None or not self.scenario.playing or self.scenario.world.dead or not _serves(task):
            return
        self.seen += 1
        if self.number < 0:
            self.points.append(Point(self.operations.seen, AWAITS.of_task(task)))
        if self.seen - 1 == self.number:
            self.scenario.world.kill()


def _serves(task: trio.lowlevel.Task | None) -> bool:
    """Whether it is one of the process's tasks, those of requests among them."""
    while task is not None:
        if task.name.endswith("World._serve"):
            return True
        task = task.parent_nursery.parent_task if task.parent_nursery is not None else None
    return False


def run(kind: Callable[..., Scenario], faults: Count, steps: Steps | None = None) -> Scenario:
    def make(store: Store, nursery: trio.Nursery) -> Scenario:
        scenario = kind(store, nursery, faults)
        faults.scenario = scenario
        if steps is not None:
            steps.scenario, steps.operations = scenario, faults
        return scenario

    instruments = [] if steps is None else [steps]
    scenario = run_course(make, seed=1, open_store=open_memory, instruments=instruments)
    assert isinstance(scenario, Scenario)
    return scenario


@cache
def points(kind: Callable[..., Scenario]) -> tuple[Marks, Steps]:
    """Where faults may strike, as the run without any has it."""
    operations, steps = Marks(), Steps()
    run(kind, operations, steps)
    return operations, steps


def chosen(kind: type[Scenario], points: Sequence[Point]) -> list[int]:
    """Numbers of points: all, or the first of each way to stand at awaits."""
    if EVERY_POINT:
        return list(range(len(points)))
    ways = [point if kind is Busy else point.awaits for point in points]
    return [number for number, way in enumerate(ways) if way not in ways[:number]]


def test_every_await_is_waited_at_or_it_is_said_why_not() -> None:
    reached = {place for kind in SCENARIOS for point in points(kind)[1].points for place in point.awaits}
    assert {str(place) for place in AWAITS.all - reached} == set(NEVER_WAIT)


def play(kind: type[Scenario]) -> Scenario:
    scenario = run(kind, Count())
    assert not scenario.journal.broken, scenario.journal.report()
    return scenario


def ends(scenario: Scenario) -> list[str]:
    """How the Turns ended, in the order of their prompts."""
    turns = sorted(scenario.rest.turns.values(), key=lambda turn: turn.created_at)
    return [turn.status if turn.error is None else turn.error.code for turn in turns]


def test_a_busy_session_passes_through_everything() -> None:
    scenario = play(Busy)
    outcomes = {asked.request_id: [receipt.outcome for receipt in asked.receipts] for asked in scenario.users.asked}
    assert outcomes == {"r1": ["started", "duplicate"], "r2": ["steered"], "r3": ["queued"], "last": ["started"]}
    assert len(scenario.users.answered) == 2
    assert [call.attempt for call in scenario.model.calls] == [1, 2, 1, 1, 1, 1]
    assert ends(scenario) == ["completed", "stopped", "completed"]
    assert len(scenario.world.tools.started) == 4


def test_an_unlucky_session_passes_through_all_that_may_go_wrong() -> None:
    scenario = play(Unlucky)
    failed = ["context_length", "malformed_stream", "too_many_steps", "invalid_request", "unavailable"]
    assert ends(scenario) == ["completed"] * 3 + failed + ["completed"]
    parts = [part for message in scenario.rest.messages for part in message["parts"]]
    compactions = [part["state"] for part in parts if part.get("action_type") == "context-compaction"]
    assert compactions == ["completed", "failed"]
    assert [part["status"] for part in parts if part["type"] == "interaction"] == ["denied", "expired"]
    assert "length" in [part.get("code") for part in parts]
    assert all(instructed.message is not None for instructed in scenario.users.instructed)


def test_an_embedded_session_is_used_fails_and_is_drained() -> None:
    scenario = play(Embedded)
    assert ends(scenario) == ["completed", "stopped", "runtime_interrupted", "server_shutdown", "completed"]
    assert [result.status for result in scenario.users.results] == ["completed", "stopped", "stopped"]
    assert len(scenario.users.answered) == 2
    assert scenario.users.forks.seen == {"forked", "forked again"}
    assert any("drain -> True" in line for line in scenario.journal.lines)


@pytest.mark.parametrize("kind", SCENARIOS)
@pytest.mark.parametrize("fault", [FailsOnce, FailsForAWhile, MeetsABug, DiesBefore, DiesAfter])
def test_S9_T1_operations_of_the_store_may_fail_or_be_the_last(fault: type[Count], kind: type[Scenario]) -> None:
    operations, _ = points(kind)  # type: ignore[arg-type]  # of a class mypy looks at what its instances have
    assert operations.seen > 30
    check_each(chosen(kind, operations.points), lambda number: run(kind, fault(number)))


@pytest.mark.parametrize("kind", SCENARIOS)
def test_S6_S7_the_process_may_die_before_steps_of_its_tasks(kind: type[Scenario]) -> None:
    _, steps = points(kind)  # type: ignore[arg-type]
    assert steps.seen > 200
    check_each(chosen(kind, steps.points), lambda number: run(kind, Count(), Steps(number)))


def check_each(numbers: Sequence[int], run: Callable[[int], Scenario]) -> None:
    for number in numbers:
        journal = run(number).journal
        assert not journal.broken, f"fault at point {number}\n{journal.report()}"
