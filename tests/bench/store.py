"""How fast the store commits and reads: `PYTHONPATH=tests python -m bench.store`.

A checkpoint is one Agent Message with five Parts, saved again at a greater revision, durable (`synchronous=FULL`). What
counts are the ratios, since absolute times say more about the disk than about the store.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import trio

from bench.rows import Row, row
from store.builders import agent, create, save, text
from turnwire.store.base import Operation
from turnwire.store.sqlite import SqliteStore, open_sqlite
from turnwire_protocol.messages import Message

SESSIONS = 100
CHECKPOINTS = 10
"""Of each Session."""

PARTS = 5
PART_BYTES = 400
LENGTHS = (50, 5_000, 50_000)
PAGE = 50
PAGES = 200


def checkpoint(session_id: str, revision: int) -> list[Operation]:
    parts = [
        text(f"{session_id}-p{n}", n, f"{revision}".ljust(PART_BYTES, "x"), state="done") for n in range(1, PARTS + 1)
    ]
    return save(agent(1, *parts, session_id=session_id, revision=revision))


def message(session_id: str, sequence: int) -> Message:
    parts = (text(f"p{sequence}-{n}", n, "x" * PART_BYTES, state="done") for n in range(1, PARTS + 1))
    return agent(sequence, *parts, session_id=session_id)


async def write(store: SqliteStore, session_id: str, turn: trio.Lock | None) -> None:
    for revision in range(1, CHECKPOINTS + 1):
        if turn is None:
            await store.commit(checkpoint(session_id, revision))
        else:
            async with turn:
                await store.commit(checkpoint(session_id, revision))


async def measure_commits(path: Path, *, grouped: bool) -> float:
    """Checkpoints a second, of SESSIONS Sessions at once."""
    async with open_sqlite(path) as store:
        await store.commit([create(f"s{n}") for n in range(SESSIONS)])
        transactions, began, cpu = store.transactions, perf_counter(), process_time()
        turn = None if grouped else trio.Lock()
        async with trio.open_nursery() as nursery:
            for n in range(SESSIONS):
                nursery.start_soon(write, store, f"s{n}", turn)
        seconds, cpu = perf_counter() - began, process_time() - cpu
        count = SESSIONS * CHECKPOINTS
        print(
            f"{'grouped' if grouped else 'one transaction each':22} {count / seconds:8.0f} checkpoints/s"
            f" {cpu / count * 1e6:6.0f} us CPU each, {count / (store.transactions - transactions):5.1f} a transaction"
        )
        return count / seconds


async def measure_pages(folder: Path) -> list[float]:
    """Milliseconds to read the newest page of Sessions of each length, in turns, so that all meet the same load."""
    async with open_sqlite(folder / "pages.db") as store:
        for length in LENGTHS:
            await store.commit([create(f"s{length}")])
            for first in range(1, length + 1, 500):
                numbers = range(first, min(first + 500, length + 1))
                await store.commit(save(*(message(f"s{length}", number) for number in numbers)))
        times: dict[int, list[float]] = {length: [] for length in LENGTHS}
        for _ in range(PAGES):
            for length in LENGTHS:
                began = perf_counter()
                page = await store.page(f"s{length}", before_sequence=None, limit=PAGE, include_internal=False)
                times[length].append(perf_counter() - began)
                assert len(page.items) == PAGE
        medians = [sorted(times[length])[PAGES // 2] * 1e3 for length in LENGTHS]
        for length, median in zip(LENGTHS, medians, strict=True):
            print(f"page of {PAGE} in a Session of {length:6} Messages {median:8.2f} ms (median of {PAGES})")
        return medians


async def grouping(folder: Path, rounds: int) -> Row:
    """What a checkpoint takes when those of all Sessions share transactions, to what it takes alone."""
    pairs = []
    for number in range(rounds):
        grouped = await measure_commits(folder / f"grouped-{number}.db", grouped=True)
        pairs.append((grouped, await measure_commits(folder / f"alone-{number}.db", grouped=False)))
    return row(f"time of a checkpoint: grouped over {SESSIONS} Sessions to a transaction each", 0.1, pairs)


async def main() -> None:
    with TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        print((await grouping(folder, 3)).line())
        medians = await measure_pages(folder)
        print(f"page of the longest / of the shortest Session: {medians[-1] / medians[0]:.2f}")


if __name__ == "__main__":
    trio.run(main)
