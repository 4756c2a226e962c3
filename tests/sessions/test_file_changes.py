"""What a Turn changed in files, as subscribers hear of it (L5)."""

import pytest
import trio

from sessions_world import Kinds, MakeWorld, Map, ViewWatcher, exchange, text_answer, tool_calls
from turnwire.models.base import StepEnd
from turnwire.models.timeline import Timeline
from turnwire.store.memory import MemoryStore
from turnwire.tools.base import ToolContext
from turnwire.tools.functions import tool
from turnwire.tools.registry import ToolRegistry
from turnwire_protocol.parts import TextInput


@tool
async def write(lines: int, context: ToolContext) -> str:
    """Changes a file of so many lines, all of them."""
    old, new = ("".join(f"{number} {word}\n" for number in range(lines)) for word in ("old", "new"))
    context.changed("a.txt", old, new)
    return "written"


@tool
async def linger() -> str:
    """Never comes back."""
    await trio.sleep_forever()
    return "never"


@tool
async def pause() -> str:
    """Takes ten seconds."""
    await trio.sleep(10)
    return "rested"


TOOLS = ToolRegistry((write, linger, pause))


def kept(messages: list[Map], **fields: object) -> list[Map]:
    """What history tells of changed files."""
    parts = [part for message in messages for part in message["parts"] if part["type"] == "data"]
    assert all({**part, **fields, "data_type": "file_diff"} == part for part in parts)
    return [part["data"] for part in parts]


def told(diff: Map) -> Map:
    """What a `file_diff` tells, without its envelope."""
    return {name: diff[name] for name in ("files", "additions", "deletions")}


def ends(watcher: ViewWatcher) -> list[Map]:
    """The Mutations from the Turn's last `message` on."""
    mutations = watcher.mutations()
    last = max(place for place, each in enumerate(mutations) if each["variant"] == "message")
    return mutations[last:]


@pytest.mark.parametrize("lines", [2, 400])
async def test_L5_a_turn_tells_once_what_it_changed_before_its_end(lines: int, world: MakeWorld) -> None:
    step = tool_calls(("write", f'{{"lines":{lines}}}'))
    async with world(step, step, text_answer("ok"), text_answer("nothing to do"), tools=TOOLS) as w:
        await w.session()
        watcher = await w.watch()
        assert await exchange(w, "x") == "completed"
        assert [each["variant"] for each in ends(watcher)] == ["message", "file_diff", "turn"]
        (diff,) = watcher.mutations("file_diff")
        assert (diff["additions"], diff["deletions"]) == (lines, lines)
        assert [(file["path"], file["status"]) for file in diff["files"]] == [("a.txt", "modified")]
        assert await exchange(w, "y") == "completed"
        assert len(watcher.mutations("file_diff")) == 1
        assert kept(await w.stored()) == [told(diff)]


async def test_L5_who_joins_later_finds_in_history_what_a_turn_changed(
    world: MakeWorld, memory_store: MemoryStore
) -> None:
    step = tool_calls(("write", '{"lines":2}'))
    async with world(step, text_answer("ok"), tools=TOOLS, store=memory_store) as w:
        await w.session()
        first = await w.watch()
        assert await exchange(w, "x") == "completed"
        late = await w.watch()
        (diff,) = first.mutations("file_diff")
        assert kept(late.view.messages) == [told(diff)]
        assert late.view.messages == first.view.messages
        assert kept(late.view.messages, data_id=diff["turn_id"]) == [told(diff)]
    async with world(store=memory_store) as w:
        assert (await w.watch()).view.messages == first.view.messages


async def test_L5_the_model_does_not_read_the_changes_that_it_made(world: MakeWorld) -> None:
    provider = Kinds(tool_calls(("write", '{"lines":2}')), text_answer("ok"), text_answer("nothing to do"))
    async with world(provider=provider, tools=TOOLS) as w:
        await w.session()
        assert await exchange(w, "x") == "completed"
        assert await exchange(w, "y") == "completed"
        last = provider.requests("turn")[-1].messages
        assert [message.role for message in last] == ["user", "assistant", "tool", "assistant", "user"]
        assert last[3].text == "ok"


async def test_L5_a_turn_without_an_open_message_keeps_its_changes_in_one_of_their_own(
    autojump_clock: object, world: MakeWorld
) -> None:
    silence: Timeline = [(0.0, StepEnd(blocks=()))]
    async with world(tool_calls(("write", '{"lines":2}'), ("pause", "{}")), silence, tools=TOOLS) as w:
        await w.session()
        watcher = await w.watch()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            await trio.sleep(5)
            await session.prompt("y", expected_turn_id=turn.turn_id)  # closes the Message before it (M8)
            assert (await turn.finished()).status == "completed"
        stored = await w.stored()
        assert [[part["type"] for part in message["parts"]] for message in stored] == [
            ["text"],
            ["tool", "tool"],
            ["text"],
            ["data"],
        ]
        assert watcher.view.messages == stored


async def test_L5_a_turn_that_was_stopped_tells_what_it_had_changed(autojump_clock: object, world: MakeWorld) -> None:
    step = tool_calls(("write", '{"lines":2}'), ("linger", "{}"))
    async with world(step, tools=TOOLS) as w:
        await w.session()
        watcher = await w.watch()
        await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r")
        await trio.sleep(60)
        before = w.store.commits
        assert (await w.registry.stop("s1")).stopped
        assert w.store.commits == before + 1
        assert [each["variant"] for each in ends(watcher)] == ["message", "file_diff", "turn"]
        (diff,) = watcher.mutations("file_diff")
        assert kept(await w.stored()) == [told(diff)]
        assert [part["type"] for part in (await w.stored())[-1]["parts"]] == ["tool", "tool", "data", "error"]


@tool
async def misreport(context: ToolContext) -> str:
    """Says what cannot be a change."""
    context.changed("a.txt", b"old", "new")  # type: ignore[arg-type]
    return "not reached"


async def test_L5_a_change_that_is_none_fails_its_call_and_not_the_turn(world: MakeWorld) -> None:
    async with world(tool_calls(("misreport", "{}")), text_answer("ok"), tools=ToolRegistry((misreport,))) as w:
        await w.session()
        assert await exchange(w, "x") == "completed"
        (part,) = [part for part in (await w.stored())[1]["parts"] if part["type"] == "tool"]
        assert (part["state"], part["error"]) == ("failed", "TypeError: changed: before is text or None, not bytes")


async def test_L5_comparing_large_files_holds_up_nobody_else(world: MakeWorld) -> None:
    step = tool_calls(("write", '{"lines":800}'))
    async with world(step, text_answer("ok", every=0.0), tools=TOOLS) as w:
        await w.session()
        watcher = await w.watch()
        steps_of_others = 0

        async def others() -> None:
            nonlocal steps_of_others
            while True:
                await trio.lowlevel.checkpoint()
                steps_of_others += 1

        await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r")
        await watcher.until(lambda: bool(watcher.mutations("delta")) and watcher.mutations()[-1]["variant"] == "delta")
        w.nursery.start_soon(others)
        await watcher.until(lambda: bool(watcher.mutations("file_diff")))
        assert steps_of_others > 2_000
