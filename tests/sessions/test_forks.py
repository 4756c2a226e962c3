"""Forks over the registry: M5, M7, T1."""

import pytest
import trio

from sessions_world import GatedStore, MakeWorld, World, exchange, text_answer
from turnwire.store.memory import MemoryStore
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import ConfigChange
from turnwire_protocol.messages import Origin


async def test_M5_a_fork_goes_its_own_way(autojump_clock: object, world: MakeWorld) -> None:
    async with world(text_answer("one"), text_answer("two"), text_answer("other")) as w:
        await w.registry.create(session_id="s1", title="Mine", config=ConfigChange(model="m"))
        async with w.registry.open("s1") as session:
            await (await session.prompt("first")).finished()
            await (await session.prompt("second")).finished()
        source = await w.stored()
        fork = await w.registry.fork("s1", through_message_id=source[1]["message_id"], new_session_id="f1")
        assert (fork.session_id, fork.title, fork.config.model, fork.message_count) == ("f1", "Mine", "m", 2)
        assert fork.origin == Origin("s1", source[1]["message_id"])
        assert fork.executing is False
        async with w.registry.open("f1") as forked:
            await (await forked.prompt("elsewhere")).finished()
        (request,) = w.env.provider.requests[2:]
        assert [message.text for message in request.messages] == ["first", "one", "elsewhere"]
        assert await w.stored() == source
        assert [message["sequence"] for message in await w.stored("f1")] == [1, 2, 3, 4]


async def test_M7_a_running_answer_is_not_taken_along(autojump_clock: object, world: MakeWorld) -> None:
    async with world(text_answer("one", "two", every=10)) as w:
        await w.session()
        watcher = await w.watch()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("first")
            await watcher.until(lambda: len(watcher.view.messages) == 2)
            fork = await w.registry.fork("s1")
            assert fork.message_count == 1
            assert fork.session_id != "s1"
            live = watcher.view.messages[1]["message_id"]
            with pytest.raises(RequestError, match="still being written") as refusal:
                await w.registry.fork("s1", through_message_id=live)
            assert (refusal.value.code, refusal.value.field) == ("conflict", "through_message_id")
            assert (await turn.finished()).status == "completed"
        assert (await w.registry.fork("s1", through_message_id=live)).message_count == 2


@pytest.mark.parametrize(
    ("session_id", "arguments", "code", "field"),
    [
        ("nobody", {}, "not_found", "session_id"),
        ("s1", {"through_message_id": "unknown"}, "not_found", "through_message_id"),
        ("s1", {"new_session_id": "s1"}, "conflict", "new_session_id"),
    ],
)
async def test_M5_a_fork_that_cannot_be_made_says_why(
    autojump_clock: object, world: MakeWorld, session_id: str, arguments: dict[str, str], code: str, field: str
) -> None:
    async with world() as w:
        await w.session()
        with pytest.raises(RequestError) as refusal:
            await w.registry.fork(session_id, **arguments)
        assert (refusal.value.code, refusal.value.field) == (code, field)


async def forks(w: World) -> list[str]:
    return [item.session_id for item in (await w.registry.list()).items if item.session_id != "s1"]


async def test_S9_a_fork_that_is_sent_again_makes_no_second_one(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    async with world(text_answer("one"), text_answer("two"), store=memory_store) as w:
        await w.session()
        await exchange(w, "first")
        made = await w.registry.fork("s1", client_request_id="r", principal="ada")
        await exchange(w, "second")
    async with world(store=memory_store) as w:
        again = await w.registry.fork("s1", client_request_id="r", principal="ada")
        assert (again, again.message_count) == (made, 2)
        await w.registry.update(made.session_id, title="Mine")
        await w.registry.delete("s1")
        assert (await w.registry.fork("s1", client_request_id="r", principal="ada")).title == "Mine"
        assert await forks(w) == [made.session_id]


async def test_S9_a_fork_that_is_sent_twice_at_once_gives_one_session_to_both(
    autojump_clock: object, world: MakeWorld
) -> None:
    store = GatedStore()
    async with world(store=store) as w:
        await w.session()
        store.gate = trio.Event()
        got: list[str] = []

        async def fork() -> None:
            got.append((await w.registry.fork("s1", client_request_id="r")).session_id)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fork)
            nursery.start_soon(fork)
            await trio.sleep(1)
            store.gate.set()
        assert got == (await forks(w)) * 2


@pytest.mark.parametrize(
    "other",
    [
        {"through_message_id": "unknown"},
        {"session_id": "s2"},
        {"principal": "eve", "new_session_id": "f1"},
    ],
)
async def test_S9_a_request_id_is_good_for_one_fork_of_one_principal(
    other: dict[str, str], autojump_clock: object, world: MakeWorld
) -> None:
    async with world() as w:
        await w.session()
        await w.session("s2")
        same: dict[str, str] = {
            "session_id": "s1",
            "new_session_id": "f1",
            "client_request_id": "r",
            "principal": "ada",
        }
        await w.registry.fork(**same)
        with pytest.raises(RequestError) as refusal:
            await w.registry.fork(**same | other)
        assert refusal.value.code == "conflict"
        assert (await w.registry.fork(**same)).session_id == "f1"


async def test_S9_what_created_a_session_does_not_fork_one(autojump_clock: object, world: MakeWorld) -> None:
    async with world() as w:
        made = await w.registry.create(client_request_id="r")
        with pytest.raises(RequestError) as refusal:
            await w.registry.fork(made.session_id, client_request_id="r")
        assert (refusal.value.code, refusal.value.field) == ("conflict", "client_request_id")
