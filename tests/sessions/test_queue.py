"""Prompts that wait: how many may, and what becomes of those that are cancelled (T1, T3, C1)."""

import pytest
import trio

from sessions_world import Kinds, MakeWorld, World, exchange, text_answer
from turnwire.context.composer import Composer, HistoryBounds
from turnwire.models.base import ModelMessage
from turnwire.sessions.environment import SessionLimits
from turnwire.store.memory import MemoryStore
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
