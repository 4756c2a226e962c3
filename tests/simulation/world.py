"""The world of one run: a store that survives, and one process after the other that serves it until it is killed."""

from collections.abc import Callable
from itertools import count
from random import Random

import trio

from simulation.faulty_store import Committed, FaultyStore, Killed, StoreFaults
from simulation.journal import Journal
from simulation.tabs import SESSION, Tab
from simulation.toolbox import Toolbox
from turnwire.context.composer import WINDOW_TOKENS, Composer
from turnwire.models.base import ModelProvider
from turnwire.models.retry import RetryPolicy
from turnwire.sessions.environment import Environment, SessionLimits
from turnwire.sessions.registry import Registry
from turnwire.store.base import Store

LIMITS = SessionLimits(
    steps=5,
    queued_prompts=4,
    pending_events=8,
    interaction_seconds=2.5,
    first_event_seconds=8.0,
    idle_event_seconds=6.0,
    call_seconds=60.0,
    idle_seconds=10.0,
    snapshot_part_bytes=2_000,
)
RETRY = RetryPolicy(max_attempts=3, base_ms=200, max_ms=1_000)
EPOCH_MS = 1_700_000_000_000

MakeRegistry = Callable[[Environment], Registry]


class World:
    """What outlives the processes, and the process that serves now."""

    def __init__(
        self,
        journal: Journal,
        store: Store,
        *,
        faults: StoreFaults,
        make_registry: MakeRegistry = Registry,
        limits: SessionLimits = LIMITS,
        window_tokens: int = WINDOW_TOKENS,
        titles: bool = True,
    ) -> None:
        self.journal = journal
        self.committed = Committed(journal)
        self.tools = Toolbox(journal, self.committed)
        self.provider: ModelProvider
        self.tabs: list[Tab] = []
        self.registry: Registry
        self.store: FaultyStore
        self.requests: trio.Nursery
        """Where requests to the present process run: they die with it."""
        self.faults = faults
        self._kept = store
        self._make_registry = make_registry
        self._limits = limits
        self._window_tokens = window_tokens
        self._titles = titles
        self._ids = count(1)
        self._stopped = trio.Event()
        self.dead = True
        self.deaths = 0

    # ------------------------------------------------------------------------------------------------------ processes

    async def start(self, nursery: trio.Nursery) -> None:
        """A new process: it recovers the store and serves."""
        self.store = FaultyStore(self._kept, self.committed, self.faults)
        self._stopped = trio.Event()
        await nursery.start(self._serve)
        self.dead = False

    def kill(self) -> None:
        """The process dies where it is; nothing that it still does counts."""
        self.dead = True
        self.deaths += 1
        self.journal.note("killed")
        for tab in self.tabs:
            tab.disconnect()
        self.store.kill()
        self.requests.cancel_scope.cancel()

    async def restart_if_dead(self, nursery: trio.Nursery) -> None:
        """After a kill: waits until nothing of the old process is left, and starts the next one."""
        if self.dead:
            await self._stopped.wait()
            await self.start(nursery)

    async def _serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        environment = self._environment()
        try:
            async with trio.open_nursery() as self.requests:
                recovered = await self._kept.recover(environment.now())
                self.journal.note(f"a process starts: {recovered}")
                self.registry = self._make_registry(environment)
                await self.requests.start(self.registry.run)
                task_status.started()
        except* Killed:
            pass
        finally:
            self._stopped.set()

    def _environment(self) -> Environment:
        return Environment(
            store=self.store,
            provider=self.provider,
            composer=Composer(self.store.context, window_tokens=self._window_tokens),
            titles=self._titles,
            tools=self.tools.registry,
            retry=RETRY,
            limits=self._limits,
            now=lambda: EPOCH_MS + round(trio.current_time() * 1000),
            new_id=lambda prefix: f"{prefix}-{next(self._ids)}",
            random=Random(7),
        )

    # ----------------------------------------------------------------------------------------------------------- tabs

    def new_tab(self, *, internal: bool = False, limit: int = 50) -> Tab:
        tab = Tab(f"tab{len(self.tabs) + 1}", self.journal, self.committed, internal=internal, limit=limit)
        self.tabs.append(tab)
        tab.others = self.tabs
        return tab

    async def join(self, tab: Tab) -> None:
        """The tab gets a snapshot, over the connection that it has, or a new one."""
        connection = tab.connect()
        connection.joining += 1
        connection.away = False
        try:
            await self.registry.join(SESSION, connection, limit=tab.limit, include_internal=tab.internal)
        finally:
            connection.joining -= 1
            if tab.connection is not connection:
                self.registry.leave(SESSION, connection)  # it was given up meanwhile
            elif not tab.live and not connection.joining:
                self.registry.leave(SESSION, connection)
                connection.away = True

    def leave(self, tab: Tab) -> None:
        self.registry.leave(SESSION, tab.connect())
        tab.disconnect()
