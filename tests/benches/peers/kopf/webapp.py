"""The `WebApp` controller as a team would write it with Kopf. It does the same as plugins/webapp, with creations and
merge patches.

Kopf reports the actions of its handlers as Events, and keeps the last handled spec in an annotation of the object.
"""

from datetime import datetime, timezone
from typing import Any

import kopf
import kubernetes

GROUP, VERSION, PLURAL = "apps.kubedojo.io", "v1beta1", "webapps"
MANAGED = {"app.kubernetes.io/name": "webapp", "app.kubernetes.io/managed-by": "kopf"}


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    kubernetes.config.load_kube_config()
    # The number of objects that controller-runtime reconciles at the same time.
    settings.execution.max_workers = 8
    print("ready", flush=True)


@kopf.index("apps", "v1", "deployments", labels=MANAGED)
@kopf.index("", "v1", "services", labels=MANAGED)
def children(body: kopf.Body, namespace: str, name: str, **_: Any) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(body["kind"], namespace, name): dict(body)}


@kopf.on.create(GROUP, VERSION, PLURAL)
@kopf.on.update(GROUP, VERSION, PLURAL, field="spec")
@kopf.on.resume(GROUP, VERSION, PLURAL)
def reconcile(body: kopf.Body, patch: kopf.Patch, children: kopf.Index, **_: Any) -> None:
    apps, core = kubernetes.client.AppsV1Api(), kubernetes.client.CoreV1Api()
    deployment = ensure(body, children, wanted_deployment(body), apps, "namespaced_deployment")
    ensure(body, children, wanted_service(body), core, "namespaced_service")
    patch.status.update(wanted_status(body, deployment))


@kopf.on.event("apps", "v1", "deployments", labels=MANAGED)
def report(body: kopf.Body, namespace: str, name: str, webapps: kopf.Index, children: kopf.Index, **_: Any) -> None:
    """Corrects a changed Deployment, and shows its state in the status of its WebApp."""
    for app in webapps.get((namespace, name), []):
        apps, custom = kubernetes.client.AppsV1Api(), kubernetes.client.CustomObjectsApi()
        ensure(app, children, wanted_deployment(app), apps, "namespaced_deployment")
        status = wanted_status(app, dict(body))
        if status != app.get("status"):
            change = {"status": status}
            custom.patch_namespaced_custom_object_status(GROUP, VERSION, namespace, PLURAL, name, change)


@kopf.index(GROUP, VERSION, PLURAL)
def webapps(body: kopf.Body, namespace: str, name: str, **_: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(namespace, name): dict(body)}


def ensure(app: Any, children: kopf.Index, wanted: dict[str, Any], api: Any, what: str) -> dict[str, Any]:
    namespace, name = app["metadata"]["namespace"], app["metadata"]["name"]
    kopf.append_owner_reference(wanted, owner=app)
    for cached in children.get((wanted["kind"], namespace, name), []):
        if has_fields(cached, wanted):
            return cached
        changed = getattr(api, f"patch_{what}")(name, namespace, wanted)
        return kubernetes.client.ApiClient().sanitize_for_serialization(changed)
    created = getattr(api, f"create_{what}")(namespace, wanted)
    return kubernetes.client.ApiClient().sanitize_for_serialization(created)


def has_fields(value: Any, wanted: Any) -> bool:
    if isinstance(value, dict) and isinstance(wanted, dict):
        return all(field in value and has_fields(value[field], it) for field, it in wanted.items())
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(has_fields, value, wanted))
    return value == wanted


def selector(app: Any) -> dict[str, str]:
    return {"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": app["metadata"]["name"]}


def child(app: Any, api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": app["metadata"]["name"], "namespace": app["metadata"]["namespace"]}
    metadata["labels"] = selector(app) | MANAGED
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def wanted_deployment(app: Any) -> dict[str, Any]:
    spec = app["spec"]
    ports = [{"name": "http", "containerPort": spec.get("port", 8080), "protocol": "TCP"}]
    template = {
        "metadata": {"labels": selector(app) | MANAGED},
        "spec": {"containers": [{"name": "web", "image": spec["image"], "ports": ports}]},
    }
    wanted = {
        "replicas": spec.get("replicas", 2),
        "selector": {"matchLabels": selector(app)},
        "template": template,
    }
    return child(app, "apps/v1", "Deployment", wanted)


def wanted_service(app: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]
    return child(app, "v1", "Service", {"selector": selector(app), "ports": ports})


def wanted_status(app: Any, deployment: dict[str, Any]) -> dict[str, Any]:
    asked, generation = app["spec"].get("replicas", 2), app["metadata"].get("generation")
    seen = deployment.get("status") or {}
    is_about_this = (seen.get("observedGeneration") or 0) >= deployment["metadata"].get("generation", 0)
    is_complete = is_about_this and (seen.get("updatedReplicas") or 0) >= asked
    ready = seen.get("readyReplicas") or 0
    is_ready = is_complete and ready >= asked
    known = dict(app.get("status") or {})
    was_ready = known.get("phase") in ("Running", "Degraded") and known.get("observedGeneration") == generation
    phase = "Running" if is_ready else "Degraded" if was_ready else "Pending"
    progress = "the Deployment runs this spec" if is_complete else "the Deployment is rolling out this spec"

    def condition(kind: str, holds: bool, reason: str, message: str) -> dict[str, Any]:
        status = "True" if holds else "False"
        same = [it for it in known.get("conditions", []) if it["type"] == kind and it["status"] == status]
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        since = same[0]["lastTransitionTime"] if same else now
        return {"type": kind, "status": status, "reason": reason, "message": message,
                "observedGeneration": generation, "lastTransitionTime": since}

    conditions = [
        condition("Ready", is_ready, "ReplicasReady" if is_ready else "ReplicasNotReady",
                  f"{ready} of {asked} replicas are ready"),
        condition("Progressing", not is_complete, "RolledOut" if is_complete else "RollingOut", progress),
    ]
    return {"observedGeneration": generation, "readyReplicas": ready, "phase": phase, "conditions": conditions}
