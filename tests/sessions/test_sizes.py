"""How long a Message can get while the model calls tools, and with it the frames that carry it (W10, Z2, Z3)."""

from typing import Any

import msgspec
import pytest
import trio

from sessions_world import MakeWorld, Map, World, exchange, text_answer, tool_calls
from turnwire.gateway.settings import GatewaySettings
from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelEvent, StepEnd
from turnwire.models.timeline import Timeline
from turnwire.sessions.answer import CALLS
from turnwire.sessions.environment import SessionLimits
from turnwire.tools.base import INPUT_BYTES, ToolContext
from turnwire.tools.functions import tool
from turnwire.tools.registry import ToolRegistry
from turnwire_protocol.parts import TextInput

MAX_FRAME = GatewaySettings().max_frame_bytes


@tool
async def echo(text: str) -> str:
    """Says it again."""
    return text


@tool(approval="ask")
async def publish(text: str) -> str:
    """Says it to all."""
    return text


TOOLS = ToolRegistry((echo, publish))


def step(*events: ModelEvent) -> Timeline:
    blocks = tuple(event.block for event in events if isinstance(event, BlockStart))
    return [(0.01 * n, event) for n, event in enumerate((*events, StepEnd(blocks, "tool_calls")), start=1)]


def text(block: int, kib: int) -> tuple[ModelEvent, ...]:
    return (BlockStart(block, "text"), *(BlockDelta(block, "x" * 32 * 1024) for _ in range(kib // 32)), BlockEnd(block))


def call(block: int, input_text: str, name: str = "echo") -> tuple[ModelEvent, ...]:
    return (BlockStart(block, "tool", tool_name=name), BlockDelta(block, input_text), BlockEnd(block))


async def agent_messages(w: World) -> list[Map]:
    """All of them: a page ends where it is long, so each is read by itself."""
    count = (await w.store.session("s1")).message_count
    pages = [await w.registry.messages("s1", before_sequence=number + 1, limit=1) for number in range(2, count + 1)]
    return [msgspec.json.decode(page.items[0].text) for page in pages]


def size(value: Any) -> int:
    return len(msgspec.json.encode(value))


@pytest.mark.parametrize("kib", [64, 12 * 1024])
async def test_W10_text_beside_an_open_tool_stays_within_one_message(
    kib: int, autojump_clock: object, world: MakeWorld
) -> None:
    said = step(*text(0, 992), *call(1, '{"text":"a"}'), *text(2, kib))
    async with world(said, text_answer("ok"), tools=TOOLS) as w:
        await w.session()
        assert await exchange(w, "x") == ("completed" if kib == 64 else "failed")
        messages = await agent_messages(w)
        assert max(map(size, messages)) < MAX_FRAME // 2
        if kib == 64:
            assert [part["state"] for part in messages[0]["parts"]] == ["done", "completed", "done"]
        else:
            assert messages[-1]["parts"][-1]["code"] == "invalid_request"


@pytest.mark.parametrize("calls", [CALLS, CALLS + 1])
async def test_Z2_a_step_calls_a_bounded_number_of_tools(calls: int, autojump_clock: object, world: MakeWorld) -> None:
    async with world(tool_calls(*[("echo", '{"text":"a"}')] * calls), text_answer("ok"), tools=TOOLS) as w:
        await w.session()
        assert await exchange(w, "x") == ("completed" if calls == CALLS else "failed")
        states = [part["state"] for part in (await agent_messages(w))[0]["parts"] if part["type"] == "tool"]
        assert states == ["completed" if calls == CALLS else "failed"] * CALLS


async def test_Z3_input_that_is_no_json_stays_within_a_frame(autojump_clock: object, world: MakeWorld) -> None:
    said = step(*call(0, "\x01" * (INPUT_BYTES - 1)))
    async with world(said, text_answer("ok"), tools=TOOLS) as w:
        await w.session()
        assert await exchange(w, "x") == "failed"
        assert max(map(size, await agent_messages(w))) < MAX_FRAME


async def test_W10_a_large_card_does_not_share_a_frame_with_its_message(
    autojump_clock: object, world: MakeWorld
) -> None:
    input_text = msgspec.json.encode({"text": "y" * (INPUT_BYTES - 100)}).decode()
    said = step(*text(0, 1024 - 64), *call(1, input_text, "publish"))
    async with world(said, text_answer("ok"), tools=TOOLS) as w:
        await w.session()
        first = await w.watch()
        await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r")
        with trio.fail_after(60):
            await first.until(lambda: bool(first.view.interactions))
        second = await w.watch()
        assert [size(frame) > MAX_FRAME for frame in (*first.frames, *second.frames)].count(True) == 0
        assert max(map(size, second.frames)) < size(first.view.messages) + 1024
        assert second.view.interactions == first.view.interactions
        assert second.view.messages[-1] == first.view.messages[-1]


async def test_W10_what_a_turn_changed_in_files_fits_into_its_fullest_message(
    autojump_clock: object, world: MakeWorld
) -> None:
    @tool
    async def fill() -> str:
        """Gives a piece of what a Message may hold."""
        return "x" * 60_000

    @tool
    async def change(context: ToolContext) -> str:
        """Changes more files than are told, by more than is shown."""
        for number in range(2_000):
            context.changed(f"folder/file {number}", None, f"{number}\n" * 20)
        return "changed"

    @tool
    async def linger() -> str:
        """Never comes back."""
        await trio.sleep_forever()
        return "never"

    calls = tool_calls(*[("fill", "{}")] * 64, ("change", "{}"), ("linger", "{}"))
    async with world(calls, tools=ToolRegistry((fill, change, linger))) as w:
        await w.session()
        watcher = await w.watch()
        await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r")
        await trio.sleep(60)
        assert (await w.registry.stop("s1")).stopped
        agent = (await w.stored())[-1]
        assert [part["type"] for part in agent["parts"][-2:]] == ["data", "error"]
        sizes = [len(msgspec.json.encode(frame)) for frame in watcher.frames]
        assert SessionLimits().held_message_bytes < max(sizes) < MAX_FRAME
        assert watcher.view.messages[-1] == agent
