"""The Python SDK for Windlass plugins.

A plugin is one function that the host calls with the name of one object, whenever that object or anything around it may
have changed, and a manifest that says what it watches:

    import windlass
    from windlass import writes
    from windlass.manifest import Controller, Manifest, Watch

    MANIFEST = Manifest(
        name="shop",
        version="0.1.0",
        controllers=[Controller("shop", Watch("example.dev/v1", "Shop"), owns=[Watch("v1", "ConfigMap")])],
    )

    @windlass.reconciler(MANIFEST)
    def reconcile(request: windlass.Request) -> windlass.Outcome:
        shop = request.object
        if shop is None or request.deleting:
            return windlass.DONE  # the garbage collector deletes the objects that it owned
        ...

A plugin calls the host through the modules `cache`, `live`, `writes`, `owners`, `events`, `metrics`, `config`, `clock`,
`random`, `http`, `triggers` and `log`, named after the host's interfaces. It logs by the standard `logging` and
`print`. Keep nothing between calls: each call may get a fresh instance. `windlass.testing` has a host for unit tests.

"""

from __future__ import annotations

from . import cache, clock, conditions, config, events, http, live, log, manifest, metrics, owners, random, triggers, writes
from ._calls import (
    DONE,
    Composition,
    CompositionRequest,
    Done,
    Outcome,
    Request,
    RequeueAfter,
    RequeueBackoff,
    requeue_after,
    requeue_with_backoff,
)
from ._entry import composer, reconciler
from ._errors import ApiError, Failure, Failures, NotAvailable, Reason, Terminal, Transient, failures_of
from ._mapping import Change, Indexed, Primary, RelatedRule, Target
from ._objects import (
    Object,
    ObjectKind,
    ObjectRef,
    controller_of,
    has_fields,
    is_controlled_by,
    owner_reference,
    sibling,
)
from ._selectors import selector_text
from .events import Event

__all__ = [
    "DONE", "ApiError", "Change", "Composition", "CompositionRequest", "Done", "Event", "Failure", "Failures", "Indexed", "NotAvailable",
    "Object", "ObjectKind", "ObjectRef", "Outcome", "Primary", "Reason", "RelatedRule", "Request", "RequeueAfter", "RequeueBackoff", "Target",
    "Terminal", "Transient", "cache", "clock", "composer", "conditions", "config", "controller_of", "events", "failures_of", "has_fields", "http",
    "is_controlled_by", "live", "log", "manifest", "metrics", "owner_reference", "owners", "random", "reconciler", "requeue_after",
    "requeue_with_backoff", "selector_text", "sibling", "triggers", "writes",
]  # fmt: skip
