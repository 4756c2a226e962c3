"""The bars of the whole server that no peer is needed for, a part of `python -m bench`."""

import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time

import trio
from websockets.trio.client import connect

from bench.fanout.run import GATEWAY, TRIO_LOOP, WHOLE, Scenario, Server, measure, running
from bench.rows import Row, row
from gateway_world import gateway_world
from turnwire import Turnwire
from turnwire.conformance.streams import TcpDialer
from turnwire.gateway import GatewaySettings
from turnwire.gateway.outbox import OutboxLimits
from turnwire.gateway.wire import wire_parts_of
from turnwire.sessions.channel import EndReason, Listener, Published, SnapshotFrames
from turnwire.sessions.registry import Registry
from turnwire.store.base import CreateSession, SaveMessage, SessionRecord
from turnwire.store.sqlite import open_sqlite
from turnwire_protocol.messages import Config, UserMessage
from turnwire_protocol.parts import TextInput, TextPart

IDLE_CLIENTS = (100, 600)
"""What the first ones take is not counted: among it is what is made once, and memory that imports have left free."""
SHORT, LONG = 50, 50_000
DELTA_BYTES = 10


class Nobody:
    """A watcher that looks at nothing."""

    @property
    def listener(self) -> Listener:
        return self

    def joined(self, snapshot: SnapshotFrames) -> None: ...

    def published(self, item: Published) -> None: ...

    def restarted(self, session_id: str) -> None: ...

    def ended(self, session_id: str, reason: EndReason) -> None: ...


# ------------------------------------------------------------------------------------------------- over real sockets


def token_rate(rounds: int, load: Path) -> Row:
    """How much longer the same paced answer takes to arrive at 20 clients than at one (Z6)."""
    scenario = Scenario("paced", clients=1, frames=1_000, per_turn=1, interval_ms=1)

    def seconds(clients: int) -> float:
        return measure(WHOLE, replace(scenario, clients=clients), load).seconds

    return row("time of one paced answer: 20 subscribers to 1", 1.1, [(seconds(1), seconds(20)) for _ in range(rounds)])


def whole_path(rounds: int, load: Path) -> Row:
    scenario = Scenario("whole", clients=500, frames=1_000, per_turn=1, interval_ms=0)
    pairs = [(measure(GATEWAY, scenario, load).cpu_us, measure(WHOLE, scenario, load).cpu_us) for _ in range(rounds)]
    return row("CPU of a delta at 500 clients: whole path to gateway alone", 1.5, pairs)


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def idle_bytes(server: Server, load: Path) -> float:
    """What one connection that has joined and then says nothing adds to the server's memory."""
    few, many = (resident_with(clients, server, load) for clients in IDLE_CLIENTS)
    return (many - few) / (IDLE_CLIENTS[1] - IDLE_CLIENTS[0])


def resident_with(clients: int, server: Server, load: Path) -> int:
    with running(server, Scenario("idle", clients, frames=1, per_turn=1, interval_ms=0)) as (process, port):
        command = [str(load), str(port), server.path, str(clients), "1", str(server.greetings), *server.texts]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as generator:
            try:
                assert generator.stdout is not None
                assert generator.stdout.readline() == "ready\n"
                return resident_bytes(process.pid)
            finally:
                generator.kill()


def idle_memory(rounds: int, load: Path) -> Row:
    pairs = [(idle_bytes(TRIO_LOOP, load), idle_bytes(GATEWAY, load)) for _ in range(rounds)]
    return row("memory of an idle connection: turnwire to bare websockets.trio", 1.5, pairs)


# -------------------------------------------------------------------------------------------------------- in process


async def fill(path: Path, session_id: str, messages: int) -> None:
    """A Session of so many Messages."""
    async with open_sqlite(path) as store:
        await store.commit(
            [CreateSession(SessionRecord(session_id=session_id, config=Config(), created_at=1, updated_at=1))]
        )
        for start in range(1, messages + 1, 1_000):
            await store.commit(
                [SaveMessage(plain(session_id, n)) for n in range(start, min(start + 1_000, messages + 1))]
            )


def plain(session_id: str, sequence: int) -> UserMessage:
    return UserMessage(
        message_id=f"{session_id}-{sequence}",
        session_id=session_id,
        sequence=sequence,
        revision=1,
        created_at=1,
        updated_at=1,
        parts=(TextPart(part_id=f"p{sequence}", sequence=1, text="some words of a message " * 8),),
    )


async def cpu_of(action: Callable[[], Awaitable[object]]) -> float:
    began = process_time()
    await action()
    return process_time() - began


