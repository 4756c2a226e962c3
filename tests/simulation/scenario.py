"""One fixed run that passes through everything once, for faults at each of its awaits.

Reasoning and text, a retry, parallel tools, an approval, a question, a steered and a queued prompt, an Action, a tab
that joins late, and a stop.
"""

from random import Random

import trio

from simulation.course import Course
from simulation.faulty_store import StoreFaults
from simulation.model import Model, Plan, calm_plan
from simulation.tabs import SESSION
from simulation.users import Users
from simulation.world import World
from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelError, ModelEvent, StepEnd
from turnwire.sessions.registry import Registry
from turnwire.store.base import Store
from turnwire_protocol.frames import ConfigChange, PendingInteraction

EVENT_SECONDS = 0.1
OPERATION_SECONDS = 0.01


def blocks(*contents: tuple[str, str, str], tools: bool) -> list[ModelEvent]:
    """A sound Step: (kind, tool name, text) for each block."""
    events: list[ModelEvent] = []
    for number, (kind, name, text) in enumerate(contents):
        match kind:
            case "tool":
                events.append(BlockStart(number, "tool", tool_call_id=f"theirs-{number}", tool_name=name))
            case "reasoning":
                events.append(BlockStart(number, "reasoning"))
            case _:
                events.append(BlockStart(number, "text"))
        events += [BlockDelta(number, text[:3]), BlockDelta(number, text[3:]), BlockEnd(number)]
    return [*events, StepEnd(tuple(range(len(contents))), reason="tool_calls" if tools else "stop")]


def plans() -> list[Plan]:
    """What the model does in its calls, one after the other."""
    questions = '{"questions":[{"question_id":"color","question":"Which?"}]}'
    first = blocks(
        ("reasoning", "", "let me think"),
        ("text", "", "I shall ask"),
        ("tool", "danger", '{"rm":1}'),
        ("tool", "slow", '{"seconds":1}'),
        ("tool", "ask_user", questions),
        tools=True,
    )
    half: list[ModelEvent | ModelError] = [*first[:6], ModelError("overloaded", "busy", retry_after_ms=0)]
    steps: list[list[ModelEvent] | list[ModelEvent | ModelError]] = [
        half,
        first,
        blocks(("tool", "echo", '{"n":1}'), tools=True),
        blocks(("text", "", "so it is"), tools=False),
        blocks(("text", "", "a long answer, cut short"), ("tool", "stuck", "{}"), tools=True),
    ]
    return [[(EVENT_SECONDS, event) for event in step] for step in steps]


class Scenario(Course):
    """The run. `faults` see every operation of the store from the first prompt on."""

    def __init__(self, store: Store, nursery: trio.Nursery, faults: StoreFaults) -> None:
        super().__init__("the scenario", store, nursery)
        self.faults = faults
        self._world = self.make_world(Registry)
        self._plans = iter(plans())
        self.model = Model(self._next_plan, lambda: self._world.committed.running)
        self._world.provider = self.model
        self.users = Users(self._world, Random(0))
        self.playing = False

    @property
    def world(self) -> World:
        return self._world

    def _next_plan(self, kind: str) -> Plan:
        return next(self._plans, calm_plan()) if kind == "turn" else calm_plan()

    def end_faults(self) -> None:
        super().end_faults()
        self.playing = False

    async def play(self) -> None:
        await self.world.join(self.world.new_tab(internal=True))
        self.playing = True
        self.users.ask("r1", "do it")
        await self._pass(2.0)  # the failed attempt, and into the next one
        self.users.ask("r1", "do it")
        self.users.join(self.world.new_tab(limit=2))
        self.users.ask("r2", "and this", expected_turn_id=self.world.committed.running)
        self.users.ask("r3", "later")
        await self._pass(1.0)
        self.users.start("update", lambda: self.world.registry.update(SESSION, config=ConfigChange(model="m2")))
        await self._pass(1.5)
        for card in self.world.tabs[0].view.interactions if self.world.tabs[0].live else ():
            self._respond(card)
        await self._pass(5.0)  # the tools, the Step with the steered prompt, and into the queued Turn
        self.users.start("stop", lambda: self.world.registry.stop(SESSION))
        await self._pass(1.0)

    def _respond(self, shown: dict[str, object]) -> None:
        card = PendingInteraction(**shown)  # type: ignore[arg-type]
        question = card.interaction_type == "question"
        response = {"answers": {"color": "red"}} if question else {"decision": "approved"}
        self.users.start(f"answer {card.interaction_type}", lambda: self.users.respond_to(card, "ann", response))

    async def _pass(self, seconds: float) -> None:
        """Time goes by; a process that has died meanwhile is followed by the next one, and tabs come back."""
        await trio.sleep(seconds)
        if self.world.dead:
            await self.world.restart_if_dead(self.nursery)
        for tab in self.world.tabs:
            if not tab.live:
                self.users.join(tab)
