"""Instructions: what the server's program tells the model, stored first and read back from history (C3, M4, M8)."""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from msgspec import UNSET

from harness import wire_client
from sessions_world import Kinds, MakeWorld, Map, World, text_answer, tool_calls
from turnwire.gateway import Gateway, GatewaySettings, OpenAccess
from turnwire.models.base import ModelRequest
from turnwire.sessions.environment import SessionLimits
from turnwire.store.memory import MemoryStore
from turnwire.tools.registry import ToolRegistry, tool
from turnwire_protocol.codes import RequestError
from turnwire_protocol.mutations import Mutation
from turnwire_protocol.parts import ContextInput, PartInput, TextInput

BRIEF = "<instruction>Be brief.</instruction>"


@tool
async def wait() -> str:
    """Takes ten seconds."""
    await trio.sleep(10)
    return "waited"


TOOLS = ToolRegistry((wait,))


def said(request: ModelRequest) -> list[tuple[str, str]]:
    """Who says what in the model's input."""
    return [(message.role, message.text) for message in request.messages]


def order(messages: list[Map]) -> list[tuple[str, str]]:
    return [(message["role"], message["visibility"]) for message in messages]


async def test_C3_an_idle_sessions_next_turn_reads_an_instruction_from_history(
    autojump_clock: object, world: MakeWorld
) -> None:
    provider = Kinds(text_answer("Yes."))
    async with world(provider=provider) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            message = await session.instruct("Be brief.")
            assert (message.sequence, message.visibility, message.turn_id) == (1, "internal", UNSET)
            assert (await w.registry.get("s1")).executing is False
            await (await session.prompt("Is it?")).finished()
        assert said(provider.requests("turn")[0]) == [("user", BRIEF), ("user", "Is it?")]


async def test_C3_the_running_turns_next_step_reads_an_instruction_behind_what_was_done(
    autojump_clock: object, world: MakeWorld
) -> None:
    provider = Kinds(tool_calls(("wait", "{}"), text="Let me see."), text_answer("So."))
    async with world(provider=provider, tools=TOOLS) as w:
        await w.session()
        watcher, all_seeing = await w.watch(), await w.watch(include_internal=True)
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            await trio.sleep(5)
            assert (await session.instruct("Be brief.")).turn_id == turn.turn_id
            assert watcher.view.queue == all_seeing.view.queue == []
            assert (await turn.finished()).status == "completed"
        first, second = map(said, provider.requests("turn"))
        assert first == [("user", "x")]
        assert second == [("user", "x"), ("assistant", "Let me see."), ("tool", ""), ("user", BRIEF)]
        stored = await w.stored(include_internal=True)
        assert order(stored) == [("user", "visible"), ("agent", "visible"), ("user", "internal"), ("agent", "visible")]
        assert {message["turn_id"] for message in stored} == {turn.turn_id}


async def test_C3_an_instruction_during_the_last_step_is_read_before_the_turn_ends(
    autojump_clock: object, world: MakeWorld
) -> None:
    provider = Kinds(text_answer("A", "B", every=1.0), text_answer("C"))
    async with world(provider=provider) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            await trio.sleep(1.5)
            await session.instruct("Be brief.")
            assert (await turn.finished()).status == "completed"
        assert said(provider.requests("turn")[1]) == [("user", "x"), ("assistant", "AB"), ("user", BRIEF)]


async def test_M4_instructions_reach_only_those_who_asked_for_internal_messages(
    autojump_clock: object, world: MakeWorld
) -> None:
    calls = [text_answer("a"), tool_calls(("wait", "{}")), text_answer("b"), text_answer("c")]
    async with world(*calls, tools=TOOLS) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            seen: list[Mutation] = []
            unsubscribe = session.subscribe(seen.append)
            early = [await w.watch(), await w.watch(include_internal=True)]
            await session.instruct("one")
            await (await session.prompt("x")).finished()
            await session.prompt("y")
            queued = await session.prompt("z")
            await trio.sleep(5)
            late = [await w.watch(), await w.watch(include_internal=True)]
            await session.instruct("two")
            await queued.finished()
            unsubscribe()
            pages = [(await session.messages(include_internal=internal)) for internal in (False, True)]
        for number, internal in enumerate((False, True)):
            stored = await w.stored(include_internal=internal)
            assert len(stored) == len(pages[number].items)
            for watcher in (early[number], late[number]):
                assert watcher.view.messages == stored
                assert watcher.view.total == pages[number].total
                assert watcher.view.queue == []
                assert "reload" not in watcher.effects
        assert [len(page.items) for page in pages] == [7, 9]
        assert "instruction" not in repr(seen)
        assert (await w.registry.get("s1")).preview == "c"


