"""The server from start to end, top to bottom: store, recovery, Sessions, gateway, and the orderly stop (S7, W8)."""

import logging
import random
import signal
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version
from pathlib import Path

import trio

import turnwire
from turnwire.context.composer import Composer
from turnwire.gateway import Gateway, GatewaySettings, OpenAccess, read_page
from turnwire.models.select import provider_for
from turnwire.sessions.environment import Environment
from turnwire.sessions.registry import Registry
from turnwire.settings import Settings
from turnwire.store.sqlite import open_sqlite

PAGE_DIRECTORY = Path(turnwire.__file__).parent / "page"

_log = logging.getLogger(__name__)


async def serve(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Serves until SIGTERM or SIGINT; a second signal ends it at once.

    `announce` gets the line that says where the server listens. Raises StoreLocked, StoreIncompatible or
    StoreUnavailable when the data file cannot be used, and OSError when the address cannot be listened on.
    """
    provider = provider_for(settings.model, base_url=settings.base_url)
    async with open_sqlite(settings.data) as store:
        environment = Environment(store=store, provider=provider, composer=Composer(store))
        recovered = await store.recover(environment.now())
        if recovered.turns:
            _log.warning("recovered %d turns in %d sessions that were cut off", recovered.turns, recovered.sessions)
        registry = Registry(environment)
        gateway = Gateway(
            registry,
            GatewaySettings(host=settings.host, port=settings.port, tick_ms=settings.tick_ms),
            authenticator=OpenAccess(),
            server=f"turnwire/{version('turnwire')}",
            documents=read_page(PAGE_DIRECTORY),
            problem=lambda: store.problem,
            rng=random.SystemRandom(),
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(registry.run)
            ((host, port),) = await nursery.start(gateway.serve)
            announce(f"turnwire: listening on http://{f'[{host}]' if ':' in host else host}:{port}")
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                await anext(signals)
                async with trio.open_nursery() as stopping:
                    stopping.start_soon(_end_at_once, signals, nursery.cancel_scope)
                    await stop(registry, gateway, settings.grace_seconds)
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
