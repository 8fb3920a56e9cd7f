"""Metrics of the plugin. The host adds a prefix to the names.

A metric is a constant that both the manifest and the code use, so that the two cannot differ:

    ROLLOUTS = metrics.Counter("rollouts_total", "Rollouts that ended.", labels=["result"])

    MANIFEST = Manifest(…, metrics=[ROLLOUTS])

    ROLLOUTS.add(1, result="success")

Metrics never make a call fail. The host counts and drops a value whose labels are not those of the manifest.

"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from . import _host

__all__ = ["Counter", "Gauge", "Histogram", "add", "observe", "set"]

Labels = Mapping[str, str] | Iterable[tuple[str, str]]


def add(name: str, value: float, labels: Labels = ()) -> None:
    """Adds to a counter."""
    _send("add", name, value, labels)


def set(name: str, value: float, labels: Labels = ()) -> None:
    """Sets a gauge."""
    _send("set", name, value, labels)


def observe(name: str, value: float, labels: Labels = ()) -> None:
    """Adds a value to a histogram."""
    _send("observe", name, value, labels)


@dataclass(frozen=True)
class Counter:
    """A value that only grows."""

    #: Unique in the plugin.
    name: str
    #: A description of the metric and its unit, for people.
    help: str
    #: The names of the labels that each value carries.
    labels: Sequence[str] = ()

    def add(self, value: float = 1.0, /, **labels: str) -> None:
        """Adds to the counter."""
        add(self.name, value, labels)


@dataclass(frozen=True)
class Gauge:
    """A value that goes up and down."""

    #: Unique in the plugin.
    name: str
    #: A description of the metric and its unit, for people.
    help: str
    #: The names of the labels that each value carries.
    labels: Sequence[str] = ()

    def set(self, value: float, /, **labels: str) -> None:
        """Sets the gauge."""
        set(self.name, value, labels)


@dataclass(frozen=True)
class Histogram:
    """Counts values by size."""

    #: Unique in the plugin.
    name: str
    #: A description of the metric and its unit, for people.
    help: str
    #: The names of the labels that each value carries.
    labels: Sequence[str] = ()
    #: The upper bounds, ascending. Empty: the host's buckets.
    buckets: Sequence[float] = ()

    def observe(self, value: float, /, **labels: str) -> None:
        """Adds a value."""
        observe(self.name, value, labels)


def _send(verb: str, name: str, value: float, labels: Labels) -> None:
    pairs = labels.items() if isinstance(labels, Mapping) else labels
    _host.current.metric(verb, name, float(value), list(pairs))
