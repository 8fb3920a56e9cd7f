"""The probe: carries out the steps in its primary. See ../README.md."""

from __future__ import annotations

from typing import Any

import windlass
from steps import COMMON, Carry, Ended, Named, Step, deeper, error_of, request_of, results_of, target_in, target_out
from windlass import cache, events, http, live, metrics, owners, triggers, writes
from windlass.manifest import (
    Backoff,
    Controller,
    HttpAccess,
    Index,
    Manifest,
    MappedWatch,
    Mapping,
    Options,
    Permission,
    Predicate,
    Projection,
    Watch,
)

COUNTED = metrics.Counter("counted_total", "What was counted.", labels=["color"])
LEVEL = metrics.Gauge("level", "What was found last.")
SIZES = metrics.Histogram("sizes", "What was measured.", buckets=[1.5, 10.0])

FOR = "conformance.windlass.dev/for"

MANIFEST = Manifest(
    name="conformance",
    version="0.1.0",
    description="Does what its primary says, in every language alike.",
    controllers=[
        Controller(
            name="conformance",
            primary=Watch(
                "conformance.windlass.dev/v1",
                "Conformance",
                call_fields=["/spec"],
                predicates=[Predicate.generation(), Predicate.labels(), Predicate.fields("/spec/steps")],
                indexes=[Index.field("secrets", "/spec/secrets")],
            ),
            owns=[
                Watch(
                    "v1",
                    "ConfigMap",
                    label_selector="conformance=yes",
                    namespaces=["prod", "test"],
                    projection=Projection.fields("/data"),
                    indexes=[Index.label("tier", "tier")],
                ),
                Watch("apps/v1", "Deployment", projection=Projection.metadata()),
            ],
            watches=[
                MappedWatch("v1", "Secret", field_selector="type=Opaque", mapping=Mapping.referenced_by("secrets")),
                MappedWatch("v1", "Service", mapping=Mapping.label(FOR)),
                MappedWatch("v1", "Pod", mapping=Mapping.annotation(FOR)),
                MappedWatch("v1", "PersistentVolumeClaim", mapping=Mapping.field("/spec/volumeName")),
                MappedWatch("v1", "ServiceAccount", mapping=Mapping.same_name()),
                MappedWatch("v1", "Namespace", mapping=Mapping.all()),
                MappedWatch("v1", "Endpoints", name="mapped", code_predicate=True, mapping=Mapping.mapper()),
            ],
            options=Options(
                workers=2,
                max_retries=5,
                backoff=Backoff(base_ms=10, max_ms=60_000),
                resync_ms=3_600_000,
                deadline_ms=20_000,
                finalizer=True,
                expectation_timeout="run",
                saved_calls=False,
            ),
        )
    ],
    permissions=[
        Permission([""], ["configmaps"], ["get", "create", "patch", "delete"], namespaces=["prod"]),
        Permission(["apps"], ["deployments/scale"], ["patch"], names=["web"]),
    ],
    metrics=[COUNTED, LEVEL, SIZES],
    http=[HttpAccess("https", "api.example.com", ["GET", "POST"], port=8443)],
    config_schema={"type": "object", "properties": {"greeting": {"type": "string"}}},
    finalizers=["conformance.windlass.dev/old"],
)


def mapped(watch: str, change: windlass.Change) -> list[windlass.Target]:
    """Each state of a changed object lists the primaries that the change concerns."""
    targets: list[windlass.Target] = []
    for state in change.states:
        spec = state["spec"]
        if "fail" in spec:
            raise windlass.Transient(spec["fail"])
        if "raise" in spec:
            deeper(spec["raise"])
        targets += map(_target, spec.get("targets") or [])
        read = cache.get(target_in(spec["target"])) if "target" in spec else None
        if read is not None:
            targets.append(windlass.Primary(namespace="prod", name=read["data"]["primary"]))
        if spec.get("tellWatch"):
            targets.append(windlass.Indexed("watch", watch))
    return targets


def _target(target: dict[str, str]) -> windlass.Target:
    if "index" in target:
        return windlass.Indexed(target["index"], target["value"])
    return windlass.Primary(namespace=target.get("namespace"), name=target["name"])


def matches(watch: str, change: windlass.Change) -> bool:
    """The last state of a changed object says whether the change counts."""
    counts = True
    for state in change.states:
        spec = state["spec"]
        if "failMatches" in spec:
            raise windlass.Transient(spec["failMatches"])
        if "raiseMatches" in spec:
            deeper(spec["raiseMatches"])
        counts = "matches" not in spec or spec["matches"] == watch
    return counts


