"""`make soak`: many clients, some slow, some cut off, some flooding, on a server that is restarted and killed.

At the end every client's view equals the store, nothing ran twice, the log has no traceback, slow clients have fallen
behind and caught up, and the last server does not go on growing: its last storm has left little behind.
Every run is another one; its seed is printed, and SOAK_SEED takes it again. SOAK_SECONDS is how long the storm lasts.
"""

import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw
import trio
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage
from websockets.trio.client import connect

from harness import FROM_NOTHING, Map, Refused, ServerProcess, WireClient, server_process, wire_client
from turnwire.conformance.processes import free_port
from turnwire.conformance.streams import Stream, TcpDialer
from turnwire.store.maintenance import check_file
from turnwire_protocol.view import SessionView

CLIENTS: Final = 300
SESSIONS: Final = 50
LIVES: Final = 8
"""Server processes, one after the other; the last one has half of the time, and its memory is looked at."""

SETTLE_SECONDS: Final = 120.0
"""How long it may take after the storm until everyone holds the same."""

STORMS: Final = 3
"""In how many equal storms, each with a calm after it, the last server has its share."""

MEMORY_BYTES: Final = 64 * 2**20
"""What the last of them may leave behind: in a short run what the server keeps for those who join next, which is
bounded by as much, is still filling up. What the ones before it leave is printed.
"""

IN_A_HURRY: Final = ("--grace-seconds", "1", "--close-seconds", "2")

QUEUED: Final = 3
"""Prompts that an author lets wait for the running Turn."""

FLOOD: Final = 300
"""Requests that a flooding client sends at once, more than may wait."""

TORRENTS: Final = 2
"""Sessions whose answers are longer than what the server holds for a client that does not read."""

TORRENT: Final = "/text 3000000 8000"
TORRENT_SESSIONS: Final = frozenset(f"soak-{number}" for number in range(TORRENTS))
TORRENT_PAGE: Final = 3
"""How many Messages of such a Session a client looks at."""

SLOW: Final = 3
"""One client in so many has a small buffer in the system, so that the server notices soon that it does not read."""

LAGGED: Final = "notices of having fallen behind"

PROMPTS: Final = ("/stream 60 50", "/text 60000 1500", "/reason 30 40", "/interleave 30 30", "/echo short", "/tools 3")

CLIENT: Final[dict[str, Any]] = {"max_size": 2**24, "max_queue": None, "compression": None, "ping_interval": None}
"""The storm's clients do not ping: on a connection that is cut a ping of theirs would log a traceback."""

GONE: Final = (ConnectionClosed, InvalidHandshake, InvalidMessage, OSError, Refused)
"""What a client of a server that comes and goes has to expect."""


class SlowStream(trio.abc.Stream):
    """A connection that sometimes is not read for a while: what comes stays in the kernel, then in the server."""

    def __init__(self, inner: Stream) -> None:
        self._inner = inner
        self.pause_seconds = 0.0
        self._closed = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        pause, self.pause_seconds = self.pause_seconds, 0.0
        await trio.sleep(pause)
        data = await self._inner.receive_some(max_bytes)
        if self._closed:  # after its own end websockets takes data for a fault, and logs it
            raise trio.ClosedResourceError
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        self._closed = True
        await self._inner.aclose()


