"""Why this call is made now, for a line of the log and for people.

    log.info("reconciling", because=", ".join(map(str, triggers.list())))

A key is queued once, however much happens, so these are not all things that have happened: what a plugin does must not depend on
them. For reconcilers only.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from . import _host
from ._objects import ObjectRef

__all__ = ["Trigger", "list"]


@dataclass(frozen=True)
class Trigger:
    """One event that has queued the key. As text it is its reason and its object: `Changed ConfigMap prod/shop`."""

    #: The kind of event, in CamelCase; later hosts may have other ones.
    #:
    #: - `Changed`: the object is new or has changed, `Deleted`: it has gone;
    #: - `Start`: the controller has begun, or the first list of a watch has come;
    #: - `Resync`: its time has come round;
    #: - `RequeueAfter`: the call before has asked for it, `Retry`: it has failed;
    #: - `Swap`: this is another build of the plugin, `Configuration`: its configuration or its grants have changed.
    reason: str
    #: The name of the watch, if the manifest gives it one.
    watch: str | None = None
    #: The object, if the event was about one.
    object: ObjectRef | None = None

    def __str__(self) -> str:
        return self.reason if self.object is None else f"{self.reason} {self.object}"


def list() -> builtins.list[Trigger]:
    """The events that have queued the key since its previous call, oldest first, and at most eight. In a test it is empty unless the test
    sets `windlass.testing.Host.triggers`."""
    return [Trigger(reason, watch, target) for reason, watch, target in _host.current.triggers_list()]
