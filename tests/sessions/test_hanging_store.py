"""A store that answers nothing: what can still be promised, and what is done when it comes back (T3, S9, W8)."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from sessions_world import GatedStore, MakeWorld, ViewWatcher, World, text_answer, tool_calls
from turnwire.sessions.environment import SessionLimits
from turnwire.tools.functions import tool
from turnwire.tools.registry import ToolRegistry
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import Receipt
from turnwire_protocol.parts import TextInput

ANSWER_SECONDS = 10.0
LIMITS = SessionLimits(answer_seconds=ANSWER_SECONDS)
COMMITS = 6
"""Of a Turn with one tool: the prompt, the first text, the Step, the tool's start, its end, and the Turn's end."""


@tool
async def echo(text: str) -> str:
    """Says it again."""
    return text


def calls() -> list[Any]:
    return [tool_calls(("echo", '{"text":"a"}'), text="let me see"), text_answer("b", "c")]


async def prompt(w: World, text: str) -> Receipt:
    return await w.registry.prompt("s1", parts=(TextInput(text),), client_request_id=text.replace(" ", "-"))


async def refused(ask: Callable[[], Awaitable[object]]) -> tuple[str, float]:
    """The code of the error that the request gets, and how long it took."""
    asked_at = trio.current_time()
    with trio.fail_after(100 * ANSWER_SECONDS), pytest.raises(RequestError) as error:
        await ask()
    return error.value.code, trio.current_time() - asked_at


@pytest.mark.parametrize("commits", range(COMMITS))
async def test_T3_a_stop_is_answered_while_a_commit_hangs_and_ends_the_turn_once_it_comes_through(
    commits: int, autojump_clock: object, world: MakeWorld
) -> None:
    """From the prompt to the Turn's end, each commit hangs once: the stop finds the Turn running, or never begun."""
    store = GatedStore()
    async with world(*calls(), store=store, limits=LIMITS, tools=ToolRegistry((echo,))) as w:
        await w.session()
        watcher = await w.watch()
        store.shut_after(commits)

        async def ask() -> None:
            if commits:
                await prompt(w, "x")
            else:
                assert await refused(lambda: prompt(w, "x")) == ("unavailable", ANSWER_SECONDS)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(5)
            assert not store.gate.is_set()
            for _ in range(3):
                assert await refused(lambda: w.registry.stop("s1")) == ("unavailable", ANSWER_SECONDS)
            store.gate.set()
        await watcher.until(lambda: watcher.view.turn is None and bool(watcher.mutations("turn")))
        finishes = [m for m in watcher.mutations("turn") if m["type"] == "finish"]
        assert len(finishes) == 1
        record = await w.store.turn(finishes[0]["turn_id"])
        assert record is not None
        expected = "completed" if commits == COMMITS - 1 else "stopped"
        assert (record.status, finishes[0]["status"]) == (expected, expected)
        assert watcher.view.messages == await w.stored()
        assert (await w.registry.stop("s1")).reason == "idle"
        assert (await prompt(w, "x")).outcome == "duplicate"


@pytest.mark.parametrize("named", ["nothing", "the Turn", "a Turn that is not there"])
async def test_T3_stops_that_wait_for_a_hanging_store_become_one(
    named: str, autojump_clock: object, world: MakeWorld
) -> None:
    store = GatedStore()
    async with world(text_answer("a", every=5.0), store=store, limits=LIMITS) as w:
        await w.session()
        turn = await prompt(w, "x")
        store.gate = trio.Event()
        await trio.sleep(6)  # the answer's first word hangs
        session = w.registry.in_memory("s1")
        assert session is not None
        answers: list[str | None] = []

        async def stop(number: int) -> None:
            turn_ids = {"nothing": None, "the Turn": turn.turn_id}
            try:
                result = await w.registry.stop("s1", turn_id=turn_ids.get(named, f"turn-{number}"))
            except RequestError as error:
                answers.append(error.code)
            else:
                answers.append(result.turn_id)

        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(stop, number)
            waiting = session.mailbox.drain_jobs()
            assert len(waiting) == (0 if named == "a Turn that is not there" else 1)
            for job in waiting:
                session.mailbox.post(job)
        assert answers == ["unavailable"] * 60
        answers.clear()
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(stop, number)
            await trio.testing.wait_all_tasks_blocked()
            store.gate.set()
        stopped = "unavailable" if named == "a Turn that is not there" else turn.turn_id
        assert answers == [stopped] * 3
        record = await w.store.turn(turn.turn_id)
        assert record is not None
        assert record.status == ("running" if named == "a Turn that is not there" else "stopped")


