"""The writer thread: groups, order, isolation of failures, and callers that go away."""

import random
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import apsw
import pytest
import trio
import trio.testing

from store.builders import agent, create, messages, newest, open_store, save, sequences, text, user
from turnwire.store.base import ConstraintViolated, StoreUnavailable
from turnwire.store.writer import Writer
from turnwire.store.writer_thread import GROUP

PATIENCE_SECONDS = 60


@asynccontextmanager
async def open_writer() -> AsyncGenerator[tuple[Writer, apsw.Connection]]:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
    writer = Writer(connection, trio.lowlevel.current_trio_token(), retry_seconds=PATIENCE_SECONDS)
    writer.start()
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            yield writer, connection
    finally:
        await writer.aclose()


def insert(number: int) -> Callable[[apsw.Connection], int]:
    def work(connection: apsw.Connection) -> int:
        connection.execute("INSERT INTO numbers VALUES (?)", (number,))
        return number

    return work


def numbers(connection: apsw.Connection) -> list[object]:
    return [number for (number,) in connection.execute("SELECT number FROM numbers ORDER BY rowid")]


def meets_damage(connection: apsw.Connection) -> None:
    raise apsw.CorruptError("the page is damaged")


class Gate:
    """A job that holds the thread until it is opened, so that others must wait together."""

    def __init__(self) -> None:
        self.reached = trio.Event()
        self._open = threading.Event()
        self._token = trio.lowlevel.current_trio_token()

    def __call__(self, connection: apsw.Connection) -> None:
        self._token.run_sync_soon(self.reached.set)
        assert self._open.wait(PATIENCE_SECONDS)

    def open(self) -> None:
        self._open.set()


async def test_D1_what_waits_shares_one_transaction_and_keeps_its_order() -> None:
    async with open_writer() as (writer, _), trio.open_nursery() as nursery:
        gate = Gate()
        nursery.start_soon(writer.run, gate)
        await gate.reached.wait()
        order: list[int] = []

        async def add(number: int) -> None:
            order.append(await writer.run(insert(number)))

        for number in range(GROUP + 10):
            nursery.start_soon(add, number)
        await trio.testing.wait_all_tasks_blocked()
        assert (writer.commits, order) == (0, [])
        gate.open()
        assert await writer.run(numbers) == sorted(range(GROUP + 10))
    assert sorted(order) == list(range(GROUP + 10))
    assert (writer.transactions, writer.commits) == (3, GROUP + 12)


async def test_rule_7_a_job_that_fails_takes_nothing_with_it() -> None:
    async with open_writer() as (writer, _):
        gate = Gate()
        results: dict[str, object] = {}

        async def attempt(name: str, work: Callable[[apsw.Connection], object]) -> None:
            try:
                results[name] = await writer.run(work)
            except (ConstraintViolated, ZeroDivisionError) as error:
                results[name] = type(error)

        def half(connection: apsw.Connection) -> None:
            insert(7)(connection)
            insert(1)(connection)

        def broken(connection: apsw.Connection) -> float:
            return insert(8)(connection) / 0

        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run, gate)
            await gate.reached.wait()
            for name, work in (("one", insert(1)), ("half", half), ("broken", broken), ("two", insert(2))):
                nursery.start_soon(attempt, name, work)
                await trio.testing.wait_all_tasks_blocked()
            gate.open()
        assert results == {"one": 1, "half": ConstraintViolated, "broken": ZeroDivisionError, "two": 2}
        assert (writer.transactions, writer.commits) == (2, 3)
        assert await writer.run(numbers) == [1, 2]


async def test_D4_a_job_that_meets_a_broken_file_is_a_problem_although_the_others_are_stored() -> None:
    async with open_writer() as (writer, _):
        with pytest.raises(StoreUnavailable, match="the page is damaged"):
            await writer.run(meets_damage)
        assert writer.problem is not None
        assert "the page is damaged" in writer.problem
        await writer.run(insert(1))
        assert writer.problem is None
        assert await writer.run(numbers) == [1]


async def test_D4_a_problem_is_told_by_its_first_cause_until_that_is_gone() -> None:
    async with open_writer() as (writer, _):
        with pytest.raises(StoreUnavailable):
            await writer.run(meets_damage)
        first = writer.problem
        writer.doubt(numbers, "the numbers cannot be read")
        assert writer.problem == first
        await writer.run(insert(1))
        assert writer.problem == "the numbers cannot be read"


