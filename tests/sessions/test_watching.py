"""Who watches sees the same: joining, merging, subscribers, eviction, restarts (W4-W7, L1, J, E and K cases)."""

from typing import Any

import pytest
import trio
import trio.testing

from sessions_world import MakeWorld, ViewWatcher, World, break_down, text_answer
from turnwire.models.scripted import ScriptedProvider
from turnwire.sessions.environment import SessionLimits
from turnwire.store.memory import MemoryStore
from turnwire_protocol.codes import RequestError
from turnwire_protocol.mutations import DeltaMutation, MessageMutation, Mutation, PartMutation, TurnFinish
from turnwire_protocol.parts import TextInput


async def test_W4_a_tab_that_joins_at_any_token_equals_the_first(autojump_clock: object, world: MakeWorld) -> None:
    """J1, J2, J5, J6: before the Turn, at every delta, while it finishes, and after."""
    async with world(text_answer(*(f"w{n} " for n in range(20)), every=1.0)) as w:
        await w.session()
        first = await w.watch()
        watchers: list[ViewWatcher] = []
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            for _ in range(50):
                watcher = await w.watch()
                assert watcher.view.status == "live"
                assert watcher.view.messages == first.view.messages
                assert watcher.view.turn == first.view.turn
                watchers.append(watcher)
                await trio.sleep(0.5)
            await turn.finished()
        for watcher in watchers:
            assert watcher.view.messages == first.view.messages == await w.stored()
            assert watcher.view.turn is None
            assert "reload" not in watcher.effects