class Storm:
    """All clients of one run, and what they did."""

    def __init__(self, data: Path, seconds: float, chance: random.Random) -> None:
        self.data = data
        self.seconds = seconds
        self.chance = chance
        self.port = free_port()
        self.calm = False
        """The storm is over: everyone only reads."""
        self.done = Counter[str]()
        self.views = [SessionView(f"soak-{number % SESSIONS}") for number in range(CLIENTS)]
        self.server: ServerProcess

    @property
    def _url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    # ------------------------------------------------------------------------------------------------------ clients

    async def client(self, number: int) -> None:
        """Comes back whenever it is cut off, with the view that it had."""
        while True:
            try:
                await self._connected(number)
            except* GONE:
                self.done["connections that were lost, cut or refused"] += 1
            await trio.sleep(self.chance.uniform(0.05, 0.5))

    async def _connected(self, number: int) -> None:
        view = self.views[number]
        dialer = TcpDialer(self._url, "127.0.0.1", self.port)
        stream = SlowStream(await dialer.open_stream(slow=number % SLOW == 0))
        async with (
            connect(self._url, stream=stream, **CLIENT) as socket,
            trio.open_nursery() as nursery,
        ):
            client = WireClient(socket, "json", nursery)
            client.keep_mutations = False
            client.views[view.session_id] = view
            nursery.start_soon(client.run)
            await client.request("hello", client="soak/1")
            if number < SESSIONS:
                await client.request("session.create", session_id=view.session_id, client_request_id=view.session_id)
            await client.request("subscribe", session_id=view.session_id, limit=_page_of(view.session_id))
            while client.closed is None:
                await self._misbehave(client, stream, number)
                self.done[LAGGED] += sum(frame.get("reason") == "lagged" for frame in client.frames)
                client.frames.clear()
            nursery.cancel_scope.cancel()

    async def _misbehave(self, client: WireClient, stream: SlowStream, number: int) -> None:
        await trio.sleep(self.chance.uniform(0.5, 4.0))
        if self.calm:
            return
        dice = self.chance.random()
        if number < SESSIONS and dice < 0.6:
            await self._talk(client, self.views[number])
        elif dice < 0.72:
            stream.pause_seconds = self.chance.uniform(0.5, 8.0)
            self.done["pauses"] += 1
        elif dice < 0.78:
            self.done["cuts"] += 1
            await trio.aclose_forcefully(stream)
        elif dice < 0.80 and number >= SESSIONS:
            # An author's next prompt would wait for the answers to all of that, as the protocol wants it.
            self.done["floods"] += 1
            for request_id in range(FLOOD):
                await client.send({"op": "messages", "id": 10**6 + request_id, "session_id": "soak-0", "limit": 1})

    async def _talk(self, client: WireClient, view: SessionView) -> None:
        if self.chance.random() < 0.1:
            await client.request("stop", session_id=view.session_id)
            self.done["stops"] += 1
        elif len(view.queue) < QUEUED:
            await self._prompt(client, view.session_id)

    async def _prompt(self, client: WireClient, session_id: str) -> None:
        request_id = f"r{self.chance.getrandbits(64)}"
        text = TORRENT if session_id in TORRENT_SESSIONS else self.chance.choice(PROMPTS)
        try:
            await client.request("prompt", session_id=session_id, text=text, client_request_id=request_id)
        except Refused as refused:
            self.done[f"refused prompts ({refused.code})"] += 1
        else:
            self.done["prompts"] += 1

    # ------------------------------------------------------------------------------------------------------- server

    async def lives(self) -> None:
        """One server after the other; the last one stays until it is told to end."""
        short = self.seconds / 2 / (LIVES - 1)
        for life in range(LIVES - 1):
            async with server_process(self.data, *IN_A_HURRY, port=self.port, program=FROM_NOTHING) as server:
                self.server = server
                await trio.sleep(short * self.chance.uniform(0.5, 1.5))
                if life % 2:
                    await server.kill()
                    self.done["kills"] += 1
                else:
                    code = await server.terminate()
                    assert code == 0, f"an orderly stop ended with {code}: {server.log.read_text()[-2000:]}"
                    self.done["orderly stops"] += 1
        async with server_process(self.data, *IN_A_HURRY, port=self.port, program=FROM_NOTHING) as server:
            self.server = server
            sizes = [await self._storm(server, self.seconds / 2 / STORMS) for _ in range(STORMS)]
            kept = sizes[-1] - sizes[-2]
            assert kept < MEMORY_BYTES, f"the last of {STORMS} equal storms has left {kept / 2**20:.1f} MiB behind"
            assert await server.terminate() == 0

    async def _storm(self, server: ServerProcess, seconds: float) -> int:
        """A share of the storm, and the calm after it; gives the bytes that the server has then."""
        self.calm = False
        await trio.sleep(seconds)
        self.calm = True
        await self._until(self._all_rest, "everyone is here, and every Turn has ended")
        await self._compare()
        print(f"  {server.resident_bytes / 2**20:.1f} MiB with {CLIENTS} clients", flush=True)
        return server.resident_bytes

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        with trio.move_on_after(SETTLE_SECONDS) as scope:
            while not condition():  # noqa: ASYNC110 - views change without a word to us
                await trio.sleep(0.1)
        assert not scope.cancelled_caught, f"in {SETTLE_SECONDS:g} s not: {what}; {self._restless()}"

    def _restless(self) -> str:
        """What the clients that do not rest say of themselves."""
        found = [
            f"client {number}: {view.status}, turn {view.turn}, {len(view.queue)} queued"
            for number, view in enumerate(self.views)
            if view.status != "live" or view.turn is not None or view.queue
        ]
        return f"{len(found)} clients: " + "; ".join(found[:10])

    def _all_rest(self) -> bool:
        return all(view.status == "live" and view.turn is None and not view.queue for view in self.views)

    async def _compare(self) -> None:
        """Each view ends as the store does, with the same Messages: at once, or when its client has read on."""
        async with wire_client(self._url) as checker:
            for session_id in sorted({view.session_id for view in self.views}):
                page = await checker.request("messages", session_id=session_id, limit=_page_of(session_id))
                for view in self.views:
                    if view.session_id == session_id:
                        await self._until(
                            partial(_ends_as, view, page), f"a view of {session_id} ends as the store does"
                        )


