"""A fault at every await: the store fails, or the process dies, at each point of a run that passes through everything.

Whatever the point, all comes to rest by the rules, and the next prompt is answered (S4-S9, T1-T3, P7, W4). The points
are counted, not picked: operations of the store, and steps of the tasks that serve the Session.
"""

from collections.abc import Callable

import pytest
import trio

from simulation.course import run_course
from simulation.faulty_store import Killed, StoreFaults, unavailable
from simulation.scenario import OPERATION_SECONDS, Scenario
from turnwire.store.base import Store
from turnwire.store.memory import open_memory

OUTAGE = 12
"""Operations that fail in a row when the store is away for a while."""


class Count(StoreFaults):
    """No fault: counts the operations of the play."""

    scenario: Scenario

    def __init__(self, number: int = -1) -> None:
        self.number = number
        self.seen = 0

    def before(self, number: int) -> None:
        if self.scenario.playing:
            self.seen += 1
            self.fault(self.seen - 1)

    def fault(self, number: int) -> None:
        """What befalls operation `number` of the play, before it is done."""

    def pause(self) -> float:
        return OPERATION_SECONDS


class FailsOnce(Count):
    def fault(self, number: int) -> None:
        if number == self.number:
            raise unavailable()


class FailsForAWhile(Count):
    def fault(self, number: int) -> None:
        if self.number <= number < self.number + OUTAGE:
            raise unavailable()


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
    """Counts the steps of the tasks that serve the Session, and kills the process before one of them."""

    def __init__(self, number: int = -1) -> None:
        self.scenario: Scenario | None = None
        self.number = number
        self.seen = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.scenario is None or not self.scenario.playing or not _serves(task):
            return
        self.seen += 1
        if self.seen - 1 == self.number:
            self.scenario.world.kill()


def _serves(task: trio.lowlevel.Task | None) -> bool:
    while task is not None:
        if task.name.endswith("Registry.run"):
            return True
        task = task.parent_nursery.parent_task if task.parent_nursery is not None else None
    return False


def run(faults: Count, steps: Steps | None = None) -> Scenario:
    def make(store: Store, nursery: trio.Nursery) -> Scenario:
        scenario = Scenario(store, nursery, faults)
        faults.scenario = scenario
        if steps is not None:
            steps.scenario = scenario
        return scenario

    instruments = [] if steps is None else [steps]
    scenario = run_course(make, seed=1, open_store=open_memory, instruments=instruments)
    assert isinstance(scenario, Scenario)
    return scenario


@pytest.fixture(scope="module")
def operations() -> int:
    """How many operations the run without a fault has."""
    faults = Count()
    run(faults)
    return faults.seen


def test_the_scenario_passes_through_everything() -> None:
    scenario = run(Count())
    assert not scenario.journal.broken, scenario.journal.report()
    outcomes = {asked.request_id: [receipt.outcome for receipt in asked.receipts] for asked in scenario.users.asked}
    assert outcomes == {"r1": ["started", "duplicate"], "r2": ["steered"], "r3": ["queued"], "last": ["started"]}
    assert len(scenario.users.answered) == 2
    assert [call.attempt for call in scenario.model.calls] == [1, 2, 1, 1, 1, 1]
    assert any("stop -> StopResult(stopped=True" in line for line in scenario.journal.lines)
    assert len(scenario.world.tools.started) == 4


@pytest.mark.parametrize("kind", [FailsOnce, FailsForAWhile, DiesBefore, DiesAfter])
def test_S9_T1_any_operation_of_the_store_may_fail_or_be_the_last(kind: type[Count], operations: int) -> None:
    assert operations > 30
    check_each(operations, lambda number: run(kind(number)))


def test_S6_S7_the_process_may_die_before_any_step_of_its_tasks() -> None:
    counted = Steps()
    run(Count(), counted)
    assert counted.seen > 200
    check_each(counted.seen, lambda number: run(Count(), Steps(number)))


def check_each(points: int, run: Callable[[int], Scenario]) -> None:
    for number in range(points):
        journal = run(number).journal
        assert not journal.broken, f"fault at point {number} of {points}\n{journal.report()}"
