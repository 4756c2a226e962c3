"""Prompts that wait: how many may, and what becomes of those that are cancelled (T1, T3, C1)."""

import pytest

from sessions_world import MakeWorld, World, text_answer
from turnwire.sessions.environment import SessionLimits
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import Receipt
from turnwire_protocol.parts import TextInput

LIMITS = SessionLimits(queued_prompts=3)


async def say(w: World, text: str, *, expected_turn_id: str | None = None) -> Receipt:
    return await w.registry.prompt(
        "s1", parts=(TextInput(text),), client_request_id=text, expected_turn_id=expected_turn_id
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
