"""Code of others: what is its own fault, and what goes on to the server (L1, P5, T2, W9)."""

import math

import pytest
import trio

from foreign_code import AT_ONCE, WHEN_CANCELLED, Foreign, OtherLoopCancelled, Torn, name_of
from turnwire.extensions import fault_of


async def run(foreign: Foreign, told: list[BaseException]) -> BaseException | None:
    try:
        await foreign()
    except BaseException as error:  # noqa: BLE001 - this is what is tested
        return fault_of(error, told.append)
    return None


@pytest.mark.parametrize("foreign", AT_ONCE, ids=name_of)
async def test_L1_whatever_code_of_others_raises_is_its_own_fault_and_comes_without_groups(foreign: Foreign) -> None:
    told: list[BaseException] = []
    assert isinstance(await run(foreign, told), OtherLoopCancelled | SystemExit | GeneratorExit)
    assert told == []


async def test_T3_a_cancellation_goes_on_and_the_fault_beside_it_is_told() -> None:
    told: list[BaseException] = []
    with trio.move_on_after(0) as scope:
        await run(WHEN_CANCELLED[0], told)
    assert scope.cancelled_caught
    assert [type(error) for error in told] == [Torn]


async def test_T3_a_fault_instead_of_a_cancellation_is_a_fault() -> None:
    told: list[BaseException] = []
    with trio.move_on_after(0) as scope:
        fault = await run(WHEN_CANCELLED[1], told)
    assert not scope.cancelled_caught
    assert isinstance(fault, OtherLoopCancelled)


def test_L1_several_faults_stay_together_and_an_interruption_by_the_user_goes_on() -> None:
    both = ExceptionGroup("two", [Torn(), Torn()])
    told: list[BaseException] = []
    assert fault_of(both, told.append).exceptions == both.exceptions  # type: ignore[attr-defined]
    interruption = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as interrupted:
        fault_of(interruption, told.append)
    assert interrupted.value is interruption
    with pytest.raises(BaseExceptionGroup) as mixed:
        fault_of(BaseExceptionGroup("nursery", [ExceptionGroup("inner", [Torn()]), interruption]), told.append)
    assert mixed.value.exceptions == (interruption,)
    assert [type(error) for error in told] == [Torn]


async def test_T2_a_cancellation_is_theirs_where_nothing_of_ours_is_cancelled() -> None:
    told: list[BaseException] = []
    with trio.CancelScope(deadline=-math.inf), pytest.raises(trio.Cancelled) as cancelled:
        await trio.lowlevel.checkpoint()
    assert fault_of(cancelled.value, told.append) is cancelled.value
    both = BaseExceptionGroup("nursery", [cancelled.value, Torn()])
    assert fault_of(both, told.append) is both
    assert told == []
