"""The server from start to end, top to bottom: store, recovery, Sessions, gateway, and the orderly stop (S7, W8)."""

import logging
import random
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import msgspec
import trio

from turnwire.context.composer import WINDOW_TOKENS, Composer
from turnwire.gateway import Gateway, GatewaySettings, OpenAccess, document, read_page
from turnwire.models.base import ModelProvider
from turnwire.models.select import provider_for
from turnwire.sessions.environment import Environment, SessionLimits
from turnwire.sessions.registry import Registry
from turnwire.store.base import Store
from turnwire.store.sqlite import open_sqlite
from turnwire.tools.base import Tool
from turnwire.tools.registry import ToolRegistry
from turnwire_protocol.schema import schema

PAGE_DIRECTORY = Path(__file__).parent / "page"

GRACE_SECONDS = 10.0
"""How long running Turns may go on after a signal before they are stopped (W8)."""

CLOSE_SECONDS = 2.0
"""How long a model provider may take to let go of its connections."""

_log = logging.getLogger(__name__)


class Turnwire:
    """A server with its own tools and model, for programs that embed it.

    `data` is the SQLite file; `model` is a provider, `scripted`, or `openai:NAME` or `anthropic:NAME` with an optional
    `base_url`. `context_window_tokens` is what the model reads at most: a longer history is summarised. `titles` is
    whether the model names Sessions that nobody named. Raises ValueError for an unknown model, or for two tools of one
    name.
    """

    def __init__(
        self,
        data: str | Path,
        *,
        model: ModelProvider | str = "scripted",
        base_url: str | None = None,
        tools: Iterable[Tool] = (),
        limits: SessionLimits | None = None,
        context_window_tokens: int = WINDOW_TOKENS,
        titles: bool = True,
    ) -> None:
        self._data = Path(data)
        self._provider = provider_for(model, base_url=base_url) if isinstance(model, str) else model
        self._tools = ToolRegistry(tools)
        self._limits = limits or SessionLimits()
        self._context_window_tokens = context_window_tokens
        self._titles = titles

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Registry]:
        """The Sessions, for use in this process, without a network.

        Raises StoreLocked, StoreIncompatible or StoreUnavailable when the data file cannot be used.
        """
        async with self._running() as (registry, _):
            yield registry

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[tuple[Registry, Store]]:
        async with open_sqlite(self._data) as store:
            environment = Environment(
                store=store,
                provider=self._provider,
                composer=Composer(store.context, window_tokens=self._context_window_tokens),
                tools=self._tools,
                limits=self._limits,
                titles=self._titles,
            )
            recovered = await store.recover(environment.now())
            if recovered.turns:
                _log.warning("recovered %d turns in %d sessions that were cut off", recovered.turns, recovered.sessions)
            registry = Registry(environment)
            async with trio.open_nursery() as nursery:
                await nursery.start(registry.run)
                yield registry, store
                nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_SECONDS):
                await self._provider.aclose()

    async def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 8787,
        *,
        settings: GatewaySettings | None = None,
        grace_seconds: float = GRACE_SECONDS,
        announce: Callable[[str], None] = _log.info,
    ) -> None:
        """Serves the chat page and the WebSocket until SIGTERM or SIGINT; a second signal ends it at once.

        `announce` gets the line that says where the server listens. Raises as `open`, and OSError when the address
        cannot be listened on.
        """
        async with self._running() as (registry, store), trio.open_nursery() as nursery:
            gateway = Gateway(
                registry,
                settings or GatewaySettings(host=host, port=port),
                authenticator=OpenAccess(),
                server=f"turnwire/{version('turnwire')}",
                documents={
                    **read_page(PAGE_DIRECTORY),
                    "/schema.json": document(msgspec.json.encode(schema()), "application/schema+json"),
                },
                problem=lambda: store.problem,
                rng=random.SystemRandom(),
            )
            ((bound, port),) = await nursery.start(gateway.serve)
            announce(f"turnwire: listening on http://{f'[{bound}]' if ':' in bound else bound}:{port}")
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                await anext(signals)
                async with trio.open_nursery() as stopping:
                    stopping.start_soon(_end_at_once, signals, nursery.cancel_scope)
                    await stop(registry, gateway, grace_seconds)
                    stopping.cancel_scope.cancel()
            nursery.cancel_scope.cancel()


async def stop(registry: Registry, gateway: Gateway, grace_seconds: float) -> None:
    """The orderly stop: no new Turns, tell everyone, let Turns finish, store why the rest did not, close 1012 (W8)."""
    _log.info("stopping: %d turns are running", registry.running_turns)
    registry.draining = True
    gateway.announce()
    await registry.drain(grace_seconds)
    await gateway.drain()


async def _end_at_once(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    await anext(signals)
    _log.warning("a second signal: ending at once")
    scope.cancel()
