"""What a Turn changed in files, as subscribers hear of it (L5)."""

import pytest
import trio

from sessions_world import MakeWorld, Map, ViewWatcher, exchange, text_answer, tool_calls
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


TOOLS = ToolRegistry((write, linger))


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


async def test_L5_a_turn_that_was_stopped_tells_what_it_had_changed(autojump_clock: object, world: MakeWorld) -> None:
    step = tool_calls(("write", '{"lines":2}'), ("linger", "{}"))
    async with world(step, tools=TOOLS) as w:
        await w.session()
        watcher = await w.watch()
        await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r")
        await trio.sleep(60)
        assert (await w.registry.stop("s1")).stopped
        assert [each["variant"] for each in ends(watcher)] == ["message", "file_diff", "turn"]


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
