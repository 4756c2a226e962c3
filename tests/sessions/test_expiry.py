"""How long an approval or a question waits for its user, and that nothing waits on when it is settled (P7)."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from msgspec import structs

from sessions_world import MakeWorld, Map, ViewWatcher, World, text_answer, tool_calls
from turnwire.models.base import ToolResultContent
from turnwire.models.timeline import TimelineProvider
from turnwire.sessions.environment import SessionLimits
from turnwire.tools.questions import ask_user
from turnwire.tools.registry import ToolRegistry, tool
from turnwire_protocol.parts import TextInput

QUESTION = ("ask_user", '{"questions":[{"question_id":"q","question":"Which?"}]}')
APPROVAL = ("danger", "{}")
ANSWER = {"answers": {"q": "this"}}
PATIENCE = 86_400
"""How many virtual seconds a test lives through before what it waits for is missing."""
YES, NO = {"decision": "approved"}, {"decision": "denied"}


@tool(approval="ask")
async def danger() -> str:
    """Does what must be allowed first."""
    return "done"


class Cards:
    """One Session whose model has called tools that wait for the user."""

    def __init__(self, world: World, watcher: ViewWatcher) -> None:
        self.world = world
        self.watcher = watcher
        self.shown_at = trio.current_time()

    def named(self, interaction_type: str) -> Map:
        (card,) = [each for each in self.watcher.view.interactions if each["interaction_type"] == interaction_type]
        return card

    async def respond(self, interaction_type: str, response: Map) -> None:
        card = self.named(interaction_type)
        await self.world.registry.respond("s1", card["interaction_id"], revision=card["revision"], response=response)

    async def settled_after(self) -> float:
        """Waits for the Turn's end; gives the seconds since the cards were shown."""
        await self.watcher.until(lambda: self.watcher.view.turn is None)
        return trio.current_time() - self.shown_at

    async def outcome(self) -> list[tuple[str, str]]:
        """Of each Interaction its status, with the state of its Tool."""
        found = []
        for message in await self.world.stored():
            tools = {part["tool_call_id"]: part for part in message["parts"] if part["type"] == "tool"}
            for part in message["parts"]:
                if part["type"] == "interaction":
                    found.append((part["status"], tools[part["tool_call_id"]]["state"]))
        return found

    @property
    def tasks(self) -> int:
        """What the Session still has under way."""
        session = self.world.registry.in_memory("s1")
        assert session is not None
        return len(session.nursery.child_tasks)


@asynccontextmanager
async def shown(
    world: MakeWorld, *calls: tuple[str, str], question_seconds: float = 100, limit: float | None = None
) -> AsyncGenerator[Cards]:
    tools = ToolRegistry((danger, structs.replace(ask_user, timeout_seconds=question_seconds)))
    limits = SessionLimits(interaction_seconds=limit)
    async with world(tool_calls(*calls), text_answer("ok", every=0), tools=tools, limits=limits) as w:
        await w.session()
        watcher = await w.watch()
        await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r1")
        await watcher.until(lambda: len(watcher.view.interactions) == len(calls))
        with trio.fail_after(PATIENCE):
            yield Cards(w, watcher)


@pytest.mark.parametrize(
    ("calls", "question_seconds", "limit", "expected"),
    [
        ([QUESTION], 100, None, 100),
        ([QUESTION], 100, 30, 30),
        ([QUESTION], 100, 300, 100),
        ([APPROVAL], 100, 30, 30),
        ([APPROVAL, QUESTION], 100, 300, 300),
    ],
)
async def test_P7_a_question_expires_by_its_tool_and_any_card_by_the_servers_limit_whichever_is_first(
    calls: list[tuple[str, str]],
    question_seconds: float,
    limit: float | None,
    expected: float,
    autojump_clock: object,
    world: MakeWorld,
) -> None:
    async with shown(world, *calls, question_seconds=question_seconds, limit=limit) as cards:
        assert await cards.settled_after() == pytest.approx(expected)
        assert await cards.outcome() == [("expired", "failed")] * len(calls)
        assert cards.watcher.view.messages == await cards.world.stored()


async def test_P7_each_card_has_its_own_deadline(autojump_clock: object, world: MakeWorld) -> None:
    async with shown(world, QUESTION, APPROVAL, question_seconds=100) as cards:
        await cards.watcher.until(lambda: len(cards.watcher.view.interactions) == 1)
        assert trio.current_time() - cards.shown_at == pytest.approx(100)
        await trio.sleep(50_000)
        await cards.respond("approval", YES)
        await cards.settled_after()
        assert await cards.outcome() == [("expired", "failed"), ("resolved", "completed")]


@pytest.mark.parametrize(
    ("call", "response"), [(QUESTION, ANSWER), (APPROVAL, YES), (APPROVAL, NO), (QUESTION, None), (APPROVAL, None)]
)
async def test_P7_nothing_waits_on_for_a_card_that_was_answered_or_cancelled(
    call: tuple[str, str], response: Any, autojump_clock: object, world: MakeWorld
) -> None:
    async with shown(world, call, question_seconds=1000, limit=1000) as cards:
        assert cards.tasks == 1
        if response is None:
            await cards.world.registry.stop("s1")
        else:
            await cards.respond("question" if call is QUESTION else "approval", response)
        assert await cards.settled_after() < 1
        await trio.testing.wait_all_tasks_blocked()
        assert cards.tasks == 0
        before = await cards.outcome()
        await trio.sleep(2000)
        assert await cards.outcome() == before


async def test_P7_a_card_that_nobody_watches_keeps_its_session_in_memory_and_expires(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with shown(world, QUESTION, question_seconds=10_000) as cards:
        cards.world.registry.leave("s1", cards.watcher)
        await trio.sleep(9_000)
        cards.world.registry.evict_idle()
        assert len((await cards.world.registry.interactions("s1")).items) == 1
        await trio.sleep(1_001)
        assert await cards.outcome() == [("expired", "failed")]


async def test_P7_the_model_is_told_that_nobody_answered(autojump_clock: object, world: MakeWorld) -> None:
    async with shown(world, QUESTION) as cards:
        await cards.settled_after()
        provider = cards.world.env.provider
        assert isinstance(provider, TimelineProvider)
        result = provider.requests[-1].messages[-1].content[0]
        assert isinstance(result, ToolResultContent)
        assert (result.failed, result.output) == (True, "nobody answered in time")
