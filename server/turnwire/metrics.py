"""Metrics for Prometheus: what the layers have counted, under names that dashboards rely on.

Nothing is pushed here: a scrape reads plain numbers. So a server that nobody scrapes pays for counting only, and no
layer knows of this one.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import trio
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from turnwire.gateway import Gateway, serve_side_port
from turnwire.measures import Histogram
from turnwire.sessions.registry import Registry
from turnwire.store.sqlite import SqliteStore
from turnwire_protocol.codes import CLOSE_CODES

LAG_SECONDS = 0.1
"""How often it is measured how late the event loop wakes a task."""

FIRST_FREE_CODE = 3000
"""From here on clients may close with any code of their own; those that are not of this protocol count as one."""

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """The metrics of one server."""

    def __init__(self, gateway: Gateway, registry: Registry, store: SqliteStore) -> None:
        self._lag = Histogram()
        self._collectors = CollectorRegistry()
        self._collectors.register(_Server(gateway, registry, store, self._lag))
        ProcessCollector(registry=self._collectors)

    def text(self) -> bytes:
        """All metrics as they are now, in Prometheus' text format."""
        return generate_latest(self._collectors)

    async def serve(
        self, host: str, port: int, *, task_status: trio.TaskStatus[tuple[str, int]] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Answers `GET /metrics` until it is cancelled; reports where. Raises OSError."""
        async with trio.open_nursery() as nursery:
            bound: tuple[str, int] = await nursery.start(
                partial(serve_side_port, host, port, {"/metrics": lambda: (self.text(), CONTENT_TYPE)})
            )
            nursery.start_soon(self._watch_lag)
            task_status.started(bound)

    async def _watch_lag(self) -> None:
        while True:
            due = trio.current_time() + LAG_SECONDS
            await trio.sleep_until(due)
            self._lag.observe(trio.current_time() - due)


class _Server(Collector):
    def __init__(self, gateway: Gateway, registry: Registry, store: SqliteStore, lag: Histogram) -> None:
        self._gateway = gateway
        self._registry = registry
        self._store = store
        self._lag = lag

    def collect(self) -> Iterator[Metric]:
        yield from self._of_the_wire()
        yield from self._of_sessions()
        yield from self._of_the_store()
        yield _histogram("turnwire_event_loop_lag_seconds", "How late tasks are woken", self._lag)

    def _of_the_wire(self) -> Iterator[Metric]:
        gateway, traffic = self._gateway, self._gateway.traffic
        yield _gauge("turnwire_connections", "Open WebSocket connections", gateway.connection_count)
        yield _gauge("turnwire_outbox_bytes", "Bytes that wait for slow clients (W6)", gateway.pending_bytes)
        yield _counter("turnwire_connections_opened", "WebSocket connections since the start", traffic.opened)
        closes: dict[str, int] = {}
        for code, number in traffic.closes.items():
            name = str(code) if code < FIRST_FREE_CODE or code in CLOSE_CODES else "other"
            closes[name] = closes.get(name, 0) + number
        yield _counters("turnwire_connections_closed", "Connections that ended, by close code", "code", closes)
        frames = {"in": traffic.frames_in, "out": traffic.frames_out}
        yield _counters("turnwire_frames", "WebSocket frames", "direction", frames)
        sizes = {"in": traffic.bytes_in, "out": traffic.bytes_out}
        yield _counters("turnwire_wire_bytes", "Bytes on WebSocket connections", "direction", sizes)
        yield _counters("turnwire_reloads", "Notices to reload a Session, by reason", "reason", traffic.reloads)

    def _of_sessions(self) -> Iterator[Metric]:
        registry, counts = self._registry, self._registry.counts
        yield _gauge("turnwire_sessions_live", "Sessions in memory", registry.live_sessions)
        yield _gauge("turnwire_turns_running", "Turns that run now", registry.running_turns)
        yield _counters("turnwire_turns_finished", "Turns that have finished, by status", "status", counts.turns)
        yield _counters("turnwire_model_warnings", "Failed model requests, by code (T5)", "code", counts.warnings)
        yield _histogram(
            "turnwire_model_first_event_seconds", "How long model calls took to begin", counts.first_event_seconds
        )

    def _of_the_store(self) -> Iterator[Metric]:
        store = self._store
        yield _gauge("turnwire_store_ready", "1 while the store works, else 0 (D4)", int(store.problem is None))
        yield _gauge("turnwire_store_log_bytes", "Size of the write-ahead log (D3)", store.log_bytes)
        yield _histogram("turnwire_store_commit_seconds", "How long a commit was waited for", store.commit_seconds)
        yield _histogram("turnwire_store_group_size", "Commits that shared one transaction", store.group_sizes)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(name, about, value=value)


def _counters(name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, about, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _histogram(name: str, about: str, measured: Histogram) -> Metric:
    buckets = [("+Inf" if bound == float("inf") else str(bound), count) for bound, count in measured.cumulated()]
    return HistogramMetricFamily(name, about, buckets=buckets, sum_value=measured.total)
