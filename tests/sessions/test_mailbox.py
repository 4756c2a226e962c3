"""The mailbox: jobs before events, order kept, adjacent deltas joined where nothing stands between (J8, W6)."""

from itertools import groupby, pairwise

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from turnwire.models.base import BlockDelta, BlockEnd, BlockStart
from turnwire.sessions.mailbox import Chore, Job, Mailbox
from turnwire.store.base import ConstraintViolated, NotFound, StoreUnavailable
from turnwire_protocol.codes import RequestError

SOURCES = (object(), object())
EVENTS = st.one_of(
    st.builds(BlockDelta, block=st.integers(0, 2), text=st.text(max_size=3)),
    st.builds(BlockStart, block=st.integers(0, 2), kind=st.just("text")),
    st.builds(BlockEnd, block=st.integers(0, 2)),
)


def text_by_barrier(events: list[tuple[object, object]]) -> list[object]:
    """What the events say, with every run of deltas of one block and source written as its joined text."""
    said: list[object] = []
    for key, run in groupby(events, key=lambda item: (item[0], getattr(item[1], "block", None), type(item[1]))):
        if key[2] is BlockDelta:
            said.append((key[0], key[1], "".join(event.text for _, event in run)))  # type: ignore[attr-defined]
        else:
            said.extend(run)
    return said


@given(st.lists(st.tuples(st.sampled_from(SOURCES), EVENTS), max_size=30))
def test_J8_deltas_are_joined_but_never_across_anything_else(events: list[tuple[object, object]]) -> None:
    async def main() -> list[tuple[object, object]]:
        mailbox = Mailbox(pending_events=100)
        for source, event in events:
            await mailbox.feed(source, event)
        if not events:
            return []
        taken = await mailbox.take()
        assert isinstance(taken, list)
        return taken

    taken = trio.run(main)
    assert text_by_barrier(taken) == text_by_barrier(events)
    for (source, first), (next_source, second) in pairwise(taken):
        mergeable = isinstance(first, BlockDelta) and isinstance(second, BlockDelta) and first.block == second.block
        assert not (mergeable and source is next_source), "adjacent deltas of one block stayed apart"


async def test_T3_a_job_goes_before_the_events_that_wait() -> None:
    mailbox = Mailbox(pending_events=100)
    await mailbox.feed(SOURCES[0], BlockDelta(0, "a"))

    async def action() -> str:
        return "done"

    job = Job(action)
    mailbox.post(job)
    assert await mailbox.take() is job
    assert isinstance(await mailbox.take(), list)
    assert mailbox.empty


async def test_a_provider_is_held_back_while_too_many_events_wait(autojump_clock: trio.testing.MockClock) -> None:
    mailbox = Mailbox(pending_events=3)
    fed: list[int] = []

    async def provider() -> None:
        for number in range(10):
            await mailbox.feed(SOURCES[0], BlockEnd(number))
            fed.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(provider)
        await trio.testing.wait_all_tasks_blocked()
        assert len(fed) == 3
        taken = 0
        while taken < 10:
            events = await mailbox.take()
            assert isinstance(events, list)
            assert len(events) <= 3
            taken += len(events)
    assert fed == list(range(10))


async def test_everyone_who_waits_for_room_gets_it(autojump_clock: trio.testing.MockClock) -> None:
    """A call that is given up may still be saying its last words while the next one begins."""
    mailbox = Mailbox(pending_events=1)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(mailbox.feed, SOURCES[number % 2], BlockEnd(number))
            await trio.testing.wait_all_tasks_blocked()
            taken: list[object] = []
            while len(taken) < 4:
                events = await mailbox.take()
                assert isinstance(events, list)
                taken += [event for _, event in events]
    assert sorted(event.block for event in taken) == [0, 1, 2, 3]  # type: ignore[attr-defined]
    assert mailbox.empty


async def test_a_job_whose_session_ends_is_answered_all_the_same() -> None:
    async def action() -> None:
        await trio.sleep_forever()

    job = Job(action)
    errors: list[Exception] = []

    async def waiter() -> None:
        try:
            await job.wait()
        except Exception as error:  # noqa: BLE001 - what it is, is asserted below
            errors.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiter)
        with trio.CancelScope() as scope:
            scope.cancel()
            await job.run()
    assert [str(error) for error in errors] == ["the session was closed before it could answer"]


@pytest.mark.parametrize("answer", [StoreUnavailable("down"), NotFound("s1"), RequestError("conflict", "taken")])
async def test_an_answer_that_is_an_error_is_for_who_waits(answer: Exception) -> None:
    async def action() -> None:
        raise answer

    job = Job(action)
    await job.run()
    with pytest.raises(type(answer)) as answered:
        await job.wait()
    assert answered.value is answer


@pytest.mark.parametrize("fault", [ZeroDivisionError(), ConstraintViolated("memory is behind")])
async def test_S7_any_other_fault_is_the_sessions_and_who_waits_is_told_that_there_was_one(fault: Exception) -> None:
    async def action() -> None:
        raise fault

    job = Job(action)
    with pytest.raises(type(fault)) as raised:
        await job.run()
    assert raised.value is fault
    with pytest.raises(RequestError) as told:
        await job.wait()
    assert told.value.code == "internal"
    assert told.value.__cause__ is fault


async def test_what_a_chore_raises_reaches_the_session() -> None:
    async def action() -> None:
        raise ZeroDivisionError

    try:
        await Chore(action).run()
    except ZeroDivisionError:
        return
    raise AssertionError("the fault was swallowed")
