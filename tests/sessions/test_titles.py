"""Titles that a model gives: L3, T5, on virtual time."""

from typing import Any

import pytest
import trio

from sessions_world import Kinds, MakeWorld, exchange, failing, model_warnings, text_answer
from turnwire.context.composer import Composer, HistoryBounds
from turnwire.models.base import ModelError, ModelMessage
from turnwire.models.scripted import ScriptedProvider
from turnwire.sessions.environment import SessionLimits
from turnwire.store.memory import MemoryStore


async def test_L3_the_first_exchange_gives_a_session_its_title(autojump_clock: object, world: MakeWorld) -> None:
    provider = Kinds(text_answer("one"), text_answer("two"), title=(text_answer('"A talk', ' about\n" numbers'),))
    async with world(provider=provider, titles=True) as w:
        await w.session()
        watcher = await w.watch()
        await exchange(w, "count!")
        await watcher.until(lambda: bool(watcher.mutations("session")))
        (mutation,) = watcher.mutations("session")
        assert (mutation["type"], mutation["title"]) == ("title", "A talk about")
        assert (await w.registry.get("s1")).title == "A talk about"
        assert (await w.store.session("s1")).title == "A talk about"
        assert [part["type"] for message in await w.stored() for part in message["parts"]] == ["text", "text"]
        (request,) = provider.requests("title")
        assert "User: count!" in request.messages[-1].text
        assert "Assistant: one" in request.messages[-1].text
        await exchange(w, "more")
        await trio.sleep(60)
        assert len(provider.requests("title")) == 1


async def test_L3_a_session_with_a_title_keeps_it(autojump_clock: object, world: MakeWorld) -> None:
    provider = Kinds(text_answer("one"))
    async with world(provider=provider, titles=True) as w:
        await w.registry.create(session_id="s1", title="Mine")
        await exchange(w, "hi")
        await trio.sleep(60)
        assert provider.requests("title") == []


async def test_L3_a_title_that_the_user_gives_meanwhile_wins(autojump_clock: object, world: MakeWorld) -> None:
    provider = Kinds(text_answer("one"), title=(text_answer("Theirs", every=10),))
    async with world(provider=provider, titles=True) as w:
        await w.session()
        watcher = await w.watch()
        await exchange(w, "hi")
        await w.registry.update("s1", title="Mine")
        await trio.sleep(60)
        assert (await w.registry.get("s1")).title == "Mine"
        assert [mutation["title"] for mutation in watcher.mutations("session")] == ["Mine"]


async def test_T5_a_title_that_fails_leaves_warnings_and_nothing_else(autojump_clock: object, world: MakeWorld) -> None:
    provider = Kinds(
        text_answer("one"),
        text_answer("two"),
        title=(failing(ModelError("timeout", "late")), failing(ModelError("auth", "no key"))),
    )
    async with world(provider=provider, titles=True) as w:
        await w.session()
        watcher = await w.watch()
        assert await exchange(w, "hi") == "completed"
        await watcher.until(lambda: len(watcher.mutations("warning")) == 2)
        kind: dict[str, Any] = {"request_kind": "title", "turn_id": None}
        assert model_warnings(watcher) == [
            {**kind, "code": "timeout", "attempt": 1, "will_retry": True},
            {**kind, "code": "auth", "attempt": 2, "will_retry": False},
        ]
        await exchange(w, "again")
        await trio.sleep(60)
        assert len(provider.requests("title")) == 2
        assert (await w.store.session("s1")).title is None
        assert watcher.view.messages == await w.stored()
        assert len(await w.stored()) == 4


async def test_T5_a_turn_that_failed_is_no_exchange(autojump_clock: object, world: MakeWorld) -> None:
    provider = Kinds(failing(ModelError("auth", "no key")), text_answer("one"), title=(text_answer("Better"),))
    async with world(provider=provider, titles=True) as w:
        await w.session()
        assert await exchange(w, "hi") == "failed"
        await trio.sleep(60)
        assert provider.requests("title") == []
        await exchange(w, "hi")
        await trio.sleep(60)
        assert (await w.registry.get("s1")).title == "Better"


@pytest.mark.parametrize(
    ("said", "title"),
    [("/stream 20 5", "Stream 20 5"), ("/echo <img src=x> & &lt;b>", "Echo <img src=x> & &lt;b>")],
)
async def test_L3_the_scripted_model_names_sessions_by_what_the_user_said(
    said: str, title: str, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(provider=ScriptedProvider(), titles=True, limits=SessionLimits()) as w:
        await w.session()
        watcher = await w.watch()
        await exchange(w, said)
        await watcher.until(lambda: bool(watcher.mutations("session")))
        assert watcher.mutations("session")[0]["title"] == title


class BrokenComposer(Composer):
    """Fails when it is asked for the second time: by the request for a title."""

    calls = 0

    async def compose(self, bounds: HistoryBounds) -> tuple[ModelMessage, ...]:
        self.calls += 1
        if self.calls == 2:
            await trio.sleep(1)
            raise KeyError("a bug")
        return await super().compose(bounds)


async def test_L3_a_fault_in_the_search_for_a_title_ends_no_turn(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Kinds(text_answer("one"), text_answer("two", every=10.0))
    composer = BrokenComposer(memory_store.context)
    async with world(provider=provider, titles=True, store=memory_store, composer=composer) as w:
        await w.session()
        assert await exchange(w, "x") == "completed"
        assert await exchange(w, "y") == "completed"
    assert "a bug" in caplog.text