async def test_D4_a_transaction_that_sqlite_has_rolled_back_by_itself_is_told_by_its_cause() -> None:
    def rolled_back(connection: apsw.Connection) -> None:
        insert(1)(connection)
        connection.execute("ROLLBACK")  # as SQLite does where the disk is full in the middle of a statement
        raise apsw.FullError("the disk is full")

    async with open_writer() as (writer, _):
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await writer.run(rolled_back)
        await writer.run(insert(2))
        assert await writer.run(numbers) == [2]


async def test_D4_a_transaction_that_could_not_even_be_rolled_back_hinders_no_later_one() -> None:
    def sticks(connection: apsw.Connection) -> None:
        insert(1)(connection)
        connection.exec_trace = refuse_the_end

    def refuse_the_end(cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
        if statement == "ROLLBACK":
            cursor.connection.exec_trace = None
        elif statement != "COMMIT":
            return True
        raise apsw.IOError(f"the disk was told to fail at {statement}")

    async with open_writer() as (writer, _):
        with pytest.raises(StoreUnavailable, match="told to fail"):
            await writer.run(sticks)
        await writer.run(insert(2))
        assert await writer.run(numbers) == [2]


async def test_rule_1_a_job_goes_on_without_its_caller() -> None:
    async with open_writer() as (writer, _):
        gate = Gate()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run, gate)
            await gate.reached.wait()
            with trio.CancelScope() as scope:
                nursery.start_soon(_cancel_when_blocked, scope)
                await writer.run(insert(1))
            assert scope.cancelled_caught
            gate.open()
        assert await writer.run(numbers) == [1]


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()


async def test_rule_1_a_caller_that_was_cancelled_before_stores_nothing() -> None:
    async with open_writer() as (writer, _):
        with trio.CancelScope() as scope:
            scope.cancel()
            await writer.run(insert(1))
        assert await writer.run(numbers) == []


async def test_closing_lets_accepted_jobs_finish_and_refuses_others() -> None:
    results: list[object] = []
    async with open_writer() as (writer, _), trio.open_nursery() as nursery:
        gate = Gate()

        async def add(number: int) -> None:
            results.append(await writer.run(insert(number)))

        nursery.start_soon(writer.run, gate)
        await gate.reached.wait()
        nursery.start_soon(add, 1)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(writer.aclose)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(StoreUnavailable, match="closed"):
            await writer.run(insert(2))
        gate.open()
    assert results == [1]


async def test_closing_is_waited_for_also_by_a_caller_that_is_cancelled() -> None:
    async with open_writer() as (writer, connection):
        with trio.CancelScope() as scope:
            scope.cancel()
            await writer.aclose()
        with pytest.raises(apsw.ConnectionClosedError):
            connection.execute("SELECT 1")


@pytest.mark.parametrize("seed", range(3))
async def test_rule_1_cancelled_callers_leave_the_store_whole(seed: int) -> None:
    """Callers give up at any moment; each commit is there as a whole or not at all, and hinders no later one."""
    chance = random.Random(seed)
    async with open_store("sqlite") as store:
        await store.commit([create(f"s{number}") for number in range(8)])
        acknowledged: dict[str, int] = {}
        given_up: list[str] = []

        async def write(session_id: str) -> None:
            for _ in range(40):
                total = (await store.session(session_id)).message_count
                pair = save(
                    user(total + 1, session_id=session_id),
                    agent(total + 2, text(f"{session_id}-x{total}"), session_id=session_id),
                )
                patience = chance.random() * 0.002 if chance.random() < 0.75 else PATIENCE_SECONDS
                with trio.move_on_after(patience) as scope:
                    await store.commit(pair)
                if not scope.cancelled_caught:
                    acknowledged[session_id] = total + 2
                else:
                    given_up.append(session_id)
                    # The abandoned commit may be on its way yet; whatever is committed after it comes after it.
                    await store.commit([create(f"{session_id}-{total}-{chance.random()}")])

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(write, f"s{number}")
        assert acknowledged
        assert given_up
        for number in range(8):
            session_id = f"s{number}"
            total = (await newest(store, session_id)).total
            assert total % 2 == 0, "half a commit was stored"
            assert total >= acknowledged.get(session_id, 0)
            assert sequences(await newest(store, session_id, limit=200)) == list(range(1, total + 1))
            assert all(message["parts"] for message in await messages(store, session_id))
            await store.commit(save(user(total + 1, session_id=session_id)))
        assert store.problem is None
