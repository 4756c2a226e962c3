"""A scenario: a fixed run, for faults at each of its awaits. Which ones there are is `scenarios`."""

from random import Random
from typing import Any, Literal

import trio

from simulation.course import Course
from simulation.faulty_store import SimulatedBug, StoreFaults, unavailable
from simulation.model import Happening, Model, Plan, calm_plan
from simulation.users import Users
from simulation.world import LIMITS, World
from turnwire.context.composer import WINDOW_TOKENS
from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, StepEnd
from turnwire.sessions.environment import SessionLimits
from turnwire.sessions.registry import Registry
from turnwire.store.base import Store
from turnwire_protocol.frames import PendingInteraction

EVENT_SECONDS = 0.1
OPERATION_SECONDS = 0.01


class Scenario(Course):
    """One run, the same each time. `faults` see every operation of the store from the first prompt on."""

    limits: SessionLimits = LIMITS
    window_tokens = WINDOW_TOKENS
    watched = True
    """Whether a tab follows it from the beginning."""

    def __init__(self, store: Store, nursery: trio.Nursery, faults: StoreFaults) -> None:
        super().__init__(type(self).__name__, store, nursery)
        self.faults = faults
        self._world = self.make_world(
            Registry, limits=self.limits, window_tokens=self.window_tokens, titles=bool(self.plans("title"))
        )
        self._plans = {kind: iter(self.plans(kind)) for kind in ("turn", "title", "compaction")}
        self.model = Model(self._next_plan, lambda: self._world.committed.running)
        self._world.provider = self.model
        self.users = Users(self._world, Random(0))
        self.playing = False
        self.down_until = 0.0
        """Until when the store is away, as the story has it."""
        self.bugs = 0
        """How many operations fail as nobody foresaw."""

    @property
    def world(self) -> World:
        return self._world

    @property
    def registry(self) -> Registry:
        """Of the process that serves now."""
        return self._world.registry

    def plans(self, kind: str) -> list[Plan]:
        """What the model does in its calls of this kind, one after the other; after them it is calm."""
        raise NotImplementedError

    async def story(self) -> None:
        """What happens while faults may."""
        raise NotImplementedError

    def strike(self) -> None:
        """What befalls an operation of the store by the story itself."""
        if self.bugs:
            self.bugs -= 1
            raise SimulatedBug
        if trio.current_time() < self.down_until:
            raise unavailable()

    def _next_plan(self, kind: str) -> Plan:
        return next(self._plans[kind], calm_plan())

    def end_faults(self) -> None:
        super().end_faults()
        self.playing = False
        self.down_until = 0.0
        self.bugs = 0

    async def play(self) -> None:
        if self.watched:
            await self.world.join(self.world.new_tab(internal=True))
        self.playing = True
        await self.story()

    def cards(self) -> list[PendingInteraction]:
        """What the first tab shows that waits for an answer."""
        tab = self.world.tabs[0]
        shown: list[dict[str, Any]] = tab.view.interactions if tab.live else []
        return [PendingInteraction(**card) for card in shown]

    async def until_cards(self, number: int) -> list[PendingInteraction]:
        """So many of them, if they come soon."""
        for _ in range(20):
            if len(self.cards()) >= number:
                break
            await self.goes_by(0.2)
        return self.cards()

    async def goes_by(self, seconds: float) -> None:
        """Time goes by; a process that has died meanwhile is followed by the next one, and tabs come back."""
        await trio.sleep(seconds)
        if self.world.dead:
            await self.world.restart_if_dead(self.nursery)
        for tab in self.world.tabs:
            if not tab.live:
                self.users.join(tab)


def blocks(*contents: tuple[str, str], end: Literal["stop", "length"] = "stop") -> list[Happening]:
    """A sound Step: for each block `text` or `reasoning`, or a tool's name, and what it says."""
    events: list[Happening] = []
    tools = False
    for number, (what, text) in enumerate(contents):
        match what:
            case "text" | "reasoning":
                events.append(BlockStart(number, "text" if what == "text" else "reasoning"))
            case name:
                events.append(BlockStart(number, "tool", tool_call_id=f"theirs-{number}", tool_name=name))
                tools = True
        events += [BlockDelta(number, text[:3]), BlockDelta(number, text[3:]), BlockEnd(number)]
    return [*events, StepEnd(tuple(range(len(contents))), reason="tool_calls" if tools else end)]
