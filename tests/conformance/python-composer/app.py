"""The composing probe: carries out the steps in its parent. See ../README.md."""

from __future__ import annotations

from typing import Any

import windlass
from steps import COMMON, Carry, Ended, deeper, request_of, results_of, target_in
from windlass.manifest import Controller, Manifest, MappedWatch, Mapping, OwnedWatch, Watch

MANIFEST = Manifest(
    name="conformance-composer",
    version="0.1.0",
    controllers=[
        Controller(
            name="compositions",
            primary=Watch("conformance.windlass.dev/v1", "Composition"),
            owns=[OwnedWatch("v1", "ConfigMap", update_strategy="recreate")],
            watches=[
                MappedWatch("v1", "Secret", call_fields=["/data"], mapping=Mapping.same_name()),
                MappedWatch("v1", "Service", name="customized", mapping=Mapping.customize()),
            ],
        )
    ],
)


def customize(request: windlass.Request) -> list[windlass.RelatedRule]:
    assert request.object is not None
    spec = request.object.get("spec") or {}
    if "failRules" in spec:
        raise windlass.Transient(spec["failRules"])
    if "raiseRules" in spec:
        deeper(spec["raiseRules"])
    return [
        windlass.RelatedRule(rule["watch"], rule.get("namespace"), rule.get("names") or [], rule.get("labelSelector"))
        for rule in spec.get("rules") or []
    ]


@windlass.composer(MANIFEST, customize=customize)
def compose(request: windlass.CompositionRequest) -> windlass.Composition:
    spec = request.parent.get("spec") or {}
    table: dict[str, Carry] = {**COMMON, "request": lambda step: request_of(request.request, request.request.object is not None)}
    try:
        results = results_of(spec.get("steps") or [], table)
    except Ended as ended:
        if isinstance(ended.outcome, windlass.RequeueBackoff):
            return windlass.Composition(requeue_backoff=True)
        return windlass.Composition(requeue_after=ended.outcome.ms / 1000)
    requeue_after = spec.get("requeueAfterMs")
    return windlass.Composition(
        children=spec.get("children") or [],
        status={"results": results, "children": _names(request.children), "related": _names(request.related)},
        events=[_event(event) for event in spec.get("events") or []],
        requeue_after=None if requeue_after is None else requeue_after / 1000,
        requeue_backoff=bool(spec.get("requeueBackoff")),
        allow_empty=bool(spec.get("allowEmpty")),
        finalized=bool(spec.get("finalized")),
    )


def _names(objects: list[windlass.Object]) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in objects)


def _event(event: dict[str, Any]) -> windlass.Event:
    regarding, related = event.get("regarding"), event.get("related")
    return windlass.Event(
        event["eventType"],
        event["reason"],
        event["action"],
        event["note"],
        None if regarding is None else target_in(regarding),
        None if related is None else target_in(related),
    )