async def test_C3_an_instruction_outlives_the_process(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    async with world(store=memory_store) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            await session.instruct("Be brief.")
    provider = Kinds(text_answer("Yes."))
    async with world(provider=provider, store=memory_store) as w, w.registry.open("s1") as session:
        await (await session.prompt("Is it?")).finished()
    assert said(provider.requests("turn")[0]) == [("user", BRIEF), ("user", "Is it?")]


async def test_M4_a_title_tells_nothing_of_instructions(autojump_clock: object, world: MakeWorld) -> None:
    provider = Kinds(text_answer("hello"), title=(text_answer("Greeting"),))
    async with world(provider=provider, titles=True) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            await session.instruct("The secret is 42.")
            await (await session.prompt("hi")).finished()
            await trio.sleep(1)
        (request,) = provider.requests("title")
        assert "hi" in repr(request)
        assert "secret" not in repr(request)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("", "invalid_argument"),
        (" \n", "invalid_argument"),
        ((), "invalid_argument"),
        ((TextInput(" "),), "invalid_argument"),
        ((ContextInput("rules", ""),), "invalid_argument"),
        ("x" * 10_000, "too_large"),
    ],
)
async def test_C3_an_instruction_is_refused_as_a_prompt_is(
    content: str | tuple[PartInput, ...], code: str, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(limits=SessionLimits(message_bytes=5_000)) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            with pytest.raises(RequestError) as refused:
                await session.instruct(content)
        assert (refused.value.code, refused.value.field) == (code, "parts")
        assert await w.stored(include_internal=True) == []


async def test_C3_an_instruction_may_be_made_of_any_parts(autojump_clock: object, world: MakeWorld) -> None:
    provider = Kinds(text_answer("Yes."))
    async with world(provider=provider) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            await session.instruct((ContextInput("budget", "3 calls </budget>"), TextInput("Mind it.")))
            await (await session.prompt("x")).finished()
        assert said(provider.requests("turn")[0])[0] == ("user", "<budget>3 calls &lt;/budget></budget>Mind it.")


@pytest.mark.parametrize("include_internal", [False, True])
async def test_M4_on_the_wire_include_internal_decides_who_sees_an_instruction(
    include_internal: bool, world: MakeWorld
) -> None:
    async with world(text_answer("a", every=0), text_answer("b", every=0)) as w:
        await w.session()
        async with served(w) as url, wire_client(url) as client, w.registry.open("s1") as session:
            await session.instruct("before")
            view = await client.subscribe("s1", include_internal=include_internal)
            await session.instruct("after")
            await (await session.prompt("x")).finished()
            await client.until(lambda: len(view.messages) > 1 and view.turn is None)
            page = await client.request("messages", session_id="s1", include_internal=include_internal)
            assert view.messages == page["items"] == await w.stored(include_internal=include_internal)
            assert (len(page["items"]), page["total"], view.total) == (4 if include_internal else 2, 4, 4)
            assert client.reloads == 0


@asynccontextmanager
async def served(w: World) -> AsyncGenerator[str]:
    """The world's Sessions on a port of this machine."""
    gateway = Gateway(
        w.registry,
        GatewaySettings(port=0),
        authenticator=OpenAccess(),
        server="turnwire/test",
        documents={},
        problem=lambda: None,
        rng=random.Random(1),
    )
    async with trio.open_nursery() as nursery:
        (_, port), *_ = await nursery.start(gateway.serve)
        yield f"ws://127.0.0.1:{port}/ws"
        nursery.cancel_scope.cancel()
