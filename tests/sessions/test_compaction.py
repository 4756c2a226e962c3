"""Compaction in a running Session: C1, C2, M9, T5, on virtual time."""

from typing import Any

import pytest
import trio

from sessions_world import (
    Kinds,
    MakeWorld,
    Map,
    ViewWatcher,
    counted,
    exchange,
    failing,
    model_warnings,
    text_answer,
    tool_calls,
)
from turnwire.context.composer import Composer
from turnwire.models.base import ModelError
from turnwire.models.timeline import Timeline
from turnwire.sessions.environment import SessionLimits
from turnwire.store.memory import MemoryStore
from turnwire.tools.functions import tool
from turnwire.tools.registry import ToolRegistry
from turnwire_protocol.codes import RequestError

WINDOW = 10_000
"""Tokens; a compaction is due above 8,000."""


def make(world: MakeWorld, provider: Kinds, store: MemoryStore, **options: Any) -> Any:
    return world(provider=provider, store=store, composer=Composer(store.context, window_tokens=WINDOW), **options)


def actions(watcher: ViewWatcher) -> list[Map]:
    return [part for message in watcher.view.messages for part in message["parts"] if part["type"] == "action"]


async def test_C2_a_window_that_is_nearly_full_is_compacted_after_the_turn(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    provider = Kinds(
        text_answer("one"), counted(text_answer("two"), 8_001), text_answer("three"), compaction=(text_answer("gist"),)
    )
    async with make(world, provider, memory_store) as w:
        await w.session()
        watcher = await w.watch()
        await exchange(w, "first")
        assert provider.requests("compaction") == []
        await exchange(w, "second")
        before = await w.stored()
        await watcher.until(lambda: bool(actions(watcher)))
        # History is as it was; the Action has become a Message of its own, since no Turn is running (M9).
        assert (await w.stored())[:-1] == before
        (action,) = actions(watcher)
        assert (action["action_type"], action["state"]) == ("context-compaction", "completed")
        assert action["data"] == {"through_sequence": 2, "messages": 2}
        own = watcher.view.messages[-1]
        assert (own["state"], own["parts"], own.get("turn_id")) == ("done", [action], None)
        assert await w.stored() == watcher.view.messages
        await exchange(w, "third")
        sent = [message.text for message in provider.requests("turn")[-1].messages]
        assert sent == ["<summary>gist</summary>", "second", "two", "third"]
        assert len(provider.requests("compaction")) == 1


async def test_C2_between_steps_it_runs_beside_the_turn_and_joins_its_message(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    @tool
    async def wait() -> str:
        """Waits."""
        await trio.sleep(1)
        return "done"

    provider = Kinds(
        text_answer("one"),
        counted(tool_calls(("wait", "{}")), 9_000),
        text_answer("still ", "talking ", "all the while", every=1),
        compaction=(text_answer("gist", every=1),),
    )
    async with make(world, provider, memory_store, tools=ToolRegistry([wait])) as w:
        await w.session()
        watcher = await w.watch()
        await exchange(w, "first")
        assert await exchange(w, "second") == "completed"
        (action,) = actions(watcher)
        agent = watcher.view.messages[-1]
        assert action in agent["parts"]
        assert [part["type"] for part in agent["parts"]] == ["tool", "text", "action"]
        assert agent == (await w.stored())[-1]
        # The model was speaking when the Action came: compaction has not held it up.
        order = [frame["variant"] for frame in watcher.mutations() if frame.get("message_id") == agent["message_id"]]
        committed = [n for n, variant in enumerate(order) if variant == "message"]
        assert any("delta" in order[after:] for after in committed[-2:-1])


async def test_C2_a_compaction_that_fails_is_told_and_fails_nothing_else(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    provider = Kinds(
        text_answer("one"),
        counted(text_answer("two"), 9_000),
        counted(text_answer("three"), 9_100),
        counted(text_answer("four"), 9_900),
        compaction=(
            failing(ModelError("overloaded", "busy")),
            failing(ModelError("auth", "no key")),
            text_answer("gist"),
        ),
    )
    async with make(world, provider, memory_store) as w:
        await w.session()
        watcher = await w.watch()
        await exchange(w, "first")
        assert await exchange(w, "second") == "completed"
        await watcher.until(lambda: bool(actions(watcher)))
        (action,) = actions(watcher)
        assert (action["state"], action["description"]) == ("failed", "no key")
        kind = {"request_kind": "compaction", "turn_id": None}
        assert model_warnings(watcher) == [
            {**kind, "code": "overloaded", "attempt": 1, "will_retry": True},
            {**kind, "code": "auth", "attempt": 2, "will_retry": False},
        ]
        # A little more is no reason to try again; much more is.
        await exchange(w, "third")
        assert len(provider.requests("compaction")) == 2
        await exchange(w, "fourth")
        await watcher.until(lambda: len(actions(watcher)) == 2)
        assert actions(watcher)[-1]["state"] == "completed"


async def test_T5_a_step_that_is_too_long_is_tried_once_more_with_a_shorter_history(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    too_long = failing(ModelError("context_length", "too long"), "half ", "an answer")
    provider = Kinds(text_answer("one"), too_long, text_answer("two"), compaction=(text_answer("gist", every=5),))
    async with make(world, provider, memory_store) as w:
        await w.session()
        watcher = await w.watch()
        await exchange(w, "first")
        assert await exchange(w, "second") == "completed"
        assert [message.text for message in provider.requests("turn")[-1].messages] == [
            "<summary>gist</summary>",
            "second",
        ]
        (warning,) = model_warnings(watcher)
        assert (warning["request_kind"], warning["code"], warning["will_retry"]) == ("turn", "context_length", True)
        agent = watcher.view.messages[-1]
        # What the failed attempt had said is taken back (T6); the Action stays in the Turn's open Message (M9).
        assert [part["type"] for part in agent["parts"]] == ["action", "text"]
        assert agent["parts"][1]["text"] == "two"
        assert watcher.view.messages == await w.stored()


@pytest.mark.parametrize("error", [ModelError("context_length", "too long"), ModelError("overloaded", "busy")])
async def test_T6_a_step_of_which_a_message_is_closed_is_not_tried_again_and_the_next_turn_is_helped(
    error: ModelError, autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    words = ["a" * 600, "b" * 600, "c" * 600]
    refused = failing(ModelError("context_length", "too long"))
    turns = [failing(error, *words), *([refused] if error.code == "context_length" else []), text_answer("fine")]
    provider = Kinds(text_answer("one"), *turns, compaction=(text_answer("gist"),))
    async with make(world, provider, memory_store, limits=SessionLimits(message_bytes=1_000)) as w:
        await w.session()
        watcher = await w.watch()
        await exchange(w, "first")
        assert await exchange(w, "second") == "failed"
        (warning,) = model_warnings(watcher)
        assert (warning["code"], warning["will_retry"]) == (error.code, False)
        said = [part["text"] for message in watcher.view.messages for part in message["parts"] if "text" in part]
        assert [text for text in said if text in words] == words
        assert watcher.view.messages[-1]["parts"][-1]["code"] == error.code
        assert actions(watcher) == []
        assert await exchange(w, "third") == "completed"
        assert len(actions(watcher)) == (1 if error.code == "context_length" else 0)
        assert watcher.view.messages == await w.stored()


async def test_T5_a_step_that_is_still_too_long_fails_its_turn(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    too_long = failing(ModelError("context_length", "too long"))
    provider = Kinds(text_answer("one"), too_long, too_long, compaction=(text_answer("gist"),))
    async with make(world, provider, memory_store) as w:
        await w.session()
        watcher = await w.watch()
        await exchange(w, "first")
        assert await exchange(w, "second") == "failed"
        assert [warning["will_retry"] for warning in model_warnings(watcher)] == [True, False]
        assert len(provider.requests("compaction")) == 1


@pytest.mark.parametrize("compaction", [(), (failing(ModelError("auth", "no key")),)], ids=["nothing to", "fails"])
async def test_T5_a_history_that_cannot_be_made_shorter_fails_the_turn(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore, compaction: tuple[Timeline, ...]
) -> None:
    first = (text_answer("one"),) if compaction else ()
    too_long = failing(ModelError("context_length", "too long"), "half")
    provider = Kinds(*first, too_long, compaction=compaction)
    async with make(world, provider, memory_store) as w:
        await w.session()
        watcher = await w.watch()
        if compaction:
            await exchange(w, "first")
        assert await exchange(w, "second") == "failed"
        texts = [part["text"] for part in watcher.view.messages[-1]["parts"] if part["type"] == "text"]
        assert texts == ["half"]  # S8
        assert [action["state"] for action in actions(watcher)] == ["failed"] * len(compaction)
        assert model_warnings(watcher)[-1]["will_retry"] is False


async def test_T3_a_turn_that_waits_for_compaction_can_be_stopped(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    too_long = failing(ModelError("context_length", "too long"))
    provider = Kinds(text_answer("one"), too_long, compaction=(text_answer("gist", every=10),))
    async with make(world, provider, memory_store) as w:
        await w.session()
        watcher = await w.watch()
        await exchange(w, "first")
        async with w.registry.open("s1") as session:
            turn = await session.prompt("second")
            await trio.sleep(5)
            assert (await session.stop()).stopped
            assert (await turn.finished()).status == "stopped"
            await watcher.until(lambda: bool(actions(watcher)))
        assert len(provider.requests("turn")) == 2
        assert watcher.view.turn is None
        assert watcher.view.messages == await w.stored()


async def test_C2_a_session_stays_in_memory_while_it_is_compacted(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    provider = Kinds(
        text_answer("one"), counted(text_answer("two"), 9_000), compaction=(text_answer("gist", every=30),)
    )
    async with make(world, provider, memory_store, limits=SessionLimits(idle_seconds=1)) as w:
        await w.session()
        await exchange(w, "first")
        await exchange(w, "second")
        await trio.sleep(100)
        assert [message["parts"][0]["type"] for message in await w.stored()][-1] == "action"
        assert await memory_store.context.summary("s1") is not None


async def test_C2_a_session_that_is_deleted_meanwhile_is_no_fault(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    provider = Kinds(
        text_answer("one"), counted(text_answer("two"), 9_000), compaction=(text_answer("gist", every=30),)
    )
    async with make(world, provider, memory_store) as w:
        await w.session()
        await exchange(w, "first")
        await exchange(w, "second")
        await trio.sleep(1)
        await w.registry.delete("s1")
        await trio.sleep(100)
        with pytest.raises(RequestError, match="there is no session"):
            await w.registry.get("s1")
        assert await memory_store.context.summary("s1") is None


async def test_C2_without_a_count_of_tokens_they_are_estimated(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    provider = Kinds(text_answer("one"), text_answer("two"), compaction=(text_answer("gist"),) * 9)
    async with make(world, provider, memory_store) as w:
        await w.session()
        watcher = await w.watch()
        await exchange(w, "x" * 16_000)
        assert provider.requests("compaction") == []
        await exchange(w, "y" * 17_000)
        await watcher.until(lambda: bool(actions(watcher)))
        assert actions(watcher)[0]["state"] == "completed"
