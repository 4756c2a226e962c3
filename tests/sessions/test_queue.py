"""Prompts that wait: how many may, what becomes of cancelled ones, and how all look alike (T1, T3, C1, M6)."""

from collections.abc import Sequence

import msgspec
import pytest
import trio

from sessions_world import GatedStore, Kinds, MakeWorld, Map, World, exchange, failing, text_answer
from turnwire.context.composer import Composer, HistoryBounds
from turnwire.models.base import ModelError, ModelMessage
from turnwire.sessions.environment import SessionLimits
from turnwire.store.base import Operation, SaveTurn, StoreUnavailable
from turnwire.store.memory import MemoryStore
from turnwire_protocol.codec import decode_request
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import Receipt
from turnwire_protocol.parts import TextInput

LIMITS = SessionLimits(queued_prompts=3)


async def say(w: World, text: str, *, expected_turn_id: str | None = None) -> Receipt:
    request_id = text.replace(" ", "-")
    return await w.registry.prompt(
        "s1", parts=(TextInput(text),), client_request_id=request_id, expected_turn_id=expected_turn_id
    )


@pytest.mark.parametrize("steers", [False, True])
async def test_T1_prompts_that_wait_are_bounded_wherever_they_wait(
    steers: bool, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(*[text_answer("a", every=10.0)] * 6, limits=LIMITS) as w:
        await w.session()
        watcher = await w.watch()
        turn_id = (await say(w, "first")).turn_id
        expected = turn_id if steers else None
        for number in range(3):
            await say(w, f"w{number}", expected_turn_id=expected)
        with pytest.raises(RequestError) as refused:
            await say(w, "one more", expected_turn_id=expected)
        assert refused.value.code == "rate_limited"
        assert [m["parts"][0]["text"] for m in await w.stored()] == ["first", "w0", "w1", "w2"]
        assert (await say(w, "w2", expected_turn_id=expected)).outcome == "duplicate"
        await watcher.until(lambda: len(watcher.view.messages) == 6)  # the next Step or Turn has begun to speak
        assert (await say(w, "one more", expected_turn_id=expected)).outcome == ("steered" if steers else "queued")
        await watcher.until(lambda: watcher.view.turn is None)


async def test_T1_those_that_wait_for_a_turn_do_not_keep_others_from_joining_it(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(*[text_answer("a", every=10.0)] * 6, limits=LIMITS) as w:
        await w.session()
        turn_id = (await say(w, "first")).turn_id
        for number in range(3):
            await say(w, f"w{number}")
        assert (await say(w, "and this", expected_turn_id=turn_id)).outcome == "steered"


# ---------------------------------------------------------------------------------------- prompts that were cancelled


async def cancel_two(w: World, *, one_by_one: bool) -> None:
    """A Turn that was stopped in mid-answer, with two prompts behind it that were cancelled."""
    turns = [(await say(w, text)).turn_id for text in ("first", "second", "third")]
    await trio.sleep(15)
    for turn_id in reversed(turns):
        await w.registry.stop("s1", turn_id=turn_id if one_by_one else None)


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("forked", [False, True])
async def test_T3_C1_a_prompt_that_was_cancelled_stays_in_history_and_is_asked_of_no_model(
    forked: bool, one_by_one: bool, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a", "b", every=10.0), text_answer("c")) as w:
        await w.session()
        await cancel_two(w, one_by_one=one_by_one)
        session_id = (await w.registry.fork("s1")).session_id if forked else "s1"
        async with w.registry.open(session_id) as session:
            assert (await (await session.prompt("fourth")).finished()).status == "completed"
        prompts = [m["parts"][0]["text"] for m in await w.stored(session_id) if m["role"] == "user"]
        assert prompts == ["first", "second", "third", "fourth"]
        assert [m.text for m in w.env.provider.requests[-1].messages if "notice" not in m.text] == [
            "first",
            "a",
            "fourth",
        ]


async def test_C2_a_summary_says_nothing_of_prompts_that_were_cancelled(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    provider = Kinds(text_answer("a", "b", every=10.0), *[text_answer("c")] * 2, compaction=(text_answer("gist"),))
    composer = Composer(memory_store.context, window_tokens=10_000)
    async with world(provider=provider, store=memory_store, composer=composer) as w:
        await w.session()
        await cancel_two(w, one_by_one=False)
        assert await exchange(w, "fourth") == "completed"
        bounds = HistoryBounds(session_id="s1", through_sequence=(await w.store.session("s1")).message_count)
        asked: list[str] = []

        async def ask(messages: tuple[ModelMessage, ...]) -> str:
            asked.extend(message.text for message in messages)
            await trio.lowlevel.checkpoint()
            return "gist"

        compacted = await composer.advance_context(bounds, ask, now=0, force=True)
        assert compacted is not None
        assert "first" in asked[-1]
        assert "second" not in asked[-1]
        assert "third" not in asked[-1]


# ------------------------------------------------------------------------------------------ a server that is stopping


class Startless(MemoryStore):
    """While it `fails` it stores no start of a Turn that has waited."""

    fails = False

    async def commit(self, operations: Sequence[Operation]) -> None:
        match operations:
            case [SaveTurn(record)] if self.fails and record.status == "running":
                raise StoreUnavailable("no starts")
        await super().commit(operations)


ENDS = {
    "answers": text_answer("a", every=20.0),
    "fails": failing(ModelError("invalid_request", "no", retryable=False)),
}


@pytest.mark.parametrize("end", [*ENDS, "stopped"])
async def test_W8_what_waits_is_not_started_by_a_server_that_stops_but_ends_with_a_reason(
    end: str, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(ENDS.get(end, text_answer("a", every=1000.0)), text_answer("never")) as w:
        await w.session()
        await w.session("s2")
        watcher = await w.watch()
        running, *waiting = [await say(w, text) for text in ("first", "second", "third")]
        w.registry.start_no_turns()
        if end == "stopped":
            await w.registry.stop("s1", turn_id=running.turn_id)
        else:
            await watcher.until(lambda: watcher.view.turn is None)
            assert [turn["turn_id"] for turn in watcher.view.queue] == [turn.turn_id for turn in waiting]
        assert await w.registry.drain(100.0)
        started = [frame["turn_id"] for frame in watcher.mutations("turn") if frame["type"] == "start"]
        assert started == [running.turn_id]
        assert watcher.view.queue == []
        for receipt in waiting:
            turn = await w.store.turn(receipt.turn_id)
            assert turn is not None
            assert turn.error is not None
            assert (turn.status, turn.started_at) == ("stopped", None)
            assert turn.error.code == ("stopped" if end == "stopped" else "server_shutdown")
        assert {"first", "second", "third"} <= {m["parts"][0]["text"] for m in await w.stored() if m["role"] == "user"}


async def test_W8_a_turn_whose_start_could_not_be_stored_before_a_drain_is_not_started_in_it(
    autojump_clock: object, world: MakeWorld
) -> None:
    store = Startless()
    async with world(text_answer("a"), text_answer("never"), store=store) as w:
        await w.session()
        watcher = await w.watch()
        await say(w, "first")
        second = await say(w, "second")
        store.fails = True
        await watcher.until(lambda: watcher.view.turn is None)
        await trio.sleep(5)
        w.registry.start_no_turns()
        store.fails = False
        await trio.sleep(5)
        assert [turn["turn_id"] for turn in watcher.view.queue] == [second.turn_id]
        assert await w.registry.drain(100.0)
        assert watcher.view.queue == []
        assert len([frame for frame in watcher.mutations("turn") if frame["type"] == "start"]) == 1


async def test_W8_a_prompt_that_joins_the_running_turn_is_taken_by_a_server_that_stops(
    autojump_clock: object, world: MakeWorld
) -> None:
    """It starts no Turn; one that would, or would wait to, is refused, and one that names another Turn a conflict."""
    async with world(text_answer("a", every=20.0), text_answer("b", every=20.0)) as w:
        await w.session()
        watcher = await w.watch()
        running = await say(w, "first")
        w.registry.start_no_turns()
        w.nursery.start_soon(w.registry.drain, 1000.0)
        await watcher.until(lambda: len(watcher.view.messages) == 2)
        assert (await say(w, "and this", expected_turn_id=running.turn_id)).outcome == "steered"
        for expected, code in ((None, "draining"), ("turn-other", "conflict")):
            with pytest.raises(RequestError) as refused:
                await say(w, "one more", expected_turn_id=expected)
            assert refused.value.code == code
        await watcher.until(lambda: watcher.view.turn is None)
        assert [m["parts"][0]["text"] for m in await w.stored()] == ["first", "a", "and this", "b"]
        with pytest.raises(RequestError) as refused:
            await say(w, "too late", expected_turn_id=running.turn_id)
        assert refused.value.code == "conflict"


def bare(message: Map) -> Map:
    """The Message without what is its own in any case: ids, place and times."""
    own = ("message_id", "turn_id", "sequence", "created_at", "updated_at")
    parts = [{**part, "part_id": ""} for part in message["parts"]]
    return {key: value for key, value in message.items() if key not in own} | {"parts": parts}


async def test_M6_a_user_message_tells_by_its_turn_id_alone_whether_it_began_a_turn(
    autojump_clock: object, world: MakeWorld
) -> None:
    """The same words start a Turn, join it, and wait behind it; stored, published and in a snapshot they look alike."""
    async with world(*[text_answer("a", every=5.0)] * 3) as w:
        await w.session()
        watcher = await w.watch()

        async def say_hello(request_id: str, expected_turn_id: str | None = None) -> Receipt:
            parts = (TextInput("hello"),)
            receipt: Receipt = await w.registry.prompt(
                "s1", parts=parts, client_request_id=request_id, expected_turn_id=expected_turn_id
            )
            return receipt

        started = await say_hello("r1")
        await trio.sleep(6)  # the Turn has an Agent Message by now
        steered = await say_hello("r2", started.turn_id)
        queued = await say_hello("r3")
        receipts = (started, steered, queued)
        assert [receipt.outcome for receipt in receipts] == ["started", "steered", "queued"]
        published = [m["message"] for m in watcher.mutations("message") if m["type"] == "user"]
        for seen in (published, await w.stored(), (await w.watch()).view.messages):
            hellos = [message for message in seen if message["role"] == "user"]
            assert [message["turn_id"] for message in hellos] == [receipt.turn_id for receipt in receipts]
            assert bare(hellos[0]) == bare(hellos[1]) == bare(hellos[2])
        assert steered.turn_id == started.turn_id != queued.turn_id
        await watcher.until(lambda: watcher.view.turn is None and not watcher.view.queue)
        assert [m for m in await w.stored() if m["role"] == "user"] == hellos, (
            "nor do they change when their Turn comes"
        )


def test_M6_no_client_gives_a_message_its_turn() -> None:
    """A prompt may say which Turn it means to join; whether it does is the loop's to say."""
    request = {"op": "prompt", "id": 1, "session_id": "s1", "client_request_id": "r", "text": "x", "turn_id": "t1"}
    with pytest.raises(RequestError, match="turn_id"):
        decode_request(msgspec.json.encode(request).decode(), "json")


@pytest.mark.parametrize(("grace", "status"), [(100.0, "completed"), (1.0, "stopped")])
async def test_W8_a_turn_whose_start_is_being_stored_when_a_drain_begins_has_its_grace_and_its_end(
    grace: float, status: str, autojump_clock: object, world: MakeWorld
) -> None:
    store = GatedStore()
    async with world(text_answer("a", every=10.0), store=store) as w:
        await w.session()
        watcher = await w.watch()
        store.gate = trio.Event()
        w.nursery.start_soon(say, w, "first")
        await trio.sleep(1)
        drained: list[bool] = []

        async def drain() -> None:
            drained.append(await w.registry.drain(grace))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            await trio.sleep(5)
            store.gate.set()
        assert drained == [True]
        assert w.registry.running_turns == 0
        assert watcher.mutations("turn")[-1]["status"] == status
        assert (await w.stored())[-1]["state"] == "done"