def _page_of(session_id: str) -> int:
    return TORRENT_PAGE if session_id in TORRENT_SESSIONS else 50


def _ends_as(view: SessionView, page: Map) -> bool:
    held = view.messages[-len(page["items"]) :] if page["items"] else view.messages
    return bool(held == page["items"] and view.total == page["total"])


def _check_store(data: Path) -> int:
    """Looks at the file that the last server left; gives the number of its Messages."""
    faults = check_file(data)
    assert not faults, faults
    connection = apsw.Connection(str(data), flags=apsw.SQLITE_OPEN_READONLY)
    open_turns = connection.execute("SELECT count(*) FROM turns WHERE finished_at IS NULL").get
    assert open_turns == 0, f"{open_turns} Turns were left open"
    total = connection.execute("SELECT count(*) FROM messages").get
    connection.close()
    assert isinstance(total, int)
    return total


async def soak(data: Path, seconds: float, seed: int) -> None:
    """One storm. Raises AssertionError for what must not be."""
    print(f"soak: {CLIENTS} clients on {SESSIONS} Sessions for {seconds:g} s, seed {seed}", flush=True)
    storm = Storm(data, seconds, random.Random(seed))
    async with trio.open_nursery() as nursery:
        for number in range(CLIENTS):
            nursery.start_soon(storm.client, number)
        await storm.lives()
        nursery.cancel_scope.cancel()
    for what, count in sorted(storm.done.items()):
        print(f"  {count:6} {what}")
    assert storm.done[LAGGED] > 0, "no client was ever slow"
    print(f"  {_check_store(data):6} Messages, all views equal")
    log = data.with_suffix(".log").read_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:3000]


def main() -> None:
    seconds = float(os.environ.get("SOAK_SECONDS", "600"))
    seed = int(os.environ.get("SOAK_SEED", str(random.SystemRandom().getrandbits(32))))
    with tempfile.TemporaryDirectory() as folder:
        trio.run(soak, Path(folder) / "turnwire.db", seconds, seed)
    print("soak: well", flush=True)


if __name__ == "__main__":
    main()
