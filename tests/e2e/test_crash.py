"""`kill -9` at random moments, again and again: nothing acknowledged is lost, nothing happens twice (S9, K8)."""

import random
from itertools import count
from pathlib import Path

import apsw
import pytest
import trio
from websockets.exceptions import ConnectionClosed, InvalidMessage

from harness import PATIENCE_SECONDS, Map, Refused, ServerProcess, WireClient, server_process, texts, wire_client

KILLS = 50
SEED = 20_261_130
LONGEST_LIFE = 40
"""How many Mutations of one Session a life may last: some answers."""

SESSIONS = ("crash-1", "crash-2", "crash-3")


class Ledger:
    """What the clients asked for, and what they were told."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self.open: dict[str, list[str]] = {session_id: [] for session_id in SESSIONS}
        """Request ids without an answer; they are sent again after the restart."""
        self.receipts: dict[str, Map] = {}
        self.sessions: dict[str, str] = {}
        self.cut_off = 0
        """How often a client lost its connection."""

    async def talk(self, server: ServerProcess, session_id: str, moment: "Moment") -> None:
        """Prompts one Session until the server dies; the unanswered ones of the last life come first."""
        try:
            async with wire_client(server.url) as client, trio.open_nursery() as nursery:
                nursery.start_soon(moment.watch, client, session_id)
                await self._create(client, session_id)
                await client.subscribe(session_id)
                while True:
                    if not self.open[session_id]:
                        self.open[session_id].append(f"r{next(self.numbers)}")
                    await self._prompt(client, session_id, self.open[session_id][0])
        except* (ConnectionClosed, InvalidMessage, OSError):  # the kill may also hit a handshake
            self.cut_off += 1

    async def _create(self, client: WireClient, session_id: str) -> None:
        await client.request("session.create", session_id=session_id, client_request_id=f"create-{session_id}")

    async def _prompt(self, client: WireClient, session_id: str, request_id: str) -> None:
        try:
            receipt = await client.request(
                "prompt",
                session_id=session_id,
                text=f"/stream 30 1\n/echo {request_id}",
                client_request_id=request_id,
            )
        except Refused as refused:
            if refused.code != "rate_limited":
                raise
            await client.until(lambda: not client.views[session_id].queue)
            return
        self.receipts[request_id] = receipt
        self.sessions[request_id] = session_id
        self.open[session_id].remove(request_id)


class Moment:
    """When the server of this life is to die: after so many Mutations of one Session, or before anything is asked."""

    def __init__(self, chance: random.Random) -> None:
        self._session_id = chance.choice(SESSIONS)
        self._mutations = chance.randint(0, LONGEST_LIFE)
        self._has_come = trio.Event()

    async def watch(self, client: WireClient, session_id: str) -> None:
        if session_id == self._session_id:
            await client.until(lambda: len(client.mutations) >= self._mutations)
            self._has_come.set()

    async def wait(self) -> None:
        if self._mutations > 0:
            with trio.fail_after(PATIENCE_SECONDS):
                await self._has_come.wait()


def integrity(data: Path) -> str:
    connection = apsw.Connection(str(data), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        ((answer,),) = connection.execute("PRAGMA integrity_check")
        return str(answer)
    finally:
        connection.close()


async def history(server: ServerProcess, session_id: str) -> list[Map]:
    """The whole history, page by page."""
    items: list[Map] = []
    async with wire_client(server.url) as client:
        page = await client.request("messages", session_id=session_id, limit=200)
        items = page["items"]
        while page["has_more"]:
            page = await client.request(
                "messages", session_id=session_id, limit=200, before_sequence=page["next_before_sequence"]
            )
            items = page["items"] + items
    return items


@pytest.mark.slow
async def test_K8_random_kills_lose_no_acknowledged_prompt_and_run_none_twice(data: Path) -> None:
    chance = random.Random(SEED)
    ledger = Ledger()
    for kill in range(KILLS):
        async with server_process(data) as server, trio.open_nursery() as nursery:
            moment = Moment(chance)
            for session_id in SESSIONS:
                nursery.start_soon(ledger.talk, server, session_id, moment)
            await moment.wait()
            await server.kill()
        assert integrity(data) == "ok", f"after kill {kill} of seed {SEED}"

    assert len(ledger.receipts) > KILLS, "hardly anything was acknowledged"
    async with server_process(data) as server:
        for session_id in SESSIONS:
            messages = await history(server, session_id)
            assert [m["sequence"] for m in messages] == list(range(1, len(messages) + 1))
            assert all(m.get("state", "done") == "done" for m in messages)
            said = [texts(m).rpartition("/echo ")[2] for m in messages if m["role"] == "user"]
            mine = [request_id for request_id, where in ledger.sessions.items() if where == session_id]
            assert sorted(set(said)) == sorted(said), "a prompt was stored twice"
            assert set(mine) <= set(said), "an acknowledged prompt was lost"
            assert set(said) <= set(mine) | set(ledger.open[session_id])
            by_id = {m["message_id"]: m for m in messages}
            for request_id in mine:
                receipt = ledger.receipts[request_id]
                message = by_id[receipt["message_id"]]
                assert (message["sequence"], message["turn_id"]) == (receipt["sequence"], receipt["turn_id"])
            answered = [m["turn_id"] for m in messages if m["role"] == "agent"]
            assert sorted(set(answered)) == sorted(answered), "a Turn ran twice"
            turns = {m["turn_id"] for m in messages if m["role"] == "user"}
            assert turns == set(answered), "a prompt ended in silence"
        async with wire_client(server.url) as client:
            await client.subscribe(SESSIONS[0])
            receipt = await client.request(
                "prompt", session_id=SESSIONS[0], text="/echo alive", client_request_id="last"
            )
            assert (await client.turn_finished(receipt["turn_id"]))["status"] == "completed"
