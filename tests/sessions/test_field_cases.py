"""Cases from the field, as whole kinds of fault: at every moment, from every tab, whatever the store was left with."""

import json
from itertools import count
from typing import Any, Literal

import msgspec
import pytest
import trio
import trio.testing

from sessions_world import MakeWorld, Map, exchange, text_answer, tool_calls
from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelEvent, StepEnd
from turnwire.models.timeline import Timeline
from turnwire.store.base import SaveTurn, TurnRecord
from turnwire.store.memory import MemoryStore
from turnwire.tools.functions import tool
from turnwire.tools.registry import ToolRegistry
from turnwire_protocol.frames import Receipt
from turnwire_protocol.parts import TextInput

NOW = 1_700_000_000_000


@pytest.mark.parametrize("recovered", [True, False])
@pytest.mark.parametrize("status", ["queued", "running"])
async def test_K4_a_row_that_says_running_or_queued_blocks_nothing(
    status: Literal["queued", "running"],
    recovered: bool,
    autojump_clock: object,
    world: MakeWorld,
    memory_store: MemoryStore,
) -> None:
    """Whether recovery has seen the row or it came from anywhere since: what runs is known in memory alone."""
    left = SaveTurn(
        TurnRecord(
            turn_id="left",
            session_id="s1",
            status=status,
            created_at=NOW,
            started_at=NOW if status == "running" else None,
        )
    )
    async with world(store=memory_store) as w:
        await w.session()
    if recovered:
        await memory_store.commit([left])
    async with world(text_answer("a"), text_answer("b"), store=memory_store) as w:
        if not recovered:
            await memory_store.commit([left])
        watcher = await w.watch()
        assert (watcher.view.turn, watcher.view.queue) == (None, [])
        receipt = await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r", if_idle=True)
        assert receipt.outcome == "started"
        assert await exchange(w, "y") == "completed"
        assert (await w.registry.get("s1")).executing is False
        record = await memory_store.turn("left")
        assert record is not None
        assert record.status == ("failed" if recovered else status)


@pytest.mark.parametrize("moment", range(12))
async def test_Q1_as_many_turns_finish_as_prompts_came_in_whenever_they_come(
    moment: int, autojump_clock: object, world: MakeWorld
) -> None:
    """Three tabs send at once at some moment of a running Turn, two Steps long, and once more when it may be over."""
    steps = [tool_calls(("nap", "{}")), *[text_answer("a", "b")] * 20]
    async with world(*steps, tools=ToolRegistry((nap,))) as w:
        await w.session()
        watcher = await w.watch()
        receipts: list[Receipt] = []
        numbers = count(1)

        async def send() -> None:
            name = f"p{next(numbers)}"
            receipts.append(await w.registry.prompt("s1", parts=(TextInput(name),), client_request_id=name))

        await send()
        for _ in range(2):
            await trio.sleep(0.01 * moment)
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(send)
        await watcher.until(lambda: watcher.view.turn is None and not watcher.view.queue)
        stored = await w.stored()
        prompts = [message for message in stored if message["role"] == "user"]
        assert sorted(message["parts"][0]["text"] for message in prompts) == [f"p{number}" for number in range(1, 8)]
        turns = [receipt.turn_id for receipt in receipts]
        assert len(set(turns)) == 7
        assert {message["turn_id"] for message in prompts} == set(turns)
        ends = [each["turn_id"] for each in watcher.mutations("turn") if each["type"] == "finish"]
        assert sorted(ends) == sorted(turns)
        starts = [each["turn_id"] for each in watcher.mutations("turn") if each["type"] == "start"]
        assert starts == ends
        assert watcher.view.messages == stored


@tool
async def nap() -> str:
    """Takes a moment."""
    await trio.sleep(0.02)
    return "rested"