async def test_T3_a_stop_ends_what_was_asked_before_it_also_where_another_one_waits(
    autojump_clock: object, world: MakeWorld
) -> None:
    store = GatedStore()
    async with world(text_answer("a", every=5.0), text_answer("b", every=5.0), store=store, limits=LIMITS) as w:
        await w.session()
        await prompt(w, "x")
        store.gate = trio.Event()
        await trio.sleep(6)  # the answer's first word hangs
        async with trio.open_nursery() as nursery:
            for ask in (w.registry.stop, lambda _: prompt(w, "y"), w.registry.stop):
                nursery.start_soon(ask, "s1")
                await trio.testing.wait_all_tasks_blocked()
            store.gate.set()
        assert not (await w.registry.get("s1")).executing
        assert (await prompt(w, "y")).outcome == "duplicate"


async def test_S9_a_prompt_that_is_not_stored_in_time_is_refused_and_may_be_sent_again(
    autojump_clock: object, world: MakeWorld
) -> None:
    store = GatedStore()
    async with world(text_answer("a"), text_answer("b"), store=store, limits=LIMITS) as w:
        await w.session()
        watcher = await w.watch()
        store.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused, lambda: prompt(w, "begun"))
            await trio.sleep(1)
            # Nothing of this one has begun when its time is over, so nothing of it happens later.
            assert await refused(lambda: prompt(w, "behind it")) == ("unavailable", ANSWER_SECONDS)
        # And who comes now need not wait to learn it.
        assert await refused(lambda: prompt(w, "late")) == ("unavailable", 0)
        store.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (await prompt(w, "begun")).outcome == "duplicate"
        await watcher.until(lambda: watcher.view.turn is None)
        assert (await prompt(w, "late")).outcome == "started"
        await watcher.until(lambda: watcher.view.turn is None)
        prompts = [m["parts"][0]["text"] for m in await w.stored() if m["role"] == "user"]
        assert prompts == ["begun", "late"]


@pytest.mark.parametrize("forked", [False, True])
async def test_S9_a_session_that_is_not_stored_in_time_is_refused_and_may_be_asked_for_again(
    forked: bool, autojump_clock: object, world: MakeWorld
) -> None:
    store = GatedStore()
    async with world(store=store, limits=LIMITS) as w:
        await w.session()

        async def ask() -> str:
            made = w.registry.fork("s1", client_request_id="r") if forked else w.registry.create(client_request_id="r")
            return str((await made).session_id)

        store.gate = trio.Event()
        assert await refused(ask) == ("unavailable", ANSWER_SECONDS)
        store.gate.set()
        made = await ask()
        assert await ask() == made
        assert {item.session_id for item in (await w.registry.list()).items} == {"s1", made}


async def test_W4_while_a_commit_hangs_reads_are_answered_and_joining_is_refused_in_time(
    autojump_clock: object, world: MakeWorld
) -> None:
    store = GatedStore()
    async with world(text_answer("a", every=5.0), store=store, limits=LIMITS) as w:
        await w.session()
        await prompt(w, "x")
        store.gate = trio.Event()
        await trio.sleep(6)  # the answer's first word hangs
        before = trio.current_time()
        assert (await w.registry.messages("s1")).total == 1
        assert (await w.registry.get("s1")).executing
        assert len((await w.registry.list()).items) == 1
        assert (await w.registry.interactions("s1")).items == ()
        assert trio.current_time() == before
        late = ViewWatcher("s1")
        assert await refused(lambda: w.registry.join("s1", late)) == ("unavailable", ANSWER_SECONDS)
        store.gate.set()
        await trio.sleep(20)
        assert late.frames == []
        await w.registry.join("s1", late)
        assert late.view.messages == await w.stored()


async def test_W8_a_drain_waits_for_a_hanging_store_no_longer_than_a_stop_does(
    autojump_clock: object, world: MakeWorld
) -> None:
    store = GatedStore()
    async with world(*[text_answer("a", every=500.0)] * 3, store=store, limits=LIMITS) as w:
        for session_id in ("s1", "s2", "s3"):
            await w.session(session_id)
            await w.registry.prompt(session_id, parts=(TextInput("x"),), client_request_id="r")
        store.gate = trio.Event()
        before = trio.current_time()
        assert not await w.registry.drain(1.0)
        assert trio.current_time() - before == 1.0 + ANSWER_SECONDS
        store.gate.set()


