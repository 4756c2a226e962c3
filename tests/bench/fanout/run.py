"""The fan-out benchmark, a part of `python -m bench`.

Every server is started in turn and gets the same clients from one load generator; what is compared is the CPU of the
server's process for each delivered frame, and how old frames are on arrival. The rounds interleave the servers, so that
a noisy minute hits all of them; medians are reported, and ratios to the peers, which alone mean something.
"""

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bench.rows import Row, row

HERE = Path(__file__).parent
PACKAGE_JSON = HERE / "package.json"
PACKAGES = HERE / "node_modules"
TESTS = HERE.parent.parent
SUBSCRIBE = ['{"op":"hello","id":1}', '{"op":"subscribe","id":2,"session_id":"ses_0123456789abcdef01234567"}']
TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS = 30


@dataclass(frozen=True)
class Server:
    """One contestant: how it is started, where its WebSocket is and what a client says there."""

    name: str
    command: tuple[str, ...]
    path: str = "/"
    texts: tuple[str, ...] = ()
    greetings: int = 0


@dataclass(frozen=True)
class Scenario:
    """How many clients, how many frames, and how they are paced."""

    name: str
    clients: int
    frames: int
    per_turn: int
    interval_ms: int


@dataclass(frozen=True)
class Sample:
    """CPU of the server in microseconds a delivered frame, ages on arrival in ms, and how long it took in all."""

    cpu_us: float
    seconds: float
    p50_ms: float
    p99_ms: float


def python(name: str) -> tuple[str, ...]:
    return (sys.executable, str(HERE / "peers.py"), name)


def javascript(runtime: str, name: str) -> tuple[str, ...]:
    return (runtime, str(HERE / "peers.mjs"), name, str(PACKAGE_JSON))


GATEWAY = Server("turnwire: gateway alone", python("turnwire_fanout"), "/ws", tuple(SUBSCRIBE), 3)
WHOLE = Server("turnwire: whole path", python("turnwire_whole"), "/ws", tuple(SUBSCRIBE), 3)
TRIO_LOOP = Server("websockets.trio, await send", python("trio_loop"))
NODE_WS = Server("Node ws", javascript("node", "ws"))
BUN = Server("Bun publish (uWebSockets, C++)", javascript(str(PACKAGES / ".bin" / "bun"), "bun"))
FLOOR = Server("floor: a write() for each frame, in C", ())
"""What any server pays that writes to each client for each frame; its command is known when it is compiled."""

SERVERS = (
    GATEWAY,
    NODE_WS,  # between ours: what is compared is measured in the same minute
    WHOLE,
    BUN,
    TRIO_LOOP,
    Server("websockets.asyncio broadcast", python("asyncio_broadcast")),
    Server("picows + uvloop", python("picows")),
    Server("socket.io (Node)", javascript("node", "socketio"), "/socket.io/?EIO=4&transport=websocket", ("40",), 2),
)
BURST = Scenario("500 clients, ten frames a turn", clients=500, frames=1_000, per_turn=10, interval_ms=0)
SINGLE = Scenario("500 clients, one frame a turn", clients=500, frames=1_000, per_turn=1, interval_ms=0)
PACED = Scenario("100 clients, 50 frames/s", clients=100, frames=500, per_turn=1, interval_ms=20)
SCENARIOS = (BURST, SINGLE, PACED)
BARS = {
    BURST.name: ((BUN, "cpu_us", 1.0), (NODE_WS, "cpu_us", 0.5), (TRIO_LOOP, "cpu_us", 0.15)),
    SINGLE.name: ((BUN, "cpu_us", 1.0), (NODE_WS, "cpu_us", 0.5), (TRIO_LOOP, "cpu_us", 0.15)),
    PACED.name: ((NODE_WS, "cpu_us", 1.0), (NODE_WS, "p99_ms", 1.0)),
}
"""What is compared with which peer in each scenario, and the ratio that it should not exceed."""


