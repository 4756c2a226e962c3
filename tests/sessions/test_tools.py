"""Tools and Interactions in a Turn: P4-P7, M8, S3, T3, Q and A cases, on virtual time."""

from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from sessions_world import MakeWorld, Map, ViewWatcher, World, text_answer, tool_calls
from turnwire.models.base import ModelError
from turnwire.sessions.environment import SessionLimits
from turnwire.store.memory import MemoryStore
from turnwire.tools.base import OUTPUT_BYTES, Question, Tool, ToolContext, ToolFailure, ToolInputError
from turnwire.tools.registry import ToolRegistry, tool
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import ConfigChange
from turnwire_protocol.parts import TextInput

OBJECT = {"type": "object"}


def parse(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ToolInputError(f"not JSON: {error}") from None


class Toolbox:
    """A few tools, and what was really run."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.registry = ToolRegistry(
            (
                self._tool("echo", self.echo),
                self._tool("slow", self.slow),
                self._tool("broken", self.broken),
                self._tool("danger", self.echo, approval="ask"),
                Tool(
                    name="ask_user",
                    description="asks",
                    input_schema=OBJECT,
                    approval="never",
                    timeout_seconds=60,
                    parse=parse,
                    question=lambda input: Question(questions=tuple(input["questions"])),
                ),
            )
        )

    def _tool(self, name: str, run: Any, approval: Any = "never") -> Tool:
        return Tool(
            name=name,
            description=name,
            input_schema=OBJECT,
            approval=approval,
            timeout_seconds=60,
            parse=parse,
            run=run,
        )

    async def echo(self, input: Any, context: ToolContext) -> Any:
        self.ran.append(input)
        await trio.lowlevel.checkpoint()
        return {"echo": input}

    async def slow(self, input: Any, context: ToolContext) -> Any:
        self.ran.append(input)
        await trio.sleep(input["seconds"])
        return "done"

    async def broken(self, input: Any, context: ToolContext) -> Any:
        self.ran.append(input)
        raise ToolFailure("out of order")


@pytest.fixture
def box() -> Toolbox:
    return Toolbox()


def parts(message: Map, kind: str) -> list[Map]:
    return [part for part in message["parts"] if part["type"] == kind]


async def prompt(w: World, text: str = "x", request_id: str = "r1", **options: Any) -> Any:
    return await w.registry.prompt("s1", parts=(TextInput(text),), client_request_id=request_id, **options)


def json_text(**fields: Any) -> str:
    return msgspec.json.encode(fields).decode()


async def until_idle(w: World, watcher: ViewWatcher) -> None:
    await watcher.until(lambda: watcher.view.turn is None)


async def waiting_card(w: World, watcher: ViewWatcher) -> Map:
    """The pending Interaction, once there is one."""
    await watcher.until(lambda: bool(watcher.view.interactions))
    (card,) = watcher.view.interactions
    return card


async def test_M8_the_steps_of_a_tool_loop_append_to_one_message(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    calls = [
        tool_calls(("echo", '{"a":1}'), text="Let me see. "),
        tool_calls(("echo", '{"b":2}')),
        text_answer("So it is."),
    ]
    async with world(*calls, tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        await until_idle(w, watcher)
        _, agent = stored = await w.stored()
        assert [(p["type"], p.get("state")) for p in agent["parts"]] == [
            ("text", "done"),
            ("tool", "completed"),
            ("tool", "completed"),
            ("text", "done"),
        ]
        assert len({p["step_id"] for p in agent["parts"]}) == 3
        assert [p["output"] for p in parts(agent, "tool")] == [{"echo": {"a": 1}}, {"echo": {"b": 2}}]
        assert watcher.view.messages == stored
        assert watcher.effects.count("reload") == 0
        last = w.env.provider.requests[-1].messages
        assert [m.role for m in last] == ["user", "assistant", "tool", "assistant", "tool"]
        call, result = last[1].content[1], last[2].content[0]
        assert (call.tool_name, call.input_json, result.output) == ("echo", '{"a":1}', '{"echo":{"a":1}}')
        assert call.tool_call_id == result.tool_call_id


async def test_P4_a_tool_moves_only_as_the_table_says_and_P5_its_input_grows_by_deltas(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    async with world(tool_calls(("echo", '{"text":"some input"}')), text_answer("ok"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        await until_idle(w, watcher)
        states: list[str] = []
        for frame in watcher.mutations():
            for part in [frame["part"]] if frame["variant"] == "part" else frame.get("message", {}).get("parts", []):
                if part["type"] == "tool" and (not states or states[-1] != part["state"]):
                    states.append(part["state"])
        assert states == ["input-streaming", "ready", "running", "completed"]
        deltas = [m for m in watcher.mutations("delta") if m["type"] == "tool_input"]
        assert "".join(m["delta"] for m in deltas) == '{"text":"some input"}'
        (tool,) = parts((await w.stored())[1], "tool")
        assert {m["tool_call_id"] for m in deltas} == {tool["tool_call_id"]}
        assert tool["input"] == {"text": "some input"}
        assert "input_text" not in tool


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [("echo", '{"a":', "not JSON"), ("missing", "{}", "no tool named 'missing'"), ("echo", "", "not JSON")],
)
async def test_P5_input_that_cannot_be_called_fails_and_nothing_runs(
    autojump_clock: object, world: MakeWorld, box: Toolbox, name: str, text: str, error: str
) -> None:
    async with world(tool_calls((name, text)), text_answer("sorry"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        await until_idle(w, watcher)
        assert box.ran == []
        (tool,) = parts((await w.stored())[1], "tool")
        assert tool["state"] == "failed"
        assert error in tool["error"]
        assert w.env.provider.requests[-1].messages[-1].content[0].failed


async def test_P5_a_tool_that_raises_is_failed_and_the_model_is_told(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    async with world(tool_calls(("broken", "{}")), text_answer("I see"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        await until_idle(w, watcher)
        (tool,) = parts((await w.stored())[1], "tool")
        assert (tool["state"], tool["error"]) == ("failed", "out of order")
        result = w.env.provider.requests[-1].messages[-1].content[0]
        assert (result.output, result.failed) == ("out of order", True)


async def test_S3_parallel_calls_run_side_by_side_and_each_result_is_a_checkpoint(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    step = tool_calls(("slow", '{"seconds":30}'), ("slow", '{"seconds":10}'), ("slow", '{"seconds":20}'))
    async with world(step, text_answer("all done"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        start = trio.current_time()
        await until_idle(w, watcher)
        assert trio.current_time() - start < 40
        (_, agent) = stored = await w.stored()
        assert [p["state"] for p in parts(agent, "tool")] == ["completed"] * 3
        assert watcher.view.messages == stored


# ------------------------------------------------------------------------------------------------------- interactions


async def test_P6_a_tool_and_its_approval_change_in_one_commit_and_one_mutation(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    """J10: no client can lose the card."""
    async with world(tool_calls(("danger", '{"rm":"-rf"}')), text_answer("done"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        card = await waiting_card(w, watcher)
        stored = (await w.stored())[1]
        (tool,), (interaction,) = parts(stored, "tool"), parts(stored, "interaction")
        assert (tool["state"], interaction["status"]) == ("waiting-user", "pending")
        assert interaction["revision"] == card["revision"] <= stored["revision"]
        assert card["request"] == {"tool_name": "danger", "input": {"rm": "-rf"}}
        assert msgspec.to_builtins(await w.registry.interactions("s1"))["items"] == (card,)
        assert (await w.watch()).view.interactions == [card]
        assert box.ran == []
        answer = await w.registry.respond(
            "s1", card["interaction_id"], revision=card["revision"], response={"decision": "approved"}, principal="ann"
        )
        assert (answer.status, answer.response) == ("resolved", {"decision": "approved"})
        await until_idle(w, watcher)
        stored = (await w.stored())[1]
        (tool,), (interaction,) = parts(stored, "tool"), parts(stored, "interaction")
        assert (tool["state"], interaction["status"], interaction["resolved_by"]) == ("completed", "resolved", "ann")
        assert box.ran == [{"rm": "-rf"}]
        assert watcher.view.interactions == []
        assert watcher.view.messages == await w.stored()


async def test_P7_the_first_answer_wins_and_the_loser_is_told_who_and_what(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    """A1, A2: two tabs answer at once; a late approval runs nothing."""
    async with world(tool_calls(("danger", "{}")), text_answer("done"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        card = await waiting_card(w, watcher)
        outcomes: dict[str, Any] = {}

        async def answer(who: str, decision: str) -> None:
            try:
                outcomes[who] = await w.registry.respond(
                    "s1",
                    card["interaction_id"],
                    revision=card["revision"],
                    response={"decision": decision, "reason": f"by {who}"},
                    principal=who,
                )
            except RequestError as error:
                outcomes[who] = error

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, "ann", "denied")
            nursery.start_soon(answer, "bob", "approved")
        lost = [who for who, outcome in outcomes.items() if isinstance(outcome, RequestError)]
        assert len(lost) == 1
        (winner,) = set(outcomes) - set(lost)
        error = outcomes[lost[0]]
        assert error.code == "already_resolved"
        assert error.details["by"] == winner
        assert error.details["response"]["reason"] == f"by {winner}"
        await until_idle(w, watcher)
        await answer("late", "approved")
        assert outcomes["late"].code == "already_resolved"
        assert outcomes["late"].details["by"] == winner
        (tool,) = parts((await w.stored())[1], "tool")
        assert tool["state"] == ("failed" if winner == "ann" else "completed")
        assert len(box.ran) == (0 if winner == "ann" else 1)


async def test_P7_a_denial_fails_the_tool_with_the_reason_and_the_turn_goes_on(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    async with world(tool_calls(("danger", "{}")), text_answer("understood"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        card = await waiting_card(w, watcher)
        await w.registry.respond(
            "s1",
            card["interaction_id"],
            revision=card["revision"],
            response={"decision": "denied", "reason": "not today"},
            principal="ann",
        )
        await until_idle(w, watcher)
        (tool,) = parts((await w.stored())[1], "tool")
        assert (tool["state"], tool["error"]) == ("failed", "denied by ann: not today")
        assert box.ran == []


async def test_A5_an_answer_to_something_else_than_was_shown_is_refused(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    async with world(tool_calls(("danger", "{}")), text_answer("x"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        card = await waiting_card(w, watcher)
        wrong: list[tuple[str, int, Any, str, str]] = [
            (card["interaction_id"], card["revision"] - 1, {"decision": "approved"}, "conflict", "revision"),
            ("ask-unknown", card["revision"], {"decision": "approved"}, "not_found", "interaction_id"),
            (card["interaction_id"], card["revision"], {"decision": "maybe"}, "invalid_argument", "response.decision"),
            (card["interaction_id"], card["revision"], {}, "invalid_argument", "response.decision"),
            (
                card["interaction_id"],
                card["revision"],
                {"decision": "approved", "x": 1},
                "invalid_argument",
                "response.x",
            ),
        ]
        for interaction_id, revision, response, code, field in wrong:
            with pytest.raises(RequestError) as refused:
                await w.registry.respond("s1", interaction_id, revision=revision, response=response)
            assert (refused.value.code, refused.value.field) == (code, field)
        assert watcher.view.interactions == [card]
        assert box.ran == []


async def test_P7_two_cards_wait_side_by_side_and_text_streams_on(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    step = tool_calls(("danger", '{"n":1}'), ("danger", '{"n":2}'))
    async with world(step, text_answer("ok"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        await watcher.until(lambda: len(watcher.view.interactions) == 2)
        for card in reversed(watcher.view.interactions):
            await w.registry.respond(
                "s1", card["interaction_id"], revision=card["revision"], response={"decision": "approved"}
            )
        await until_idle(w, watcher)
        assert box.ran == [{"n": 2}, {"n": 1}]


async def test_P7_questions_are_answered_and_the_answers_are_the_tools_output(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    questions = {
        "questions": [{"question_id": "color", "question": "Which?", "options": [{"value": "r", "label": "Red"}]}]
    }
    step = tool_calls(("ask_user", msgspec.json.encode(questions).decode()))
    async with world(step, text_answer("ok"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        card = await waiting_card(w, watcher)
        assert card["interaction_type"] == "question"
        assert card["request"] == questions
        for answers, field in (({}, "color"), ({"color": "r", "size": "xl"}, "size"), ({"color": 3}, "color")):
            with pytest.raises(RequestError) as refused:
                await w.registry.respond(
                    "s1", card["interaction_id"], revision=card["revision"], response={"answers": answers}
                )
            assert refused.value.code == "invalid_argument"
            assert field in (refused.value.field or "") or "answers" in (refused.value.field or "")
        await w.registry.respond(
            "s1", card["interaction_id"], revision=card["revision"], response={"answers": {"color": "r"}}
        )
        await until_idle(w, watcher)
        (tool,) = parts((await w.stored())[1], "tool")
        assert (tool["state"], tool["output"]) == ("completed", {"color": "r"})
        assert watcher.view.messages == await w.stored()


async def test_W10_the_results_of_one_step_leave_the_message_small_enough_for_a_frame(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    calls = tool_calls(*[("echo", json_text(x="y" * 10_000))] * 5)
    limits = SessionLimits(held_message_bytes=85_000)
    async with world(calls, text_answer("ok"), tools=box.registry, limits=limits) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        await until_idle(w, watcher)
        agent = (await w.stored())[1]
        assert sorted(tool["state"] for tool in parts(agent, "tool")) == ["completed"] * 3 + ["failed"] * 2
        errors = [tool["error"] for tool in parts(agent, "tool") if tool["state"] == "failed"]
        assert all("too large together" in error for error in errors)
        assert len(msgspec.json.encode(agent)) < 85_000 + 1_000
        assert watcher.view.messages == await w.stored()


async def test_W10_an_answer_is_as_large_as_a_result_at_most_and_a_shorter_one_still_counts(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    ask = ("ask_user", json_text(questions=[{"question_id": "q", "question": "What?"}]))
    limits = SessionLimits(held_message_bytes=600_000)
    async with world(tool_calls(ask, ask), text_answer("ok"), tools=box.registry, limits=limits) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        await watcher.until(lambda: len(watcher.view.interactions) == 2)

        async def answer(card: Map, size: int) -> None:
            response = {"answers": {"q": "x" * size}}
            await w.registry.respond("s1", card["interaction_id"], revision=card["revision"], response=response)

        first, second = watcher.view.interactions
        for card, too_large, fitting in ((first, OUTPUT_BYTES, 200_000), (second, 200_000, 1)):
            with pytest.raises(RequestError) as refused:
                await answer(card, too_large)
            assert (refused.value.code, refused.value.field) == ("invalid_argument", "response.answers")
            await answer(card, fitting)
        await until_idle(w, watcher)
        assert {tool["state"] for tool in parts((await w.stored())[1], "tool")} == {"completed"}


async def test_Q2_a_tool_that_fails_as_it_is_stopped_harms_nobody(autojump_clock: object, world: MakeWorld) -> None:
    """In a nursery its fault comes together with the cancellation, and must not pass for one of the Session."""

    @tool
    async def torn() -> None:
        """Fails as it is stopped."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ToolFailure("in its last moments")

    async with world(tool_calls(("torn", "{}")), text_answer("ok"), tools=ToolRegistry((torn,))) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        await trio.sleep(5)
        assert (await w.registry.stop("s1")).stopped
        await trio.testing.wait_all_tasks_blocked()
        assert watcher.restarts == 0
        await prompt(w, request_id="r2")
        await until_idle(w, watcher)
        assert watcher.view.messages == await w.stored()


async def test_Q5_stop_cancels_the_card_in_the_same_commit_in_every_tab(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    async with world(tool_calls(("danger", "{}"), ("slow", '{"seconds":1000}')), tools=box.registry) as w:
        await w.session()
        one, two = await w.watch(), await w.watch()
        await prompt(w)
        card = await waiting_card(w, one)
        before = w.store.commits
        assert (await w.registry.stop("s1")).stopped
        assert w.store.commits == before + 1
        (_, agent) = stored = await w.stored()
        assert [p["state"] for p in parts(agent, "tool")] == ["failed", "failed"]
        assert [p["status"] for p in parts(agent, "interaction")] == ["cancelled"]
        assert parts(agent, "error")[0]["code"] == "stopped"
        for watcher in (one, two):
            assert watcher.view.interactions == []
            assert watcher.view.messages == stored
        with pytest.raises(RequestError) as refused:
            await w.registry.respond(
                "s1", card["interaction_id"], revision=card["revision"], response={"decision": "approved"}
            )
        assert (refused.value.code, refused.value.details["status"]) == ("already_resolved", "cancelled")
        await trio.sleep(2000)
        assert box.ran == [{"seconds": 1000}]
        assert await w.stored() == stored


async def test_S9_a_resent_answer_gets_the_same_result(autojump_clock: object, world: MakeWorld, box: Toolbox) -> None:
    async with world(tool_calls(("danger", "{}")), text_answer("ok"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        card = await waiting_card(w, watcher)
        options = {"revision": card["revision"], "client_request_id": "answer-1"}
        first = await w.registry.respond("s1", card["interaction_id"], response={"decision": "approved"}, **options)
        again = await w.registry.respond("s1", card["interaction_id"], response={"decision": "approved"}, **options)
        assert first == again
        with pytest.raises(RequestError) as refused:
            await w.registry.respond("s1", card["interaction_id"], response={"decision": "denied"}, **options)
        assert refused.value.code == "conflict"
        await until_idle(w, watcher)
        assert len(box.ran) == 1


async def test_A3_always_allow_is_session_config_recorded_as_an_action_and_pending_ones_stay(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    calls = [tool_calls(("danger", '{"n":1}')), tool_calls(("danger", '{"n":2}')), text_answer("ok")]
    async with world(*calls, tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        card = await waiting_card(w, watcher)
        await w.registry.update("s1", config=ConfigChange(approval_mode="always-allow"))
        assert watcher.view.session is not None
        assert watcher.view.session["config"]["approval_mode"] == "always-allow"
        assert watcher.view.interactions == [card]
        (_, agent) = await w.stored()
        (action,) = parts(agent, "action")
        assert (action["action_type"], action["state"]) == ("approval-mode-change", "completed")
        await w.registry.respond(
            "s1", card["interaction_id"], revision=card["revision"], response={"decision": "approved"}
        )
        await until_idle(w, watcher)
        assert box.ran == [{"n": 1}, {"n": 2}]
        assert watcher.view.messages == await w.stored()


async def test_S7_recovery_leaves_no_open_tool_or_card(
    autojump_clock: object, world: MakeWorld, box: Toolbox, memory_store: MemoryStore
) -> None:
    step = tool_calls(("danger", "{}"), ("slow", '{"seconds":1000}'))
    async with world(step, tools=box.registry, store=memory_store) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        card = await waiting_card(w, watcher)
    watcher.view.disconnected()
    async with world(text_answer("ok"), tools=box.registry, store=memory_store) as w:
        await w.registry.join("s1", watcher)
        assert watcher.view.interactions == []
        (_, agent) = stored = await w.stored()
        assert [p["state"] for p in parts(agent, "tool")] == ["failed", "failed"]
        assert [p["status"] for p in parts(agent, "interaction")] == ["cancelled"]
        assert watcher.view.messages == stored
        with pytest.raises(RequestError) as refused:
            await w.registry.respond(
                "s1", card["interaction_id"], revision=card["revision"], response={"decision": "approved"}
            )
        assert refused.value.code == "already_resolved"


# ------------------------------------------------------------------------------------------------------------ steering


async def test_M8_a_prompt_that_names_the_running_turn_joins_it_at_the_next_step(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    calls = [tool_calls(("slow", '{"seconds":10}'), text="First. "), text_answer("Second.")]
    async with world(*calls, tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        first = await prompt(w)
        await trio.sleep(5)
        steer = await prompt(w, "wait, also this", "r2", expected_turn_id=first.turn_id)
        assert (steer.outcome, steer.turn_id, steer.sequence) == ("steered", first.turn_id, 3)
        assert watcher.view.queue == []
        await until_idle(w, watcher)
        stored = await w.stored()
        assert [(m["role"], m.get("state", "")) for m in stored] == [
            ("user", ""),
            ("agent", "done"),
            ("user", ""),
            ("agent", "done"),
        ]
        assert {m["turn_id"] for m in stored} == {first.turn_id}
        assert [p["type"] for p in stored[1]["parts"]] == ["text", "tool"]
        assert stored[3]["parts"][0]["text"] == "Second."
        assert [m.role for m in w.env.provider.requests[-1].messages] == ["user", "assistant", "tool", "user"]
        assert watcher.view.messages == stored
        finishes = [m for m in watcher.mutations("turn") if m["type"] == "finish"]
        assert len(finishes) == 1


async def test_M8_a_steer_during_the_last_step_makes_the_turn_go_on(autojump_clock: object, world: MakeWorld) -> None:
    async with world(text_answer("one ", "two", every=5.0), text_answer("three")) as w:
        await w.session()
        watcher = await w.watch()
        first = await prompt(w)
        await trio.sleep(7)
        await prompt(w, "more", "r2", expected_turn_id=first.turn_id)
        await until_idle(w, watcher)
        stored = await w.stored()
        assert [m["role"] for m in stored] == ["user", "agent", "user", "agent"]
        assert stored[1]["parts"][0]["text"] == "one two"
        assert stored[3]["parts"][0]["text"] == "three"
        assert watcher.view.messages == stored


async def test_T6_a_failed_later_step_is_rolled_back_alone(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    half = [*tool_calls(("echo", '{"never":1}'), text="half ")[:-1], (5.0, ModelError("overloaded", "busy"))]
    async with world(tool_calls(("echo", '{"a":1}')), half, text_answer("fine"), tools=box.registry) as w:
        await w.session()
        watcher = await w.watch()
        await prompt(w)
        await until_idle(w, watcher)
        (_, agent) = await w.stored()
        assert [p["type"] for p in agent["parts"]] == ["tool", "text"]
        assert agent["parts"][1]["text"] == "fine"
        assert box.ran == [{"a": 1}]
        assert watcher.view.messages == await w.stored()


async def test_T1_a_turn_that_never_ends_its_tool_loop_is_ended(
    autojump_clock: object, world: MakeWorld, box: Toolbox
) -> None:
    async with world(*[tool_calls(("echo", "{}"))] * 5, tools=box.registry, limits=SessionLimits(steps=5)) as w:
        await w.session()
        watcher = await w.watch()
        turn = await prompt(w)
        await until_idle(w, watcher)
        record = await w.store.turn(turn.turn_id)
        assert record is not None
        assert record.error is not None
        assert (record.status, record.error.code) == ("failed", "too_many_steps")
        assert len(box.ran) == 5