@pytest.mark.parametrize("delay", [n / 100 for n in range(15)])
async def test_J6_joining_while_a_turn_finishes_misses_nothing(
    autojump_clock: object, world: MakeWorld, delay: float
) -> None:
    async with world(text_answer("a", "b")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            await trio.sleep(delay)
            watcher = await w.watch()
            await turn.finished()
        assert watcher.view.messages == await w.stored()
        assert watcher.view.turn is None
        assert watcher.view.session is not None


async def test_J9_a_new_empty_session_can_be_watched_by_anyone(autojump_clock: object, world: MakeWorld) -> None:
    async with world() as w:
        await w.session()
        views = [(await w.watch()).view for _ in range(2)]
        assert [(view.status, view.messages, view.total) for view in views] == [("live", [], 0)] * 2


async def test_W4_joining_again_gives_a_new_snapshot_and_every_mutation_once(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a")) as w:
        await w.session()
        watcher = await w.watch()
        await w.registry.join("s1", watcher)
        async with w.registry.open("s1") as session:
            await (await session.prompt("x")).finished()
        assert [frame["op"] for frame in watcher.frames[:2]] == ["snapshot", "snapshot"]
        seqs = [frame["seq"] for frame in watcher.mutations()]
        assert seqs == sorted(set(seqs))


async def test_W4_a_snapshot_is_encoded_once_for_all_who_join_at_one_state(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a", "b", every=1.0)) as w:
        await w.session()
        taken: list[object] = []

        class Taker(ViewWatcher):
            def joined(self, snapshot: object) -> None:
                taken.append(snapshot)

        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            await trio.sleep(1.5)
            for _ in range(100):
                await w.registry.join("s1", Taker("s1"))
            await turn.finished()
        assert len({id(snapshot) for snapshot in taken}) == 1


async def test_W10_a_large_snapshot_comes_in_parts_that_the_view_puts_together(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(provider=ScriptedProvider(), limits=SessionLimits(snapshot_part_bytes=5_000)) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            for _ in range(5):
                await (await session.prompt("/text 4000 100")).finished()
        watcher = await w.watch()
        assert len(watcher.frames) >= 4
        assert [frame["part"] for frame in watcher.frames] == list(range(1, len(watcher.frames) + 1))
        assert watcher.view.messages == await w.stored()


async def test_W10_lists_of_a_snapshot_in_parts_are_sent_once(autojump_clock: object, world: MakeWorld) -> None:
    async with world(text_answer(*["x"] * 50, every=1.0), limits=SessionLimits(snapshot_part_bytes=1)) as w:
        await w.session()
        first = await w.watch()
        async with w.registry.open("s1") as session:
            for _ in range(3):
                await session.prompt("x")
            watcher = await w.watch()
            assert watcher.frames[0]["parts"] > 1
            assert watcher.view.queue == first.view.queue
            assert len(watcher.view.queue) == 2


async def test_W4_a_snapshot_reaches_down_to_the_streaming_message_whatever_waits_behind_it(
    autojump_clock: object, world: MakeWorld
) -> None:
    """A client that got a delta of a Message that no snapshot shows it would ask for snapshots without end."""
    async with world(text_answer(*[f"w{n} " for n in range(20)], every=1.0)) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            await trio.sleep(5.5)
            for _ in range(5):
                await session.prompt("later")
            watcher = await w.watch(limit=2)
            await trio.sleep(5)
            assert [message["sequence"] for message in watcher.view.messages] == [2, 3, 4, 5, 6, 7]
            assert watcher.view.has_more
            await turn.finished()
        assert "reload" not in watcher.effects


async def test_M4_internal_messages_have_an_audience_of_their_own(autojump_clock: object, world: MakeWorld) -> None:
    async with world(text_answer("a")) as w:
        await w.session()
        everything = await w.watch(include_internal=True)
        visible = await w.watch()
        async with w.registry.open("s1") as session:
            await (await session.prompt("x")).finished()
        assert everything.view.messages == visible.view.messages


# --------------------------------------------------------------------------------------------------- L1: subscribers


async def test_L1_a_subscriber_gets_changes_after_subscription_only_and_in_order(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a", "b", "c", every=1.0)) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            early: list[Mutation] = []
            late: list[Mutation] = []
            slow: list[Mutation] = []

            async def on_mutation(mutation: Mutation) -> None:
                await trio.sleep(5)
                slow.append(mutation)

            session.subscribe(early.append)
            session.subscribe(on_mutation)
            turn = await session.prompt("x")
            await trio.sleep(2.5)
            unsubscribe = session.subscribe(late.append)
            await turn.finished()
            await trio.sleep(1000)
            assert slow == early
            assert late == early[-len(late) :]
            assert 0 < len(late) < len(early)
            unsubscribe()
            unsubscribe()


async def test_L1_what_a_subscriber_raises_is_logged_and_reaches_no_one_else(
    autojump_clock: object, world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(text_answer("a", "b")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            good: list[Mutation] = []

            def broken(mutation: Mutation) -> None:
                raise ZeroDivisionError("from a callback")

            async def broken_too(mutation: Mutation) -> None:
                raise KeyError("from an async callback")

            session.subscribe(broken)
            session.subscribe(broken_too)
            session.subscribe(good.append)
            assert (await (await session.prompt("x")).finished()).status == "completed"
            await trio.testing.wait_all_tasks_blocked()
        assert isinstance(good[-1], TurnFinish)
        assert "from a callback" in caplog.text
        assert "from an async callback" in caplog.text
        assert len(await w.stored()) == 2


async def test_T4_unsubscribing_everyone_ends_no_turn(autojump_clock: object, world: MakeWorld) -> None:
    async with world(text_answer("a", "b", every=100.0), limits=SessionLimits(idle_seconds=10)) as w:
        await w.session()
        watcher = await w.watch()
        await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r")
        w.registry.leave("s1", watcher)
        seen = len(watcher.frames)
        await trio.sleep(1000)
        assert len(watcher.frames) == seen
        assert [m["state"] for m in (await w.stored())[1:]] == ["done"]


async def test_L1_an_async_subscriber_that_falls_far_behind_is_dropped_with_a_logged_error(
    autojump_clock: object, world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(text_answer(*"abcdefgh"), limits=SessionLimits(callback_backlog=3)) as w:
        await w.session()
        async with w.registry.open("s1") as session:

            async def never(mutation: Mutation) -> None:
                await trio.sleep_forever()

            session.subscribe(never)
            assert (await (await session.prompt("x")).finished()).status == "completed"
        assert "fell behind" in caplog.text


# ------------------------------------------------------------------------------------------------ in memory and out


async def test_W7_an_idle_session_leaves_memory_and_comes_back_in_a_new_epoch(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a"), text_answer("b"), limits=SessionLimits(idle_seconds=10)) as w:
        await w.session()
        watcher = await w.watch()
        async with w.registry.open("s1") as session:
            await (await session.prompt("x")).finished()
            await trio.sleep(100)
            other = await w.watch()
            assert watcher.view.epoch == other.view.epoch
        w.registry.leave("s1", watcher)
        w.registry.leave("s1", other)
        await trio.sleep(100)
        assert w.registry.live_sessions == 0
        again = await w.watch()
        assert again.view.epoch != watcher.view.epoch
        assert again.view.messages == watcher.view.messages
        async with w.registry.open("s1") as session:
            await (await session.prompt("y")).finished()
        assert [m["sequence"] for m in again.view.messages] == [1, 2, 3, 4]


class SlowStore:
    """A store whose commits take their time."""

    def __init__(self, store: MemoryStore, seconds: float) -> None:
        self._store = store
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, operations: Any) -> None:
        await trio.sleep(self._seconds)
        await self._store.commit(operations)


async def test_S9_a_session_is_not_evicted_while_it_works_for_someone(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    limits = SessionLimits(idle_seconds=10, answer_seconds=1000)
    async with world(store=SlowStore(memory_store, 100.0), limits=limits) as w:
        await w.session()
        frame = await w.registry.update("s1", title="Slowly")
        assert frame.title == "Slowly"
        assert (await w.store.session("s1")).title == "Slowly"


async def _interrupted(w: World) -> ViewWatcher:
    """A world in which Turn 1 has shown some text, Turn 2 waits, and then everything ends as in a crash."""
    await w.session()
    watcher = await w.watch()
    await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r1")
    await w.registry.prompt("s1", parts=(TextInput("y"),), client_request_id="r2")
    await trio.sleep(3.5)
    assert watcher.view.messages[-1]["parts"][0]["text"] == "abc"
    return watcher


async def test_S7_after_a_crash_clients_show_what_the_store_holds_and_the_next_prompt_works(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    """K1, K3, E1, E2, E3: closed and done, one error Part, same turn_id, new epoch, no number used twice."""
    async with world(text_answer(*"abcdef", every=1.0), store=memory_store) as w:
        watcher = await _interrupted(w)
        before = watcher.view.messages
        epoch = watcher.view.epoch
    watcher.view.disconnected()
    async with world(text_answer("ok"), store=memory_store) as w:
        await w.registry.join("s1", watcher)
        assert watcher.view.epoch != epoch
        assert watcher.view.turn is None
        assert watcher.view.queue == []
        stored = await w.stored()
        assert watcher.view.messages == stored
        agent = next(m for m in stored if m["message_id"] == before[-1]["message_id"] or m["role"] == "agent")
        assert agent["state"] == "done"
        assert agent["turn_id"] == before[0]["turn_id"]
        assert [p["type"] for p in agent["parts"]][-1] == "error"
        assert agent["parts"][-1]["code"] == "runtime_interrupted"
        assert agent["revision"] > max(m["revision"] for m in before)
        assert agent["parts"][-1]["sequence"] > max(p["sequence"] for p in before[-1]["parts"])
        for message in before[:2]:
            turn = await w.store.turn(message["turn_id"])
            assert turn is not None
            assert turn.status == "failed"
        async with w.registry.open("s1") as session:
            assert (await (await session.prompt("again")).finished()).status == "completed"
        assert watcher.view.messages == await w.stored()
        assert "reload" not in watcher.effects


async def test_S7_a_fault_in_one_session_recovers_that_one_and_harms_no_other(
    autojump_clock: object, world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    calls = [text_answer(*"abcdef", every=1.0), text_answer(*"ABCDEF", every=1.0), text_answer("ok")]
    async with world(*calls) as w:
        await w.session("s1")
        await w.session("s2")
        one, two = await w.watch("s1"), await w.watch("s2")
        async with w.registry.open("s2") as other:
            await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r1")
            turn = await other.prompt("x")
            await trio.sleep(2.5)
            await break_down(w)
            assert one.restarts == 1
            await w.registry.join("s1", one)
            assert one.view.messages == await w.stored("s1")
            assert one.view.messages[-1]["parts"][-1]["code"] == "runtime_interrupted"
            assert (await turn.finished()).status == "completed"
            assert two.restarts == 0
        async with w.registry.open("s1") as session:
            assert (await (await session.prompt("again")).finished()).status == "completed"
        assert "a bug" in caplog.text


async def test_W8_drain_refuses_new_turns_and_stops_the_running_ones_with_a_stored_reason(
    autojump_clock: object, world: MakeWorld
) -> None:
    """K5: a deploy leaves a sign."""
    async with world(text_answer("quick"), text_answer(*"abcdef", every=100.0)) as w:
        for name in ("s1", "s2"):
            await w.session(name)
            await w.registry.prompt(name, parts=(TextInput("x"),), client_request_id="r")
        watcher = await w.watch("s2")
        w.nursery.start_soon(w.registry.drain, 150.0)
        await trio.sleep(1)
        with pytest.raises(RequestError) as refused:
            await w.registry.prompt("s2", parts=(TextInput("y"),), client_request_id="r2")
        assert refused.value.code == "draining"
        await trio.sleep(200)
        assert watcher.view.turn is None
        assert [p["type"] for p in (await w.stored("s2"))[1]["parts"]] == ["text", "error"]
        assert (await w.stored("s2"))[1]["parts"][-1]["code"] == "server_shutdown"
        assert [p["type"] for p in (await w.stored("s1"))[1]["parts"]] == ["text"]


async def test_L4_every_delta_has_a_part_before_it_and_whole_characters(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(provider=ScriptedProvider()) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            known: set[str] = set()
            deltas: list[str] = []

            def on_mutation(mutation: Mutation) -> None:
                if isinstance(mutation, MessageMutation):
                    known.update(part.part_id for part in mutation.message.parts)  # type: ignore[union-attr]
                elif isinstance(mutation, PartMutation):
                    known.add(mutation.part_id)
                elif isinstance(mutation, DeltaMutation):
                    assert mutation.part_id in known
                    mutation.delta.encode()
                    deltas.append(mutation.delta)

            session.subscribe(on_mutation)
            await (await session.prompt("/unicode")).finished()
        assert deltas
