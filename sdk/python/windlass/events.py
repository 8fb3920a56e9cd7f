"""Kubernetes Events, which people see in `kubectl describe`.

They are sent later, and may be merged with other events or dropped. They never make a call fail. Emit an event about an
action or a new problem, not at each call. `reason` (why) and `action` (what) are in CamelCase for machines, and `note`
is the text for people.

"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from . import _host
from ._objects import ObjectRef

__all__ = ["Event", "emit", "normal", "warning"]


@dataclass(slots=True, unsafe_hash=True)
class Event:
    """An event, as in `events.k8s.io/v1`."""

    #: `normal` reports an action, `warning` a problem that someone should look at.
    event_type: Literal["normal", "warning"]
    #: The reason, in CamelCase.
    reason: str
    #: The action, in CamelCase.
    action: str
    #: The text for people.
    note: str
    #: The object that the event is about. None: the primary.
    regarding: ObjectRef | None = None
    #: A second, related object.
    related: ObjectRef | None = None


def normal(
    reason: str, action: str, note: str, *, regarding: ObjectRef | None = None, related: ObjectRef | None = None
) -> None:
    """Reports an action."""
    emit(Event("normal", reason, action, note, regarding, related))


def warning(
    reason: str, action: str, note: str, *, regarding: ObjectRef | None = None, related: ObjectRef | None = None
) -> None:
    """Reports a problem that someone should look at."""
    emit(Event("warning", reason, action, note, regarding, related))


def emit(event: Event) -> None:
    """Sends an event. An event about an object in another namespace than the primary's is dropped, unless the primary
    is cluster-scoped."""
    if event.event_type not in ("normal", "warning"):
        raise ValueError(f"the type of an event is normal or warning, and not {event.event_type!r}")
    _host.current.emit(event)