class UnreadableStore(GatedStore):
    """While the gate is shut its reads wait as well, those of `hanging` or all."""

    hanging: str | None = None

    async def _read(self, name: str) -> None:
        if self.hanging in (None, name):
            await self.gate.wait()

    async def session(self, *args: Any, **options: Any) -> Any:
        await self._read("session")
        return await super().session(*args, **options)

    async def sessions(self, *args: Any, **options: Any) -> Any:
        await self._read("sessions")
        return await super().sessions(*args, **options)

    async def page(self, *args: Any, **options: Any) -> Any:
        await self._read("page")
        return await super().page(*args, **options)

    async def turn(self, *args: Any, **options: Any) -> Any:
        await self._read("turn")
        return await super().turn(*args, **options)

    async def request(self, *args: Any, **options: Any) -> Any:
        await self._read("request")
        return await super().request(*args, **options)

    async def interaction(self, *args: Any, **options: Any) -> Any:
        await self._read("interaction")
        return await super().interaction(*args, **options)


Verb = Callable[[World], Awaitable[object]]


async def use(w: World) -> object:
    async with w.registry.open("s1") as session:
        return session


VERBS: dict[str, Verb] = {
    "create": lambda w: w.registry.create(client_request_id="c"),
    "delete": lambda w: w.registry.delete("s1"),
    "fork": lambda w: w.registry.fork("s1", client_request_id="f"),
    "get": lambda w: w.registry.get("s1"),
    "instruct": lambda w: w.registry.instruct("s1", parts=(TextInput("briefly"),)),
    "interactions": lambda w: w.registry.interactions("s1"),
    "join": lambda w: w.registry.join("s1", ViewWatcher("s1")),
    "list": lambda w: w.registry.list(),
    "messages": lambda w: w.registry.messages("s1"),
    "open": use,
    "owned_by": lambda w: w.registry.owned_by("s1", "local"),
    "prompt": lambda w: prompt(w, "x"),
    "respond": lambda w: w.registry.respond("s1", "i1", revision=1, response={}, client_request_id="a"),
    "stop": lambda w: w.registry.stop("s1"),
    "update": lambda w: w.registry.update("s1", title="A"),
}
ABSENT = {"respond"}
"""What gets `not_found` as soon as the store can say so."""


@pytest.mark.parametrize("name", VERBS)
async def test_T3_W9_every_verb_is_answered_in_time_while_no_read_is_and_done_once_they_are(
    name: str, autojump_clock: object, world: MakeWorld
) -> None:
    """In a Session that has to be read first, by one for all of the three that ask at once."""
    store, verb = UnreadableStore(), VERBS[name]
    async with world(text_answer("a"), store=store, limits=LIMITS) as w:
        await w.session()
        store.gate = trio.Event()
        answers: list[tuple[str, float]] = []

        async def ask() -> None:
            answers.append(await refused(lambda: verb(w)))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert answers == [("unavailable", ANSWER_SECONDS)] * 3
        assert w.registry.live_sessions == 0
        store.gate.set()
        if name in ABSENT:
            assert (await refused(lambda: verb(w)))[0] == "not_found"
        else:
            await verb(w)


@pytest.mark.parametrize(("name", "hanging"), [("prompt", "request"), ("respond", "interaction"), ("join", "page")])
async def test_T3_W9_a_read_that_hangs_in_the_sessions_task_holds_nobody_up_for_longer(
    name: str, hanging: str, autojump_clock: object, world: MakeWorld
) -> None:
    store, verb = UnreadableStore(), VERBS[name]
    store.hanging = hanging
    async with world(text_answer("a"), store=store, limits=LIMITS) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            store.gate = trio.Event()
            assert await refused(lambda: verb(w)) == ("unavailable", ANSWER_SECONDS)
            assert await refused(lambda: w.registry.update("s1", title="A")) == ("unavailable", 0)
            store.gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert (await session.messages()).total == (name == "prompt"), "what had begun is done"
            assert (await w.registry.update("s1", title="A")).title == "A"


async def test_T2_who_asks_how_a_turn_ended_is_answered_in_time(autojump_clock: object, world: MakeWorld) -> None:
    store = UnreadableStore()
    store.hanging = "turn"
    async with world(text_answer("a"), store=store, limits=LIMITS) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            turn = await session.prompt("x")
            await turn.finished()
            store.gate = trio.Event()
            assert await refused(turn.finished) == ("unavailable", ANSWER_SECONDS)
            store.gate.set()
            assert (await turn.finished()).status == "completed"
