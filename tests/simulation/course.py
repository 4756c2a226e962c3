"""The course of every run: a process starts, something is played, all comes to rest, and what is left is checked.

Virtual time and a seeded scheduler make a run the same each time. What is played is told by subclasses.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

import trio
import trio.testing

from simulation.deletion import delete
from simulation.faulty_store import StoreFaults
from simulation.journal import Journal
from simulation.model import Model
from simulation.rest import Rest
from simulation.tabs import SESSION, Tab
from simulation.users import Users
from simulation.world import MakeRegistry, World
from turnwire.store.base import Store
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import PendingInteraction
from turnwire_protocol.parts import TextInput

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]

REST_ROUNDS = 120
"""After so many looks, `REST_SECONDS` apart, a Session that is still busy is stuck."""

REST_SECONDS = 3.0

BACKGROUND_SECONDS = 30.0
"""By then a title or a summary, which the last Turn made due, is stored, however slow the store is."""


class Course:
    """One run on one store."""

    faults: StoreFaults
    model: Model
    users: Users
    rest: Rest
    """What is left in the end; not there when the run broke off before."""

    last_seconds = 0.0
    """How long the Turn may run in which the Session is deleted."""

    def __init__(self, name: str, store: Store, nursery: trio.Nursery) -> None:
        self.journal = Journal(name)
        self.nursery = nursery
        self._store = store

    def make_world(self, make_registry: MakeRegistry, **options: Any) -> World:
        return World(self.journal, self._store, faults=self.faults, make_registry=make_registry, **options)

    @property
    def world(self) -> World:
        raise NotImplementedError

    async def play(self) -> None:
        """What happens before all comes to rest."""
        raise NotImplementedError

    def end_faults(self) -> None:
        """Store and model are well from now on."""
        self.model.calm = True

    async def run(self) -> None:
        """Plays, lets everything come to rest, and checks."""
        await self.world.start(self.nursery)
        await self.world.registry.create(session_id=SESSION)
        try:
            await self.play()
            self.journal.note("all comes to rest")
            self.end_faults()
            auditor = self.world.new_tab(internal=True)
            await self._come_to_rest(auditor)
            await self._last_prompt(auditor)
            self.rest = Rest(self.world, self.users, self.model.calls)
            await self.rest.check(self._store)
            await self._forget(auditor)
            self.model.calm = False
            await delete(self.world, self._store, auditor, after=self.last_seconds)
        except Exception as error:  # noqa: BLE001 - whatever it is, the trace is wanted with it
            self.journal.require(False, "W9", f"{error!r}")
        self.world.kill()

    async def _come_to_rest(self, auditor: Tab) -> None:
        """Users come back, and answer what they are asked, until nothing is left to do."""
        await self.world.restart_if_dead(self.nursery)
        quiet = 0
        for _ in range(REST_ROUNDS):
            await trio.sleep(REST_SECONDS)
            for tab in self.world.tabs:
                if not tab.live:
                    await self._rejoin(tab)
            busy = not auditor.live or auditor.view.turn is not None or auditor.view.queue or self.model.running
            quiet = 0 if busy else quiet + 1
            if quiet == 2:
                return
            for card in (await self.world.registry.interactions(SESSION)).items:
                self.users.start("the last user responds", self._answer(card))
        self.journal.require(False, "K1", f"the Session never comes to rest: {auditor.view.turn}")

    def _answer(self, card: PendingInteraction) -> Callable[[], Awaitable[object]]:
        question = card.interaction_type == "question"
        response = {"answers": {"color": "red"}} if question else {"decision": "approved"}
        return lambda: self.users.respond_to(card, "the last user", response)

    async def _rejoin(self, tab: Tab) -> None:
        try:
            await self.world.join(tab)
        except RequestError as error:  # it may be recovered just now; the next round tries again
            self.journal.note(f"{tab.name} cannot join: {error}")

    async def _last_prompt(self, auditor: Tab) -> None:
        """Whatever has happened, the next prompt is answered."""
        asked = self.users.will_ask("last", "the last prompt")
        receipt = await self.world.registry.prompt(SESSION, parts=(TextInput(asked.text),), client_request_id="last")
        asked.receipts.append(receipt)
        await trio.sleep(REST_SECONDS)
        turn = await self._store.turn(receipt.turn_id)
        status = None if turn is None else turn.status
        self.journal.require((receipt.outcome, status) == ("started", "completed"), "T1", f"the last prompt: {turn}")
        await trio.sleep(BACKGROUND_SECONDS)

    async def _forget(self, auditor: Tab) -> None:
        """With nobody left, the Session leaves memory; who comes then joins it in a new epoch."""
        epoch = auditor.view.epoch
        for tab in self.world.tabs:
            self.users.leave(tab)
        self.world.registry.evict_idle()
        await self.world.join(auditor)
        self.journal.require(auditor.view.epoch != epoch, "T4", "the Session stays in memory though nobody needs it")


def run_course(
    make: Callable[[Store, trio.Nursery], Course],
    *,
    seed: int,
    open_store: OpenStore,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> Course:
    """A run from beginning to end, the same each time."""

    async def main() -> Course:
        async with open_store() as store, trio.open_nursery() as nursery:
            course = make(store, nursery)
            await course.run()
        return course

    with seeded_scheduler(seed):
        return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0), instruments=instruments)


@contextmanager
def seeded_scheduler(seed: int) -> Iterator[None]:
    """Makes trio's order of runnable tasks a matter of the seed, and keeps expected faults out of the log.

    There is no public way to this; pytest-trio does the same for Hypothesis.
    """
    core = trio._core._run
    state, deterministic = core._r.getstate(), core._ALLOW_DETERMINISTIC_SCHEDULING
    core._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    core._r.seed(seed)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        core._ALLOW_DETERMINISTIC_SCHEDULING = deterministic  # type: ignore[misc]
        core._r.setstate(state)
