"""The downscaler in Python: scales workloads down outside of their hours, and up again.

This module reads, writes and reports. Pure functions in `decision` and `schedules` decide.

"""

from __future__ import annotations

import logging

import windlass
from decision import FORCE_UPTIME, Change, Verdict, Workload, annotations_of, decide, plan
from kinds import KINDS, ORIGINAL_REPLICAS, Kind, is_finished, was_scaled
from settings import SCHEMA, Settings
from windlass import Object, ObjectRef, cache, clock, config, events, writes
from windlass.manifest import (
    Controller, Index, Manifest, MappedWatch, Mapping, Options, Permission, Predicate, Projection, Watch, Where,
)  # fmt: skip
from windlass.metrics import Counter

#: The longest time until an object is looked at again, in seconds. It bounds the delay after the clock was set forward.
REST_MAX = 12 * 3_600
#: The index of workloads by their namespace.
BY_NAMESPACE = "namespace"

SCALINGS = Counter("scalings_total", "Workloads that were scaled.", labels=["kind", "direction"])

NAMESPACES = MappedWatch(
    "v1", "Namespace",
    projection=Projection.metadata(),
    predicates=[Predicate.annotations()],
    deleted=False,
    mapping=Mapping.referenced_by(BY_NAMESPACE),
)  # fmt: skip
#: Pods that may force the whole cluster up while they run. The annotation's value counts in any case of letters.
FORCING_PODS = MappedWatch(
    "v1", "Pod",
    projection=Projection.fields("/status/phase"),
    where=[Where.annotation(FORCE_UPTIME).exists()],
    predicates=[Predicate.annotations(), Predicate.fields("/status/phase")],
    mapping=Mapping.all(),
)  # fmt: skip


def controller(kind: Kind) -> Controller:
    """The controller of a kind. It keeps little of each object in memory."""
    return Controller(
        name=kind.resource,
        primary=Watch(
            kind.api_version, kind.kind,
            projection=Projection.fields(*kind.fields),
            indexes=[Index.field(BY_NAMESPACE, "/metadata/namespace")],
            predicates=[Predicate.annotations(), Predicate.labels(), Predicate.fields(kind.pointer)],
        ),
        watches=[NAMESPACES, FORCING_PODS],
        options=Options(status=False),
    )  # fmt: skip


MANIFEST = Manifest(
    name="downscaler",
    version="0.1.0",
    description="Scales workloads down outside of their hours, and up again.",
    controllers=[controller(kind) for kind in KINDS.values()],
    permissions=[Permission([kind.group], [kind.resource], ["patch"]) for kind in KINDS.values()],
    metrics=[SCALINGS],
    config_schema=SCHEMA,
)

log = logging.getLogger(__name__)


@windlass.reconciler(MANIFEST)
def reconcile(request: windlass.Request) -> windlass.Outcome:
    obj, kind = request.object, KINDS[request.controller]
    if obj is None or request.deleting or obj["metadata"].get("deletionTimestamp") is not None:
        return windlass.DONE
    try:
        settings = Settings.of(config.get())
    except ValueError as error:
        raise windlass.Terminal(f"the configuration cannot be used: {error}") from None
    if not settings.includes(kind.resource, obj) or is_finished(obj):
        return windlass.DONE
    namespace = cache.get(ObjectRef("v1", "Namespace", obj["metadata"]["namespace"]))
    # A namespace that is not in the cache yet may exclude the object. It runs the object when it appears.
    if namespace is None or namespace["metadata"].get("deletionTimestamp") is not None:
        return windlass.DONE
    workload = Workload(obj, namespace, settings, clock.now().seconds)
    stays = "leaves this object scaled down" if was_scaled(obj) else "leaves this object as it is"
    try:
        verdict = decide(workload, is_cluster_forced(settings))
        change = plan(kind, workload, verdict.wanted)
    except ValueError as error:
        complain(str(error), stays)
    else:
        for problem in workload.ignored:
            complain(problem, "ignores this annotation")
        if workload.doubt is not None:
            complain(workload.doubt, stays if verdict.wanted == "as it is" else "ignores this annotation for now")
        if change is not None:
            act(kind, obj, change, verdict, settings)
    # An annotation that cannot be read now may make no difference by then.
    return windlass.DONE if workload.until is None else rest(workload.until - workload.now)


def is_cluster_forced(settings: Settings) -> bool:
    """Whether a Pod that has not ended forces the whole cluster up. If the configuration names namespaces, only their
    Pods count."""
    return any(
        annotations_of(pod).get(FORCE_UPTIME, "").lower() == "true"
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        and (not settings.namespaces or pod["metadata"]["namespace"] in settings.namespaces)
        for pod in cache.list("v1", "Pod")
    )


def act(kind: Kind, obj: Object, change: Change, verdict: Verdict, settings: Settings) -> None:
    """Writes a change, unless another client has changed the object meanwhile: then the decision is made again."""
    before = kind.size(obj)
    details = {"kind": kind.kind, "from": before, "to": change.size, "cause": verdict.cause}
    if settings.dry_run:
        log.warning("would scale the object: the configuration has dryRun", extra=details)
        return
    patch = {} if change.size is None else kind.change(change.size)
    patch["metadata"] = {"annotations": dict(change.annotations)}
    writes.patch(ObjectRef.of(obj), patch, resource_version=obj["metadata"]["resourceVersion"])
    if change.size is None:
        log.info("left the object at the size that another client has given it", extra=details)
        return
    log.info("scaled the object", extra=details)
    direction = "Down" if change.size < before else "Up"
    SCALINGS.add(kind=kind.kind, direction=direction.lower())
    note = f"scaled {direction.lower()} from {before} to {change.size} ({verdict.cause})"
    events.normal(f"Scaled{direction}", "Scale", note + replaced_size(obj, change))


def replaced_size(obj: Object, change: Change) -> str:
    """What a change does to the size before the downtime, for people. Empty if the change keeps it."""
    before, after = annotations_of(obj).get(ORIGINAL_REPLICAS), change.annotations[ORIGINAL_REPLICAS]
    if before is None or after is None or before == after:
        return ""
    return f"; it comes back with {after} and not with {before}, because another client has resized it in its downtime"


def complain(problem: str, consequence: str) -> None:
    """Reports an invalid annotation. Only a change of the object or its namespace, or another time of day, can help, so
    nothing is retried."""
    log.warning("an annotation is invalid", extra={"problem": problem})
    events.warning("InvalidAnnotation", "Read", f"the downscaler {consequence}: {problem}")


def rest(seconds: int) -> windlass.Outcome:
    """Runs the object again after a time, or earlier to look at the clock again."""
    return windlass.requeue_after(min(max(seconds, 1), REST_MAX))
