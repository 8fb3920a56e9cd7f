"""Why the host makes this call now, for the log and for people.

    log.info("reconciling", because=", ".join(map(str, triggers.list())))

A key is queued only once, even if many events occur, so the list may be incomplete: a plugin's actions must not depend
on it. Only reconcilers can use this module.

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
    #: - `Changed`: the object is new or has changed. `Deleted`: it was deleted.
    #: - `Start`: the controller has started, or the first list of a watch has arrived.
    #: - `Resync`: the resync interval has passed.
    #: - `RequeueAfter`: the previous call has asked for it. `Retry`: the previous call has failed.
    #: - `Swap`: a new build has replaced the plugin. `Configuration`: its configuration or its grants have changed.
    reason: str
    #: The name of the watch, if the manifest gives it one.
    watch: str | None = None
    #: The object, if the event was about one.
    object: ObjectRef | None = None

    def __str__(self) -> str:
        return self.reason if self.object is None else f"{self.reason} {self.object}"


def list() -> builtins.list[Trigger]:
    """Returns the events that have queued the key since its previous call, oldest first, and at most eight. In a test
    it is empty unless the test sets `windlass.testing.Host.triggers`."""
    return [Trigger(reason, watch, target) for reason, watch, target in _host.current.triggers_list()]
