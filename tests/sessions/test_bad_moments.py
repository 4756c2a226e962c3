"""Faults of store, tools and clients at the worst moment, each of which once lost or stopped something."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
import trio

from sessions_world import Kinds, MakeWorld, Map, ViewWatcher, World, counted, failing, text_answer, tool_calls
from simulation.faulty_store import Committed, FaultyStore, SimulatedBug, StoreFaults, unavailable
from simulation.journal import Journal
from turnwire.context.composer import Composer
from turnwire.models.base import BlockDelta, BlockStart, ModelError, StepEnd
from turnwire.sessions.environment import SessionLimits
from turnwire.sessions.snapshots import session_frame
from turnwire.store.memory import MemoryStore
from turnwire.tools.base import Approval, Question, Tool, ToolContext, ToolInputError
from turnwire.tools.registry import ToolRegistry
from turnwire_protocol.codes import RequestError
from turnwire_protocol.parts import TextInput


class Chosen(StoreFaults):
    """Fails chosen operations, or all while it is `down`; `bug` is the operation that fails as nobody foresaw."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.down = False
        self.bug: int | None = None
        self.bugs_in_a_row = 1
        self.bug_behind: int | None = None
        """The operation that is done, but seems to fail."""
        self.pause_seconds = 0.0

    def before(self, number: int) -> None:
        if self.bug is not None and self.bug <= number < self.bug + self.bugs_in_a_row:
            raise SimulatedBug
        if self.down or number in self.numbers:
            raise unavailable()

    def after(self, number: int) -> None:
        if number == self.bug_behind:
            raise SimulatedBug

    def pause(self) -> float:
        return self.pause_seconds


class Bad:
    """A world on a store whose faults the test chooses."""

    def __init__(self, world: World, watcher: ViewWatcher, store: FaultyStore, faults: Chosen) -> None:
        self.world = world
        self.registry = world.registry
        self.watcher = watcher
        self.faults = faults
        self._store = store

    def fail_after(self, operations: int, *, times: int = 1) -> None:
        """The store does this many operations more, then fails one, or several."""
        first = self._store.operations + operations
        self.faults.numbers = set(range(first, first + times))

    def meet_a_bug_after(self, operations: int) -> None:
        """As `fail_after`, but nobody has foreseen how it fails."""
        self.faults.bug = self._store.operations + operations

    def meet_a_bug_behind(self, operations: int) -> None:
        """As `meet_a_bug_after`, but what it was is stored."""
        self.faults.bug_behind = self._store.operations + operations

    async def prompt(self, request_id: str, **options: Any) -> Any:
        return await self.registry.prompt("s1", parts=(TextInput(request_id),), client_request_id=request_id, **options)

    async def card(self) -> Map:
        await self.watcher.until(lambda: bool(self.watcher.view.interactions))
        return self.watcher.view.interactions[0]

    async def respond(self, card: Map, response: Map, **options: Any) -> Any:
        return await self.registry.respond(
            "s1", card["interaction_id"], revision=card["revision"], response=response, **options
        )

    async def at_rest(self) -> list[Map]:
        await self.watcher.until(lambda: self.watcher.view.turn is None and not self.watcher.view.queue)
        stored = await self.world.stored()
        assert self.watcher.view.messages == stored
        return stored


def a_tool(name: str, *, approval: Approval = "never", **changes: Any) -> Tool:
    async def run(input: Any, context: ToolContext) -> Any:
        await trio.lowlevel.checkpoint()
        return "done"

    options: dict[str, Any] = {"run": run, "parse": parse} | changes
    return Tool(
        name=name, description=name, input_schema={"type": "object"}, approval=approval, timeout_seconds=5, **options
    )