async def joining(folder: Path, rounds: int) -> Row:
    """A join of a long Session to that of a short one, both opened anew each time (Z5)."""
    path = folder / "join.db"
    await fill(path, "short", SHORT)
    await fill(path, "long", LONG)

    async def join(sessions: Registry, session_id: str) -> None:
        for _ in range(100):
            watcher = Nobody()
            await sessions.join(session_id, watcher)
            sessions.leave(session_id, watcher)
            sessions.evict_idle()

    async with Turnwire(path).open() as sessions:
        await join(sessions, "short")
        pairs = [
            (await cpu_of(lambda: join(sessions, "short")), await cpu_of(lambda: join(sessions, "long")))
            for _ in range(rounds)
        ]
    return row(f"joining a Session of {LONG:,} Messages to one of {SHORT}", 1.2, pairs)


async def growing(folder: Path, rounds: int) -> Row:
    """Twice the deltas into one Part (Z2)."""
    async with Turnwire(folder / "grow.db").open() as sessions:

        async def answer(deltas: int) -> None:
            created = await sessions.create()
            async with sessions.open(created.session_id) as session:
                turn = await session.prompt(f"/text {deltas * DELTA_BYTES} {DELTA_BYTES}")
                assert (await turn.finished()).status == "completed"

        pairs = []
        for _ in range(rounds):
            half = await cpu_of(lambda: answer(50_000))
            pairs.append((half, await cpu_of(lambda: answer(100_000))))
    return row("CPU of 100,000 deltas into one Part to that of 50,000", 2.2, pairs)


async def idle_sessions(folder: Path, rounds: int) -> Row:
    """The same answer on a server where 200 other Sessions lie watched and idle in memory, and on one without."""

    async def answer(sessions: Registry, session_id: str) -> None:
        async with sessions.open(session_id) as session:
            assert (await (await session.prompt("/text 200000 20")).finished()).status == "completed"

    async with Turnwire(folder / "alone.db").open() as alone, Turnwire(folder / "idle.db").open() as crowded:
        for _ in range(200):
            other = await crowded.create()
            await crowded.join(other.session_id, Nobody())
        pairs = []
        ours = [(sessions, (await sessions.create()).session_id) for sessions in (alone, crowded)]
        for sessions, session_id in ours:
            await answer(sessions, session_id)
        for _ in range(rounds):
            first, second = [await cpu_of(partial(answer, *each)) for each in ours]
            pairs.append((first, second))
    return row("CPU of an answer: beside 200 idle Sessions to alone", 1.1, pairs)


async def reconnecting(folder: Path) -> Row:
    """How many snapshots are encoded for 1,000 clients that come back to one Session at once (R5)."""
    async with Turnwire(folder / "back.db").open() as sessions:
        created = await sessions.create()
        await sessions.prompt(created.session_id, parts=(TextInput("/echo hello"),), client_request_id="r")
        async with sessions.open(created.session_id) as session:
            await session.stop()
        taken: set[int] = set()

        class Taker(Nobody):
            def joined(self, snapshot: SnapshotFrames) -> None:
                taken.add(id(wire_parts_of(snapshot, "json")))

        watchers = [Taker() for _ in range(1_000)]
        async with trio.open_nursery() as nursery:
            for watcher in watchers:
                nursery.start_soon(sessions.join, created.session_id, watcher)
    return Row("snapshots encoded for 1,000 clients that reconnect", len(taken), (len(taken), len(taken)), 1)


async def stalled_reader() -> Row:
    """The most that waits for a client that reads nothing, while 40 times its bound is said to it (W6, Z1)."""
    limits = OutboxLimits()
    bound = limits.outbox_bytes + limits.join_bytes
    text, peak = "x" * 4_000, 0
    settings = GatewaySettings(outbox_bytes=limits.outbox_bytes, write_timeout_s=3_600)
    async with gateway_world(settings, network=True) as world:
        session = world.sessions.add("s")
        url = f"ws://127.0.0.1:{world.port}/ws"
        stream = await TcpDialer(url, "127.0.0.1", world.port).open_stream(slow=True)
        with trio.CancelScope() as scope:
            async with connect(url, stream=stream, max_queue=1, ping_interval=None) as socket:
                for request in ('{"op":"hello","id":1}', '{"op":"subscribe","id":2,"session_id":"s"}'):
                    await socket.send(request)
                while not session.channel.watched:  # noqa: ASYNC110 - it watches without a word to us
                    await trio.sleep(0.001)
                for _ in range(40 * bound // len(text)):
                    world.sessions.say("s", text)
                    await trio.lowlevel.checkpoint()
                    peak = max(peak, world.gateway.pending_bytes)
                scope.cancel()  # a client that does not read cannot close in order
    assert peak > limits.outbox_bytes // 2, "the client was not slow"
    return Row("bytes that wait for a client that reads nothing, to the bound", peak / bound, (peak / bound,) * 2, 1)


def over_sockets(rounds: int, load: Path) -> list[Row]:
    return [token_rate(rounds, load), whole_path(rounds, load), idle_memory(rounds, load)]


async def in_process(folder: Path, rounds: int) -> list[Row]:
    found = [await measurement(folder, rounds) for measurement in (joining, growing, idle_sessions)]
    return [*found, await reconnecting(folder), await stalled_reader()]