@pytest.mark.parametrize("moment", range(16))
async def test_Q2_no_tool_starts_after_a_stop_whenever_it_comes(
    moment: int, autojump_clock: object, world: MakeWorld
) -> None:
    started: list[float] = []

    @tool
    async def work() -> str:
        """Works for a moment."""
        started.append(trio.current_time())
        await trio.sleep(0.02)
        return "done"

    loops: list[Timeline] = [tool_calls(("work", "{}"), ("work", "{}"))] * 3
    async with world(*loops, text_answer("ok"), tools=ToolRegistry((work,))) as w:
        await w.session()
        watcher = await w.watch()
        await w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id="r")
        await trio.sleep(0.01 * moment + 0.005)
        stopped = await w.registry.stop("s1")
        stopped_at, before = trio.current_time(), len(started)
        await trio.sleep(1000)
        assert len(started) == before
        assert all(moment <= stopped_at for moment in started)
        assert stopped.stopped
        states = [part["state"] for message in await w.stored() for part in message["parts"] if part["type"] == "tool"]
        assert set(states) <= {"completed", "failed"}
        assert watcher.view.messages == await w.stored()


def interleaved(*events: ModelEvent) -> Timeline:
    blocks = tuple(event.block for event in events if isinstance(event, BlockStart))
    return [(0.01 * number, event) for number, event in enumerate((*events, StepEnd(blocks, "tool_calls")), start=1)]


async def test_E5_text_reasoning_and_tool_inputs_may_grow_side_by_side(
    autojump_clock: object, world: MakeWorld
) -> None:
    """No block waits for another to end, and each Part keeps what belongs to it, live and stored."""
    step = interleaved(
        BlockStart(0, "text"),
        BlockDelta(0, "I "),
        BlockStart(1, "tool", tool_name="say"),
        BlockDelta(1, '{"text":'),
        BlockStart(2, "reasoning"),
        BlockDelta(2, "hm"),
        BlockStart(3, "tool", tool_name="say"),
        BlockDelta(3, '{"text":"tw'),
        BlockDelta(0, "will."),
        BlockDelta(1, '"one"}'),
        BlockEnd(1),
        BlockDelta(2, "m"),
        BlockDelta(3, 'o"}'),
        BlockEnd(3),
        BlockDelta(0, " Now."),
        BlockEnd(2),
        BlockEnd(0),
    )
    async with world(step, text_answer("ok"), tools=ToolRegistry((say,))) as w:
        await w.session()
        watcher = await w.watch()
        assert await exchange(w, "x") == "completed"
        stored = await w.stored()
        assert [shown(part) for part in stored[1]["parts"]] == [
            ("text", "I will. Now."),
            ("tool", "one"),
            ("reasoning", "hmm"),
            ("tool", "two"),
            ("text", "ok"),
        ]
        assert watcher.view.messages == stored
        assert "reload" not in watcher.effects


@tool
async def say(text: str) -> str:
    """Says it."""
    return text


def shown(part: Map) -> tuple[str, Any]:
    return part["type"], part["text"] if "text" in part else part["output"]


@pytest.mark.parametrize("fragments", [1_000, 4_000])
async def test_Z2_a_large_input_is_sent_once_as_it_grows_however_finely_it_is_cut(
    fragments: int, autojump_clock: object, world: MakeWorld
) -> None:
    """What is encoded, sent and stored follows the size of the input, not its square."""
    size = 128 * 1024
    written = json.dumps({"text": "x" * size})
    length = len(written) // fragments + 1
    pieces = [written[start : start + length] for start in range(0, len(written), length)]
    events: list[ModelEvent] = [
        BlockStart(0, "tool", tool_name="measure"),
        *(BlockDelta(0, piece) for piece in pieces),
        BlockEnd(0),
    ]
    async with world(interleaved(*events), text_answer("ok"), tools=ToolRegistry((measure,))) as w:
        await w.session()
        watcher = await w.watch()
        before = w.store.commits
        assert await exchange(w, "x") == "completed"
        (part,) = [part for part in (await w.stored())[-1]["parts"] if part["type"] == "tool"]
        assert part["output"] == size
        grown = [each["delta"] for each in watcher.mutations("delta") if each["type"] == "tool_input"]
        assert "".join(grown) == written
        assert len(grown) == len(pieces)
        whole = [each for each in watcher.mutations() if each["variant"] in ("message", "part")]
        assert sum(len(msgspec.json.encode(each)) for each in whole) < 8 * size
        assert w.store.commits - before < 10


@tool
async def measure(text: str) -> int:
    """Says how long it is."""
    return len(text)