@windlass.reconciler(MANIFEST, map=mapped, matches=matches)
def reconcile(request: windlass.Request) -> windlass.Outcome:
    primary = request.object
    if primary is None:
        return windlass.DONE
    table: dict[str, Carry] = {**COMMON, **STEPS, "request": lambda step: request_of(request, has_object=True)}
    try:
        results = results_of((primary.get("spec") or {}).get("steps") or [], table)
    except Ended as ended:
        return ended.outcome
    writes.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "report"}, "results": results})
    return windlass.DONE


# --- Reads ---


def cache_get(step: Step) -> Any:
    return cache.get(target_in(step["target"]), fields=step.get("fields"))


def cache_get_many(step: Step) -> Any:
    return _each(cache.get_many([target_in(target) for target in step["targets"]], fields=step.get("fields")))


def cache_list(step: Step) -> Any:
    query = step["query"]
    index = query.get("index")
    options: dict[str, Any] = {
        "namespace": query.get("namespace"),
        "label_selector": query.get("labelSelector"),
        "index": None if index is None else (index["index"], index["value"]),
        "owned": query.get("owned") or False,
        "fields": query.get("fields"),
        "max_bytes": query.get("maxBytes"),
        "page_token": query.get("pageToken"),
    }
    if query.get("limit") is not None:
        options["limit"] = query["limit"]
    return list(cache.list(query["kind"]["apiVersion"], query["kind"]["kind"], **options))


def _view(view: Any) -> dict[str, Any]:
    if view == "metadata":
        return {"metadata_only": True}
    return {} if view is None else {"fields": view["fields"]}


def live_get(step: Step) -> Any:
    return live.get(target_in(step["target"]), subresource=step.get("subresource"), **_view(step.get("view")))


def live_log(step: Step) -> Any:
    query = step["query"]
    return live.log(
        target_in(query["target"]),
        container=query.get("container"),
        previous=query.get("previous") or False,
        tail_lines=query.get("tailLines"),
        since_ms=query.get("sinceMs"),
        limit_bytes=query.get("limitBytes"),
    )


def live_served(step: Step) -> Any:
    served = live.served(step["kind"]["apiVersion"], step["kind"]["kind"])
    return None if served is None else _served(served)


def live_kinds(step: Step) -> Any:
    return [
        {"kind": {"apiVersion": listed.api_version, "kind": listed.kind}, "served": _served(listed.served)}
        for listed in live.kinds()
    ]


def _served(served: live.ServedKind) -> dict[str, Any]:
    return {
        "resource": served.resource,
        "namespaced": served.namespaced,
        "verbs": served.verbs,
        "subresources": served.subresources,
    }


def live_list(step: Step) -> Any:
    query = step["query"]
    options: dict[str, Any] = {
        "namespace": query.get("namespace"),
        "label_selector": query.get("labelSelector"),
        "field_selector": query.get("fieldSelector"),
        "page_token": query.get("pageToken"),
        **_view(query.get("view")),
    }
    if query.get("limit") is not None:
        options["limit"] = query["limit"]
    return list(live.list(query["kind"]["apiVersion"], query["kind"]["kind"], **options))


def _each(results: list[Any]) -> Any:
    return [{"error": error_of(result)} if isinstance(result, windlass.ApiError) else {"ok": result} for result in results]


# --- Writes ---


def _options(step: Step) -> dict[str, Any]:
    given = step.get("options") or {}
    options: dict[str, Any] = {}
    subresource = given.get("subresource")
    if subresource is not None:
        options["subresource"] = subresource["name"]
        if subresource.get("parent") is not None:
            options["parent"] = target_in(subresource["parent"])
    for name, ours in (
        ("resourceVersion", "resource_version"),
        ("owned", "owned"),
        ("force", "force"),
        ("dryRun", "dry_run"),
        ("fieldValidation", "field_validation"),
        ("managerSuffix", "manager_suffix"),
        ("fields", "fields"),
    ):
        if given.get(name) is not None:
            options[ours] = given[name]
    return options


def _deletion(step: Step) -> dict[str, Any]:
    given = step.get("options") or {}
    names = {
        "resourceVersion": "resource_version",
        "propagation": "propagation",
        "gracePeriodMs": "grace_period_ms",
        "dryRun": "dry_run",
    }
    return {ours: given[name] for name, ours in names.items() if given.get(name) is not None}


