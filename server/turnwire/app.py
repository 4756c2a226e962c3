"""The server from start to end, top to bottom: store, recovery, Sessions, gateway, and the orderly stop (S7, W8)."""

import logging
import random
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from functools import cache
from importlib.metadata import version
from pathlib import Path

import msgspec
import trio

from turnwire.context.composer import WINDOW_TOKENS, Composer
from turnwire.extensions import fault_of
from turnwire.gateway import (
    Authenticator,
    Authorizer,
    Document,
    Gateway,
    GatewaySettings,
    OpenAccess,
    document,
    read_page,
)
from turnwire.gateway.auth import is_loopback
from turnwire.models.base import ModelProvider
from turnwire.models.select import provider_for
from turnwire.sessions.environment import Environment, SessionLimits
from turnwire.sessions.registry import Registry
from turnwire.signals import StopSignals
from turnwire.stopping import AT_ONCE_SECONDS, Watchdog, stop_unless_told_again
from turnwire.store.base import Store
from turnwire.store.sqlite import SqliteStore, open_sqlite
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
    whether the model names Sessions that nobody named. Raises ValueError for an unknown model, for two tools of one
    name and for a window of no tokens; TypeError for a model or a tool that is none.
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
        if not all(hasattr(self._provider, name) for name in ("name", "stream", "aclose")):
            raise TypeError(f"model: {model!r} is no ModelProvider; it needs `name`, `stream` and `aclose`")
        if type(context_window_tokens) is not int or context_window_tokens < 1:
            raise ValueError(f"context_window_tokens: expected an integer >= 1, got {context_window_tokens!r}")
        self._tools = ToolRegistry(tools)
        self._limits = limits or SessionLimits()
        self._context_window_tokens = context_window_tokens
        self._titles = titles
        self._serving: Gateway | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Registry]:
        """The Sessions, for use in this process, without a network.

        Raises StoreLocked, StoreIncompatible or StoreUnavailable when the data file cannot be used.
        """
        async with self._running() as (registry, _):
            yield registry

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[tuple[Registry, SqliteStore]]:
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
                _log.warning(
                    "recovered %(turns)d turns in %(sessions)d sessions that were cut off",
                    {"turns": recovered.turns, "sessions": recovered.sessions},
                )
            registry = Registry(environment)
            async with trio.open_nursery() as nursery:
                await nursery.start(registry.run)
                yield registry, store
                nursery.cancel_scope.cancel()
            await self._close_provider()

    async def _close_provider(self) -> None:
        try:
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await self._provider.aclose()
        except BaseException as error:  # noqa: BLE001 - how it lets go is its own affair, and the stop is orderly
            _tell_of_provider(fault_of(error, _tell_of_provider))

    async def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 8787,
        *,
        settings: GatewaySettings | None = None,
        authenticator: Authenticator | None = None,
        authorizer: Authorizer | None = None,
        grace_seconds: float = GRACE_SECONDS,
        announce: Callable[[str], None] = _log.info,
        watchdog: Watchdog | None = None,
        signals: StopSignals | None = None,
        metrics_host: str = "127.0.0.1",
        metrics_port: int | None = None,
    ) -> bool:
        """Serves the chat page and the WebSocket until SIGTERM or SIGINT; a second signal ends it at once.

        Without an `authenticator` everyone may do everything, so only loopback addresses are served. Without an
        `authorizer` the roles, grants and ownership of principals decide. `announce` gets the line that says where the
        server listens. `watchdog` is given the time that the stop may take; whoever made it cancels it.
        `signals` are those that the caller has begun to count; without them they are counted while this runs. With a
        `metrics_port` there are metrics for Prometheus on it, for anyone who reaches it. Returns whether the stop was
        orderly: no second signal cut it short, and every Turn has its end in the store.

        Raises as `open`, ValueError for an address that needs an `authenticator`, and OSError when the address cannot
        be listened on.
        """
        settings = settings or GatewaySettings(host=host, port=port)
        if authenticator is None and not is_loopback(settings.host):
            raise ValueError(f"{settings.host} is not a loopback address, so an authenticator is needed")
        watchdog = watchdog or Watchdog(lambda: None)
        with StopSignals() if signals is None else nullcontext(signals) as signals:
            async with self._running() as (registry, store), trio.open_nursery() as nursery:
                gateway = self._gateway(registry, store, settings, authenticator or OpenAccess(), authorizer)
                self._serving = gateway
                lines = []
                if metrics_port is not None:
                    from turnwire.metrics import Metrics  # Prometheus' client, which few servers need

                    metrics = Metrics(gateway, registry, store)
                    place = await nursery.start(metrics.serve, metrics_host, metrics_port)
                    lines.append(f"turnwire: metrics on http://{_place(*place)}/metrics")
                (bound, port), *_ = await nursery.start(gateway.serve)  # a name may have several addresses
                scheme = "http" if settings.tls is None else "https"
                for line in (f"turnwire: listening on {scheme}://{_place(bound, port)}", *lines):
                    announce(line)
                await signals.wait_for(1)
                watchdog.give(grace_seconds + settings.close_timeout_s + watchdog.reserve_seconds)
                orderly = await stop_unless_told_again(signals, registry, gateway, grace_seconds)
                if not orderly:
                    watchdog.give(AT_ONCE_SECONDS)
                nursery.cancel_scope.cancel()
        return orderly

    async def recheck(self, principal_id: str | None = None) -> None:
        """Asks the authorizer again about subscriptions, of one principal or of all; see `Gateway.recheck` (X3)."""
        if self._serving is not None:
            await self._serving.recheck(principal_id)

    def revoke(self, principal_id: str) -> None:
        """Closes all connections of a principal; see `Gateway.revoke` (X3)."""
        if self._serving is not None:
            self._serving.revoke(principal_id)

    def _gateway(
        self,
        registry: Registry,
        store: Store,
        settings: GatewaySettings,
        authenticator: Authenticator,
        authorizer: Authorizer | None,
    ) -> Gateway:
        return Gateway(
            registry,
            settings,
            authenticator=authenticator,
            authorizer=authorizer,
            server=f"turnwire/{version('turnwire')}",
            documents={
                **read_page(PAGE_DIRECTORY),
                "/schema.json": _schema_document,
            },
            problem=lambda: store.problem,
            rng=random.SystemRandom(),
        )


@cache
def _schema_document() -> Document:
    return document(msgspec.json.encode(schema()), "application/schema+json")


def _tell_of_provider(fault: BaseException) -> None:
    _log.error("the model provider failed to close", exc_info=fault)


def _place(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"
