"""Figures of a server for Prometheus.

Each label has a bounded number of values: names that clients choose freely are not labels, and only the first thousand
names of skills and of tools are told apart.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.exposition import choose_encoder

from server.requests import RequestDecision
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from prometheus_client import Metric

    from server.hosting.catalog_log import ReloadFigures
    from server.requests import RequestRecord

OTHER: Final = "(other)"
"""The value of a label beyond its bound."""

MAX_NAMES: Final = 1000

_STREAMS: Final = frozenset({"subscriptions/listen"})
# Methods whose requests last as long as their clients want.

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """The state of a server at the time of a scrape; `skills` has the state and the reason of each skill."""

    version: str
    skills: Iterable[tuple[str, str]]
    subscribers: Mapping[str, int]
    sessions: Mapping[str, int]
    reloads: ReloadFigures
    running: int
    draining: bool
    replicas_connected: bool | None = None
    """Whether this replica receives the messages of the others; None if there are no others."""


def _bounded(name: str, known: set[str]) -> str:
    """Return the value of a label for a name; `known` are the names that have a value of their own."""
    if name in known or len(known) < MAX_NAMES:
        known.add(name)
        return name
    return OTHER


class Metrics:
    """The figures of one server, in a registry of their own."""

    def __init__(self) -> None:
        """Count from zero."""
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "skillserve_requests",
            "Requests by method, tool, era of the protocol, decision and reason.",
            ("method", "tool", "era", "decision", "reason"),
            registry=registry,
        )
        self._seconds = Histogram(
            "skillserve_request_seconds",
            "Time to answer a request, streams of events excluded.",
            ("method",),
            registry=registry,
            buckets=_BUCKETS,
        )
        self._denials = Counter(
            "skillserve_denials",
            "Requests that were denied, refused logins included, by reason.",
            ("reason",),
            registry=registry,
        )
        self._uses = Counter(
            "skillserve_skill_uses",
            "Uses of each skill: activated, read or ran.",
            ("skill", "use"),
            registry=registry,
        )
        self._skills, self._tools = set[str](), set[str]()

    def record(self, record: RequestRecord) -> None:
        """Count a request."""
        # The methods of records are those of the server, so their number is bounded.
        tool = _bounded(record.tool, self._tools) if record.tool else ""
        self._requests.labels(record.method, tool, record.era, record.decision, record.reason).inc()
        if record.method not in _STREAMS:
            self._seconds.labels(record.method).observe(record.seconds)
        if record.decision is RequestDecision.DENIED:
            self._denials.labels(record.reason).inc()
        if record.use is not None and record.decision is RequestDecision.ALLOWED:
            self._uses.labels(_bounded(record.skill, self._skills), record.use).inc()

    def text(self, figures: ServerFigures, accept: str = "") -> tuple[bytes, str]:
        """Return all figures in the format that a reader accepts, with its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(_All(self._registry, figures)), content_type


class _All(CollectorRegistry):
    """The counted figures, and those of the state of the server."""

    def __init__(self, counted: CollectorRegistry, figures: ServerFigures) -> None:
        super().__init__()
        self._counted = counted
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        yield from self._counted.collect()
        yield from _families(self._figures)


def _families(figures: ServerFigures) -> Iterator[Metric]:
    skills = [*figures.skills]
    # A state without skills is 0 and not absent, so that an alert on it can fire.
    states = Counts(dict.fromkeys(map(str, State), 0))
    states.update(state for state, _ in skills)
    yield _gauge("skillserve_skills", "Skills by state.", "state", states)
    reasons = Counts(reason for _, reason in skills if reason)
    yield _gauge("skillserve_skills_not_served", "Skills that are not served, by reason.", "reason", reasons)
    yield _gauge(
        "skillserve_subscribers", "Streams of events that are open, by era of the protocol.", "era", figures.subscribers
    )
    yield _gauge(
        "skillserve_sessions", "Sessions of the handshake era that are open, by state.", "state", figures.sessions
    )
    reloads = CounterMetricFamily("skillserve_reloads", "Reloads of the catalog by outcome.", labels=["outcome"])
    reloads.add_metric(["done"], figures.reloads.done)
    reloads.add_metric(["failed"], figures.reloads.failed)
    yield reloads
    yield SummaryMetricFamily(
        "skillserve_reload_seconds",
        "Time that reloads took.",
        count_value=figures.reloads.done + figures.reloads.failed,
        sum_value=figures.reloads.seconds,
    )
    yield GaugeMetricFamily("skillserve_requests_running", "Requests that are being answered.", figures.running)
    yield GaugeMetricFamily("skillserve_draining", "Whether the server is about to stop.", int(figures.draining))
    if figures.replicas_connected is not None:
        yield GaugeMetricFamily(
            "skillserve_replicas_connected",
            "Whether this replica receives the messages of the others.",
            int(figures.replicas_connected),
        )
    yield _gauge("skillserve_info", "The version of the server.", "version", {figures.version: 1})


def _gauge(name: str, about: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=[label])
    for value, number in sorted(values.items()):
        family.add_metric([value], number)
    return family