def create(step: Step) -> Any:
    return writes.create(step["object"], **_options(step))


def update(step: Step) -> Any:
    return writes.update(step["object"], **_options(step))


def apply(step: Step) -> Any:
    return writes.apply(step["object"], **_options(step))


def patch(step: Step) -> Any:
    return writes.patch(target_in(step["target"]), step["patch"], patch_type=step["patchType"], **_options(step))


def delete(step: Step) -> Any:
    return writes.delete(target_in(step["target"]), **_deletion(step))


def delete_collection(step: Step) -> Any:
    given = step["collection"]
    options = _deletion(step)
    options.pop("resource_version", None)
    deleted = writes.delete_collection(
        given["kind"]["apiVersion"],
        given["kind"]["kind"],
        namespace=given.get("namespace"),
        label_selector=given.get("labelSelector"),
        field_selector=given.get("fieldSelector"),
        all=given.get("all") or False,
        **options,
    )
    return None if deleted is None else list(map(target_out, deleted))


def evict(step: Step) -> None:
    writes.evict(target_in(step["target"]))


def batch(step: Step) -> Any:
    return _each(writes.batch(map(_operation, step["operations"])))


def _operation(step: Step) -> writes.Operation:
    op = step["op"].removeprefix("writes.")
    if op == "delete":
        return writes.op_delete(target_in(step["target"]), **_deletion(step))
    if op == "patch":
        return writes.op_patch(target_in(step["target"]), step["patch"], patch_type=step["patchType"], **_options(step))
    make = {"create": writes.op_create, "update": writes.op_update, "apply": writes.op_apply}[op]
    return make(step["object"], **_options(step))


def claim(step: Step) -> Any:
    claimed = owners.claim(step["kind"]["apiVersion"], step["kind"]["kind"], step["labelSelector"])
    return {"adopted": list(map(target_out, claimed.adopted)), "released": list(map(target_out, claimed.released))}


# --- The rest ---


def emit(step: Step) -> None:
    events.emit(event_in(step["event"]))


def event_in(event: dict[str, Any]) -> windlass.Event:
    regarding, related = event.get("regarding"), event.get("related")
    return windlass.Event(
        event["eventType"],
        event["reason"],
        event["action"],
        event["note"],
        None if regarding is None else target_in(regarding),
        None if related is None else target_in(related),
    )


def metric(step: Step) -> None:
    send = {"metrics.add": metrics.add, "metrics.set": metrics.set, "metrics.observe": metrics.observe}[step["call"]]
    send(step["name"], step["value"], [(key, value) for key, value in step.get("labels") or []])


def triggers_list(step: Step) -> Any:
    return [
        {
            "reason": trigger.reason,
            "watch": trigger.watch,
            "object": None if trigger.object is None else target_out(trigger.object),
        }
        for trigger in triggers.list()
    ]


def fetch(step: Step) -> Any:
    asked = step["request"]
    body = asked.get("body")
    timeout = asked.get("timeoutMs")
    response = http.request(
        asked["method"],
        asked["url"],
        headers=[(name, value) for name, value in asked.get("headers") or []],
        body=None if body is None else body["text"] if "text" in body else bytes(body["bytes"]),
        timeout=None if timeout is None else timeout / 1000,
    )
    answered = {"text": response.body} if isinstance(response.body, str) else {"bytes": list(response.body)}
    return {"status": response.status, "headers": [list(header) for header in response.headers], "body": answered}


def propagate(step: Step) -> Any:
    return cache.get(target_in(step["target"]))


def wrap(step: Step) -> Any:
    try:
        return cache.get(target_in(step["target"]))
    except windlass.ApiError as error:
        raise Named(step["message"]) from error


STEPS: dict[str, Carry] = {
    "cache.get": cache_get,
    "cache.get-many": cache_get_many,
    "cache.list": cache_list,
    "live.get": live_get,
    "live.list": live_list,
    "live.log": live_log,
    "live.served": live_served,
    "live.kinds": live_kinds,
    "writes.create": create,
    "writes.update": update,
    "writes.apply": apply,
    "writes.patch": patch,
    "writes.delete": delete,
    "writes.delete-collection": delete_collection,
    "writes.evict": evict,
    "writes.batch": batch,
    "owners.claim": claim,
    "events.emit": emit,
    "metrics.add": metric,
    "metrics.set": metric,
    "metrics.observe": metric,
    "triggers.list": triggers_list,
    "http.fetch": fetch,
    "propagate": propagate,
    "wrap": wrap,
}