def parse(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ToolInputError(str(error)) from None


def unreadable(text: str) -> Any:
    raise KeyError(text)


def wordless(input: Any) -> Question:
    return Question(questions=input["questions"])


TOOLS = ToolRegistry(
    (
        a_tool("echo"),
        a_tool("danger", approval="ask"),
        a_tool("unreadable", parse=unreadable),
        a_tool("wordless", run=None, question=wordless),
    )
)


@asynccontextmanager
async def bad_world(world: MakeWorld, memory_store: MemoryStore, *calls: Any, **options: Any) -> AsyncIterator[Bad]:
    faults = Chosen()
    store = FaultyStore(memory_store, Committed(Journal("test")), faults)
    async with world(*calls, store=store, tools=TOOLS, **options) as w:
        await w.session()
        with trio.fail_after(600):
            yield Bad(w, await w.watch(), store, faults)


async def test_M8_a_turn_ends_with_a_step_that_calls_nothing_and_says_nothing(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    async with bad_world(world, memory_store, tool_calls(("echo", "{}")), [(0.1, StepEnd(blocks=()))]) as w:
        turn = await w.prompt("r1")
        await w.at_rest()
        record = await memory_store.turn(turn.turn_id)
        assert record is not None
        assert record.status == "completed"


async def test_T4_who_gives_up_joining_is_never_joined(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    async with bad_world(world, memory_store) as w:
        late = ViewWatcher("s1")
        w.faults.pause_seconds = 1.0
        with trio.move_on_after(0.5):
            await w.registry.join("s1", late, limit=7)
        w.registry.leave("s1", late)
        await trio.sleep(10)
        assert late.frames == []


async def test_T1_prompts_keep_their_order_while_the_next_turn_cannot_be_stored(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    async with bad_world(world, memory_store, *[text_answer("hello")] * 3) as w:
        await w.prompt("r1")
        await w.prompt("r2")
        w.fail_after(2)  # the first Part, the end of the first Turn
        await w.watcher.until(lambda: w.watcher.view.turn is None)
        assert len(w.watcher.view.queue) == 1
        assert (await w.prompt("r3")).outcome == "queued"
        stored = await w.at_rest()
        prompts = {m["turn_id"]: m["parts"][0]["text"] for m in stored if m["role"] == "user"}
        starts = [prompts[m["turn_id"]] for m in w.watcher.mutations("turn") if m["type"] == "start"]
        assert starts == ["r1", "r2", "r3"]


async def test_P7_an_answer_that_counted_moves_the_turn_on_though_the_store_fails_right_after(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    """The steered prompt makes the Turn close its Message, which is one more commit behind the answer's own."""
    async with bad_world(world, memory_store, tool_calls(("danger", "{}")), text_answer("I see")) as w:
        turn = await w.prompt("r1")
        card = await w.card()
        await w.prompt("r2", expected_turn_id=turn.turn_id)
        w.fail_after(1)
        assert (await w.respond(card, {"decision": "denied"})).status == "denied"
        stored = await w.at_rest()
        assert [m["role"] for m in stored] == ["user", "agent", "user", "agent"]
        assert w.watcher.restarts == 0


async def test_C3_an_instruction_that_cannot_be_stored_changes_nothing(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    async with bad_world(world, memory_store, tool_calls(("danger", "{}")), text_answer("I see")) as w:
        await w.prompt("r1")
        card = await w.card()
        w.fail_after(0)
        async with w.registry.open("s1") as session:
            with pytest.raises(RequestError) as refused:
                await session.instruct("Be brief.")
        assert refused.value.code == "unavailable"
        await w.respond(card, {"decision": "denied"})
        stored = await w.at_rest()
        assert await w.world.stored(include_internal=True) == stored
        assert [m["role"] for m in stored] == ["user", "agent"]


async def test_P7_a_card_expires_although_the_store_fails_at_that_moment(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    limits = SessionLimits(interaction_seconds=10)
    calls = [tool_calls(("danger", "{}")), text_answer("I see")]
    async with bad_world(world, memory_store, *calls, limits=limits) as w:
        await w.prompt("r1")
        await w.card()
        w.fail_after(0)
        (_, agent) = await w.at_rest()
        assert [p["status"] for p in agent["parts"] if p["type"] == "interaction"] == ["expired"]
        assert w.watcher.restarts == 0


async def test_W8_a_drain_ends_whatever_befalls_one_session(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    hanging = [text_answer("a", every=1_000.0)] * 2
    async with bad_world(world, memory_store, *hanging, limits=SessionLimits(first_event_seconds=None)) as w:
        first = await w.prompt("r1")
        await w.registry.create(session_id="s2")
        second = await w.registry.prompt("s2", parts=(TextInput("x"),), client_request_id="r1")
        await trio.testing.wait_all_tasks_blocked()
        w.meet_a_bug_after(0)
        await w.registry.drain(0)
        await trio.testing.wait_all_tasks_blocked()  # until the one that failed is recovered
        records = [await memory_store.turn(turn.turn_id) for turn in (first, second)]
        assert sorted(record.status for record in records if record is not None) == ["failed", "stopped"]


async def test_C2_a_compaction_whose_record_waits_for_the_store_is_not_forgotten_with_its_session(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    provider = Kinds(
        text_answer("one"), counted(text_answer("two"), 8_001), compaction=(text_answer("gist", every=5.0),)
    )
    composer = Composer(memory_store.context, window_tokens=10_000)
    async with bad_world(world, memory_store, provider=provider, composer=composer) as w:
        for request_id in ("r1", "r2"):
            await w.prompt(request_id)
            await w.at_rest()
        w.registry.leave("s1", w.watcher)
        await trio.sleep(9)
        w.faults.down = True
        await trio.sleep(1.5)  # the summary is there by now, and what recorded it has failed
        w.registry.evict_idle()
        w.faults.down = False
        await trio.sleep(5)
        w.registry.evict_idle()
        assert w.registry.live_sessions == 0
        actions = [p["action_type"] for m in await w.world.stored() for p in m["parts"] if p["type"] == "action"]
        assert actions == ["context-compaction"]


@pytest.mark.parametrize("times", [1, 3])
async def test_S2_what_did_not_agree_is_not_stored_although_the_store_fails_at_that_moment(
    times: int, autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    malformed = [
        (0.1, BlockStart(0, "text")),
        (0.2, BlockDelta(0, "half")),
        (0.3, BlockDelta(0, " checked")),
        (0.4, StepEnd(blocks=(0, 1))),
    ]
    async with bad_world(world, memory_store, malformed) as w:
        await w.prompt("r1")
        await w.watcher.until(lambda: len(w.watcher.mutations("delta")) == 1)
        w.fail_after(0, times=times)
        (_, agent) = await w.at_rest()
        assert [(part["type"], part["code"]) for part in agent["parts"]] == [("error", "malformed_stream")]


async def test_S2_what_did_not_agree_is_not_stored_by_a_stop_either(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    malformed = [(0.1, BlockStart(0, "text")), (0.2, BlockDelta(0, "half")), (0.3, StepEnd(blocks=(0, 1)))]
    async with bad_world(world, memory_store, malformed) as w:
        await w.prompt("r1")
        await w.watcher.until(lambda: bool(w.watcher.view.messages[1:]))
        w.faults.down = True
        await trio.sleep(0.5)
        late = ViewWatcher("s1")
        w.faults.down = False
        await w.registry.join("s1", late)
        assert late.view.messages == w.watcher.view.messages
        await w.registry.stop("s1")
        (_, agent) = await w.at_rest()
        assert [part["type"] for part in agent["parts"]] == ["error"]


@pytest.mark.parametrize("queued", [False, True])
async def test_T6_the_preview_of_a_session_whose_step_was_taken_back_is_as_the_store_has_it(
    queued: bool, autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    retried = failing(ModelError("overloaded", "busy", retryable=True), "half an answer")
    async with bad_world(world, memory_store, retried, text_answer("all of it", every=10.0), text_answer("x")) as w:
        await w.prompt("r1")
        await w.watcher.until(lambda: len(w.watcher.view.messages) == 2)
        if queued:
            await w.prompt("r2")
        await w.watcher.until(lambda: bool(w.watcher.mutations("warning")))
        previews = []
        for _ in range(2):
            await trio.testing.wait_all_tasks_blocked()
            listed = await w.registry.get("s1")
            assert listed == session_frame(await memory_store.session("s1"), executing=True)
            previews.append(listed.preview)
            await trio.sleep(15)
        assert previews == (["r2", "r2"] if queued else ["r1", "all of it"])
        await w.at_rest()
        assert await w.registry.get("s1") == session_frame(await memory_store.session("s1"), executing=False)


async def test_L3_a_session_that_was_named_is_shown_as_it_is_stored(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    provider = Kinds(text_answer("hello"), title=(text_answer("A name", every=5.0),))
    async with bad_world(world, memory_store, provider=provider, titles=True) as w:
        await w.prompt("r1")
        await w.watcher.until(lambda: bool(w.watcher.mutations("session")))
        stored = await memory_store.session("s1")
        assert stored.title == "A name"
        assert await w.registry.get("s1") == session_frame(stored, executing=False)


async def test_S9_an_answer_may_be_resent_with_its_fields_in_any_order(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    async with bad_world(world, memory_store, tool_calls(("danger", "{}")), text_answer("I see")) as w:
        await w.prompt("r1")
        card = await w.card()
        one, other = {"reason": "no", "decision": "denied"}, {"decision": "denied", "reason": "no"}
        results = [await w.respond(card, answer, client_request_id="a1") for answer in (one, one, other)]
        assert results == results[:1] * 3
        await w.at_rest()


@pytest.mark.parametrize(("name", "error"), [("unreadable", "KeyError"), ("wordless", "KeyError")])
async def test_P5_a_tool_that_breaks_while_it_reads_or_asks_has_failed(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore, name: str, error: str
) -> None:
    async with bad_world(world, memory_store, tool_calls((name, "{}")), text_answer("I see")) as w:
        await w.prompt("r1")
        (_, agent) = await w.at_rest()
        (tool,) = [part for part in agent["parts"] if part["type"] == "tool"]
        assert tool["state"] == "failed"
        assert error in tool["error"]
        assert w.watcher.restarts == 0


async def test_S7_a_session_that_waits_for_its_recovery_is_not_evicted(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    """Its task has failed, and the store is away: the registry must neither forget it nor open it a second time."""
    async with bad_world(world, memory_store, text_answer("hello"), text_answer("again")) as w:
        w.registry.leave("s1", w.watcher)
        w.meet_a_bug_after(3)  # the prompt's read and commit, the model's read
        await w.prompt("r1")
        w.faults.down = True
        await trio.sleep(5)
        w.registry.evict_idle()
        with pytest.raises(RequestError) as refused:
            await w.prompt("r2")
        assert refused.value.code == "unavailable"
        w.faults.down = False
        await trio.sleep(5)
        assert (await w.prompt("r3")).outcome == "started"


async def test_S7_a_recovery_that_fails_is_tried_again_and_ends_no_other_session(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    async with bad_world(world, memory_store, text_answer("hello"), text_answer("again")) as w:
        w.meet_a_bug_after(3)  # the prompt's read and commit, the model's read
        w.faults.bugs_in_a_row = 3
        turn = await w.prompt("r1")
        await trio.sleep(10)
        record = await memory_store.turn(turn.turn_id)
        assert record is not None
        assert record.error is not None
        assert (record.status, record.error.code) == ("failed", "runtime_interrupted")
        assert w.watcher.restarts == 1
        assert (await w.prompt("r2")).outcome == "started"


async def test_T2_who_waits_for_a_turn_is_told_what_is_stored_of_its_end_whatever_fails_behind_it(
    autojump_clock: object, world: MakeWorld, memory_store: MemoryStore
) -> None:
    async with bad_world(world, memory_store, text_answer("hello", every=5.0)) as w:
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            await w.watcher.until(lambda: len(w.watcher.view.messages) == 2)
            w.meet_a_bug_behind(0)
            result = await turn.finished()
            record = await memory_store.turn(turn.turn_id)
            assert record is not None
            assert (result.status, result.error) == (record.status, record.error) == ("completed", None)
            assert await turn.finished() == result
        assert w.watcher.restarts == 1


REQUESTS: dict[str, Callable[[Bad], Awaitable[object]]] = {
    "prompt": lambda w: w.prompt("r2"),
    "steer": lambda w: w.prompt("r2", expected_turn_id=w.watcher.view.turn["turn_id"] if w.watcher.view.turn else ""),
    "stop": lambda w: w.registry.stop("s1"),
    "instruct": lambda w: w.registry.instruct("s1", parts=(TextInput("be brief"),)),
    "update": lambda w: w.registry.update("s1", title="New"),
    "archive": lambda w: w.registry.archive("s1"),
}


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize(
    ("name", "running"),
    [(name, running) for name in REQUESTS for running in (False, True) if running or name not in ("steer", "stop")],
)
async def test_S7_a_bug_in_a_request_is_told_and_never_leaves_memory_behind_what_is_stored(
    name: str, running: bool, behind: bool, autojump_clock: object, world: MakeWorld
) -> None:
    calls = [text_answer("hello", every=5.0)] * (2 if running else 1)
    for operation in range(3):
        async with bad_world(world, MemoryStore(), *calls, text_answer("again"), text_answer("again")) as w:
            if running:
                await w.prompt("r1")
                await w.watcher.until(lambda: len(w.watcher.view.messages) == 2)
            (w.meet_a_bug_behind if behind else w.meet_a_bug_after)(operation)
            with suppress(RequestError):
                await REQUESTS[name](w)
            w.faults.bug = w.faults.bug_behind = None
            await trio.sleep(60)
            assert w.watcher.restarts <= 1
            await w.registry.join("s1", w.watcher)
            assert w.watcher.view.turn is None
            if name == "prompt":
                receipt = await w.prompt("r2")
                record = await w.world.store.turn(receipt.turn_id)
                assert record is not None
                assert receipt.outcome == "started" or record.finished_at is not None
                await w.watcher.until(lambda: w.watcher.view.turn is None)
            assert (await w.prompt("r3")).outcome == "started"
            await w.watcher.until(lambda: w.watcher.view.turn is None)
            assert w.watcher.view.messages == await w.world.stored()