def cpu_seconds(pid: int) -> float:
    """User and system time of the process and all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.contextmanager
def running(server: Server, scenario: Scenario) -> Iterator[tuple[subprocess.Popen[str], int]]:
    numbers = [str(scenario.frames), str(scenario.per_turn), str(scenario.interval_ms)]
    process = subprocess.Popen(
        [*server.command, *numbers],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def measure(server: Server, scenario: Scenario, load: Path) -> Sample:
    """Runs one scenario against one server."""
    with running(server, scenario) as (process, port):
        generator = subprocess.Popen(
            [
                str(load),
                str(port),
                server.path,
                str(scenario.clients),
                str(scenario.frames),
                str(server.greetings),
                *server.texts,
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert generator.stdout is not None
        with generator:
            try:
                assert generator.stdout.readline() == "ready\n", f"{server.name}: the clients could not connect"
                before = cpu_seconds(process.pid)
                process.send_signal(signal.SIGUSR2)
                answer = json.loads(generator.stdout.readline())
                spent = cpu_seconds(process.pid) - before
            finally:
                generator.kill()
    return Sample(
        cpu_us=spent / answer["frames"] * 1e6,
        seconds=answer["seconds"],
        p50_ms=answer["p50_us"] / 1000,
        p99_ms=answer["p99_us"] / 1000,
    )


def build(folder: Path, name: str) -> Path:
    """Compiles the load generator, `load`, or the `floor`."""
    program = folder / name
    subprocess.run(["cc", "-O2", "-o", str(program), str(HERE / f"{name}.c")], check=True)
    return program


def contestants(floor: Path) -> list[Server]:
    """The servers that can be started here; says which cannot."""
    found = [replace(FLOOR, command=(str(floor),))]
    for server in SERVERS:
        if server.command[1] == str(HERE / "peers.mjs") and not (PACKAGES.is_dir() and shutil.which(server.command[0])):
            print(f"left out: {server.name} (npm ci in {HERE.name})", file=sys.stderr)
        else:
            found.append(server)
    return found


Results = dict[str, dict[str, list[Sample]]]
"""The samples of each server in each scenario, one a round."""


def compare(rounds: int, load: Path, floor: Path) -> Results:
    """Every server in every scenario, as often as there are rounds."""
    results: Results = {}
    servers = contestants(floor)
    for scenario in SCENARIOS:
        samples = results[scenario.name] = {server.name: [] for server in servers}
        for number in range(rounds):
            for server in servers:
                samples[server.name].append(measure(server, scenario, load))
            print(f"{scenario.name}: round {number + 1} of {rounds}", file=sys.stderr)
    return results


def rows(results: Results) -> list[Row]:
    """How both of ours stand to the peers that they are held against; a peer that was left out has no row."""
    found = []
    for scenario, by_server in results.items():
        for peer, measured, bar in BARS[scenario]:
            for ours in (GATEWAY, WHOLE):
                if peer.name in by_server:
                    pairs = [
                        (getattr(theirs, measured), getattr(mine, measured))
                        for theirs, mine in zip(by_server[peer.name], by_server[ours.name], strict=True)
                    ]
                    what = {"cpu_us": "CPU", "p99_ms": "p99"}[measured]
                    found.append(row(f"{scenario}, {what}: {ours.name} to {peer.name}", bar, pairs))
    return found


def medians(results: Results) -> dict[str, dict[str, float]]:
    """Microseconds of CPU a frame, of each server in each scenario."""
    return {
        scenario: {name: statistics.median(each.cpu_us for each in samples) for name, samples in by_server.items()}
        for scenario, by_server in results.items()
    }


def summary(results: Results) -> dict[str, dict[str, dict[str, float | list[float]]]]:
    return {
        scenario: {
            name: {
                "cpu_us_per_frame": round(statistics.median(sample.cpu_us for sample in samples), 2),
                "cpu_us_all": [round(sample.cpu_us, 2) for sample in samples],
                "p50_ms": round(statistics.median(sample.p50_ms for sample in samples), 2),
                "p99_ms": round(statistics.median(sample.p99_ms for sample in samples), 2),
            }
            for name, samples in by_server.items()
        }
        for scenario, by_server in results.items()
    }


def tables(results: Results) -> str:
    return "\n\n".join(table(scenario, by_server) for scenario, by_server in results.items())


def table(title: str, by_server: dict[str, list[Sample]]) -> str:
    """Medians, their spread, and how our gateway compares with each server."""
    ours = statistics.median(sample.cpu_us for sample in by_server[GATEWAY.name])
    lines = [title, "", "| server | CPU us a frame (spread) | p99 ms | turnwire's CPU is |", "|---|---|---|---|"]
    for name, samples in by_server.items():
        cpu = sorted(sample.cpu_us for sample in samples)
        median = statistics.median(cpu)
        p99 = statistics.median(sample.p99_ms for sample in samples)
        lines.append(f"| {name} | {median:.1f} ({cpu[0]:.1f}-{cpu[-1]:.1f}) | {p99:.1f} | {ours / median:.2f} x |")
    return "\n".join(lines)
