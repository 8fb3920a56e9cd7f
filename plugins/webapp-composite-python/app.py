"""The WebApp plugin as a composer in Python: a function that computes the desired children of a `WebApp`.

The CRD, which sets defaults and bounds, is in examples/webapp/crd.yaml.

"""

from __future__ import annotations

from typing import Any

import windlass
from windlass import Composition, Event, Object, conditions, has_fields
from windlass.manifest import Controller, Manifest, Predicate, Watch

#: Unicode's white space, which the server refuses around an image. `str.strip` without an argument also removes
#: control characters.
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

MANIFEST = Manifest(
    name="webapp-composite-python",
    version="0.1.0",
    controllers=[
        Controller(
            name="webapp",
            primary=Watch("apps.kubedojo.io/v1beta1", "WebApp", predicates=[Predicate.generation()]),
            owns=[Watch("apps/v1", "Deployment"), Watch("v1", "Service")],
        )
    ],
)


@windlass.composer(MANIFEST)
def compose(request: windlass.CompositionRequest) -> Composition:
    app = request.parent
    if request.request.deleting:
        return Composition()
    deployment, service = children_of(app)
    running, serving = request.child("apps/v1", "Deployment"), request.child("v1", "Service")
    problem = None if app["spec"]["image"].strip(WHITE_SPACE) else "spec.image is empty"
    status = status_of(app, deployment, running, problem)
    if problem is not None:
        # Without `allow_empty`, an answer without children leaves the existing ones.
        is_news = status["conditions"] != known_status(app)["conditions"]
        return Composition(status=status, events=[Event("warning", "Invalid", "Reconcile", problem)] if is_news else [])
    events = [change(app, deployment, running), change(app, service, serving)]
    return Composition(
        children=[deployment, service], status=status, events=[event for event in events if event is not None]
    )


def children_of(app: Object) -> tuple[Object, Object]:
    """The desired Deployment and Service of a `WebApp`."""
    name, namespace, spec = app["metadata"]["name"], app["metadata"].get("namespace"), app["spec"]
    selector = {"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": name}
    labels = {**selector, "app.kubernetes.io/managed-by": "windlass"}
    port = {"name": "http", "containerPort": spec["port"], "protocol": "TCP"}
    container = {"name": "web", "image": spec["image"].strip(WHITE_SPACE), "ports": [port]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    pods = {"replicas": spec["replicas"], "selector": {"matchLabels": selector}, "template": template}
    ports = [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return (
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": pods},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": selector, "ports": ports}},
    )


def known_status(app: Object) -> dict[str, Any]:
    """The status as the host last wrote it."""
    return {"observedGeneration": None, "readyReplicas": 0, "phase": "", "conditions": [], **(app.get("status") or {})}


def change(app: Object, wanted: Object, child: Object | None) -> Event | None:
    """The event for the host's next action on a child."""
    if child is not None and (has_fields(child, wanted) or child["metadata"].get("deletionTimestamp") is not None):
        return None
    seen = known_status(app)["observedGeneration"]
    if seen is None and child is None:
        reason, action, what = "Created", "Create", "created"
    elif seen != app["metadata"].get("generation"):
        reason, action, what = "Updated", "Update", "updated to the new spec"
    else:
        reason, action, what = "Healed", "Heal", "was deleted or edited, and is restored"
    return Event("normal", reason, action, f"{wanted['kind']} {app['metadata']['name']}: {what}")


def status_of(app: Object, wanted: Object, deployment: Object | None, problem: str | None) -> Object:
    """The new status, from the Deployment's report about the current spec."""
    known, generation, replicas = known_status(app), app["metadata"].get("generation"), app["spec"]["replicas"]
    reported = (deployment or {}).get("status") or {}
    ready_replicas = reported.get("readyReplicas", 0)
    is_rolled_out = (
        deployment is not None
        and has_fields(deployment, wanted)
        and reported.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
        and reported.get("updatedReplicas", 0) >= replicas
    )
    is_ready = problem is None and is_rolled_out and ready_replicas >= replicas
    count = f"{ready_replicas} of {replicas} replicas are ready"
    ready = conditions.condition("Ready", is_ready, "ReplicasReady" if is_ready else "ReplicasNotReady", count)
    if problem is not None:
        new = [conditions.condition(name, False, "Invalid", problem) for name in ("Ready", "Progressing")]
    elif is_rolled_out:
        new = [ready, conditions.condition("Progressing", False, "RolledOut", "the Deployment runs this spec")]
    else:
        on_its_way = "the Deployment is rolling out this spec"
        new = [ready, conditions.condition("Progressing", True, "RollingOut", on_its_way)]
    was_ready = known["phase"] in ("Running", "Degraded") and known["observedGeneration"] == generation
    return {
        "observedGeneration": generation,
        "readyReplicas": ready_replicas,
        "phase": "Running" if is_ready else "Degraded" if was_ready else "Pending",
        "conditions": conditions.updated(known["conditions"], *new, generation=generation),
    }
