"""What a service counts, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from bitkin.errors import BitkinError
from bitkin.service.shelf import Shelf

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_QUERIES = (1, 2, 4, 8, 16, 32, 64)


class ServiceMetrics:
    """Counters of one service; two of one process do not mix."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "bitkin_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "bitkin_request_seconds",
            "From the head of a request to the end of its answer.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.batch = Histogram(
            "bitkin_search_batch_queries",
            "Queries that were searched in one call.",
            buckets=_QUERIES,
            registry=self._registry,
        )
        self.under_way = Gauge(
            "bitkin_requests_under_way", "Requests being answered.", registry=self._registry
        )
        ProcessCollector(registry=self._registry)

    def watch(self, shelf: Shelf) -> None:
        """Let the collections be counted too, when somebody looks."""
        self._registry.register(_CollectionSizes(shelf))

    def as_text(self) -> bytes:
        """Return all of it as Prometheus reads it."""
        return generate_latest(self._registry)


class _CollectionSizes(Collector):
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def describe(self) -> Iterable[Metric]:
        return []  # or it would be asked once when registered

    def collect(self) -> Iterator[Metric]:
        rows = GaugeMetricFamily("bitkin_rows", "Rows of a collection.", labels=["collection"])
        held = GaugeMetricFamily(
            "bitkin_bytes_in_memory", "Bytes of codes and ids in memory.", labels=["collection"]
        )
        waiting = GaugeMetricFamily(
            "bitkin_searches_waiting", "Searches that no thread has begun.", labels=["collection"]
        )
        for served in self._shelf.all:
            try:
                n_rows, n_bytes = len(served.collection), served.collection.nbytes
            except BitkinError:  # dropped meanwhile
                continue
            rows.add_metric([served.name], n_rows)
            held.add_metric([served.name], n_bytes)
            waiting.add_metric([served.name], served.n_waiting)
        yield from (rows, held, waiting)
