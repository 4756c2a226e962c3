"""A run by chance: a seed decides what users, model, tools, store and fate do."""

from random import Random

import trio

from simulation.course import Course, OpenStore, run_course
from simulation.faulty_store import SimulatedBug, StoreFaults, unavailable
from simulation.journal import Journal
from simulation.model import Model, background_plan, random_plan
from simulation.users import Users
from simulation.world import MakeRegistry, World
from turnwire.context.composer import WINDOW_TOKENS
from turnwire.sessions.registry import Registry
from turnwire.store.base import Store
from turnwire.store.memory import open_memory

GAPS = (0.0, 0.0, 0.005, 0.02, 0.1, 0.1, 0.3, 0.3, 1.0, 3.0)
"""Seconds between two things that happen."""

SMALL_WINDOW = 200
"""Tokens of a model that has to be told of all but the newest in a summary."""

DRAIN_SECONDS = 60.0
"""A drain takes no longer, whatever model, tools and store do."""

WEIGHTS = {
    "prompt": 46,
    "prompt_in_process": 2,
    "resend": 6,
    "stop": 13,
    "respond": 16,
    "update": 7,
    "join": 16,
    "leave": 4,
    "archive": 2,
    "fork": 6,
    "delete_fork": 3,
    "store_down": 4,
    "store_flaky": 4,
    "store_bug": 2,
    "kill": 4,
    "evict": 4,
    "drain": 1,
}
"""What happens, and how often."""


INSTRUCTED = 0.08
"""How likely the server's program gives the model an instruction after anything that happens."""

HANGING = 0.15
"""In how many worlds the store hangs at times."""

HANGS = 0.15
"""How likely it begins to after anything that happens there."""

HANG_SECONDS = (0.5, 9.0, 12.0, 40.0)
"""How long it answers nothing: shorter, and longer, than requests wait for it."""


class RandomFaults(StoreFaults):
    """A store that may be slow, hangs, is down or flaky for a while, and once in a while fails as nobody foresaw."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._slow = random.random() < 0.3
        self.down_until = 0.0
        self.flaky_until = 0.0
        self.hangs_until = 0.0
        self.bugs = 0

    def before(self, number: int) -> None:
        now = trio.current_time()
        if now < self.down_until or (now < self.flaky_until and self._random.random() < 0.3):
            raise unavailable()
        self._bug()

    def after(self, number: int) -> None:
        self._bug()

    def _bug(self) -> None:
        """A bug that is to come meets an operation before it is done, or behind that."""
        if self.bugs and self._random.random() < 0.5:
            self.bugs -= 1
            raise SimulatedBug

    def pause(self) -> float:
        hang = max(self.hangs_until - trio.current_time(), 0.0)
        return hang or (self._random.choice((0.0, 0.0, 0.001, 0.02, 0.4)) if self._slow else 0.0)

    def end(self) -> None:
        self.down_until = self.flaky_until = 0.0
        self.bugs = 0


class Simulation(Course):
    """One run by chance."""

    faults: RandomFaults

    def __init__(self, seed: int, store: Store, nursery: trio.Nursery, make_registry: MakeRegistry) -> None:
        super().__init__(f"TURNWIRE_SEED={seed}", store, nursery)
        self._random = Random(f"{seed}/fate")
        self.faults = RandomFaults(Random(f"{seed}/store"))
        small = self._random.random() < 0.4
        self._world = self.make_world(
            make_registry, window_tokens=SMALL_WINDOW if small else WINDOW_TOKENS, titles=self._random.random() < 0.5
        )
        chance = Random(f"{seed}/model")
        self.model = Model(
            lambda kind: random_plan(chance) if kind == "turn" else background_plan(chance),
            lambda: self._world.committed.running,
        )
        self._world.provider = self.model
        self.users = Users(self._world, Random(f"{seed}/users"))
        self.last_seconds = self._random.choice(GAPS)
        # Chance of their own: what was added later leaves everything else in a world as it was.
        self._instructions = Random(f"{seed}/instructions")
        self._hangs = Random(f"{seed}/hangs")
        self._may_hang = self._hangs.random() < HANGING

    @property
    def world(self) -> World:
        return self._world

    async def play(self) -> None:
        if self._random.random() < 0.6:
            await self.world.join(self.world.new_tab(internal=self._random.random() < 0.5))
        self.users.prompt()
        for _ in range(self._random.randint(6, 18)):
            await self._happen()
            if self._instructions.random() < INSTRUCTED:
                self.users.instruct(patience=self._instructions.choice((None, None, 0.0, 0.01)))
            if self._may_hang and self._hangs.random() < HANGS:
                self.journal.note("* store_hangs")
                self.faults.hangs_until = trio.current_time() + self._hangs.choice(HANG_SECONDS)
            await trio.sleep(self._random.choice(GAPS))
        await trio.sleep_until(self.faults.hangs_until)

    def end_faults(self) -> None:
        super().end_faults()
        self.faults.end()

    async def _happen(self) -> None:
        users, random = self.users, self._random
        match random.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))[0]:
            case "prompt":
                users.prompt(patience=self._patience())
            case "prompt_in_process":
                users.prompt_in_process()
            case "resend":
                users.resend()
            case "stop":
                users.stop()
            case "respond":
                users.respond(times=random.choice((1, 1, 2)))
            case "update":
                users.update()
            case "join":
                self._join()
            case "archive":
                users.archive()
            case "fork":
                users.fork()
            case "delete_fork":
                users.delete_fork()
            case "leave" if self.world.tabs:
                users.leave(random.choice(self.world.tabs))
            case what:
                await self._befall(what)

    def _patience(self) -> float | None:
        return self._random.choice((0.0, 0.0, 0.01, 0.5)) if self._random.random() < 0.1 else None

    def _join(self) -> None:
        random, tabs = self._random, self.world.tabs
        if tabs and random.random() < 0.6:
            tab = random.choice(tabs)
        else:
            tab = self.world.new_tab(internal=random.random() < 0.3, limit=random.choice((1, 2, 50)))
        self.users.join(tab, patience=self._patience())

    async def _befall(self, what: str) -> None:
        """What befalls the server."""
        self.journal.note(f"* {what}")
        soon = trio.current_time() + self._random.choice((0.01, 0.3, 2.0, 5.0))
        match what:
            case "store_down":
                self.faults.down_until = soon
            case "store_flaky":
                self.faults.flaky_until = soon
            case "store_bug":
                self.faults.bugs = 1
            case "evict":
                self.world.registry.evict_idle()
            case "kill":
                self.world.kill()
                await self.world.restart_if_dead(self.nursery)
            case "drain":
                with trio.move_on_after(DRAIN_SECONDS) as scope:
                    await self.world.registry.drain(self._random.choice((0.0, 0.5, 5.0)))
                self.journal.require(not scope.cancelled_caught, "W8", "the drain does not end")
                self.world.kill()
                await self.world.restart_if_dead(self.nursery)


def play_seed(seed: int, *, make_registry: MakeRegistry = Registry, open_store: OpenStore = open_memory) -> Course:
    """The run that this seed decides."""
    return run_course(
        lambda store, nursery: Simulation(seed, store, nursery, make_registry), seed=seed, open_store=open_store
    )


def run_seed(seed: int, *, make_registry: MakeRegistry = Registry, open_store: OpenStore = open_memory) -> Journal:
    """What happened in the run that this seed decides."""
    return play_seed(seed, make_registry=make_registry, open_store=open_store).journal
