"""Records of what a plugin did, for a test to check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._errors import ApiError
from .._objects import ObjectRef


@dataclass(frozen=True)
class Write:
    """A write that a plugin requested, even if it failed."""

    #: `apply`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    verb: str
    #: The written object. A collection has no name.
    target: ObjectRef
    #: The object, the fields to apply, or the patch. None: a deletion.
    body: Any
    #: The options that were set, as the function of `windlass.writes` takes them.
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LogLine:
    """A line of the log."""

    level: str
    message: str
    fields: dict[str, str]


@dataclass(frozen=True)
class MetricValue:
    """A value of a metric. The verb is `add`, `set` or `observe`."""

    verb: str
    name: str
    value: float
    labels: dict[str, str]


@dataclass
class Fault:
    verb: str
    error: ApiError
    kind: str | None
    name: str | None
    times: int | None
