"""The desired children of a `WebApp`, and how the existing ones differ. Pure: nothing here calls the host."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from api import WHITE_SPACE, WebApp
from windlass import Object, ObjectRef, controller_of, has_fields

#: The Service's port. The container may have any port, so the Service finds it by name.
SERVICE_PORT = 80
#: The name of the port, in the container and in the Service.
PORT_NAME = "http"
#: The name of the container.
CONTAINER = "web"


class Decision(Enum):
    """The decision about a child, from its cached state."""

    #: The child is as desired. Or it is being deleted, and the end of its deletion will run the key again.
    LEAVE = "leave"
    #: The name belongs to an object that is not ours.
    NAME_TAKEN = "name taken"
    #: Apply the child: it never existed.
    CREATE = "create"
    #: Apply the child: the spec of the `WebApp` has changed.
    UPDATE = "update"
    #: Apply the child: someone deleted or edited it.
    HEAL = "heal"


@dataclass(slots=True)
class Child:
    """A desired child."""

    #: The reference to the child.
    target: ObjectRef
    #: The fields to apply.
    wanted: Object


def deployment(app: WebApp) -> Child:
    """The desired Deployment of a `WebApp`."""
    container = {
        "name": CONTAINER,
        "image": app.spec.image.strip(WHITE_SPACE),
        "ports": [{"name": PORT_NAME, "containerPort": app.spec.port, "protocol": "TCP"}],
    }
    spec = {
        "replicas": app.spec.replicas,
        "selector": {"matchLabels": _selector(app)},
        "template": {"metadata": {"labels": _labels(app)}, "spec": {"containers": [container]}},
    }
    return _child(app, "apps/v1", "Deployment", spec)


def service(app: WebApp) -> Child:
    """The desired Service of a `WebApp`."""
    port = {"name": PORT_NAME, "port": SERVICE_PORT, "targetPort": PORT_NAME, "protocol": "TCP"}
    return _child(app, "v1", "Service", {"selector": _selector(app), "ports": [port]})


def _child(app: WebApp, api_version: str, kind: str, spec: Object) -> Child:
    target = app.sibling(api_version, kind)
    metadata = {"name": target.name, "namespace": target.namespace, "labels": _labels(app)}
    return Child(target, {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})


def _selector(app: WebApp) -> dict[str, str]:
    return {"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": app.name}


def _labels(app: WebApp) -> dict[str, str]:
    return {**_selector(app), "app.kubernetes.io/managed-by": "windlass"}


def decide(app: WebApp, child: Child, cached: Object | None) -> Decision:
    """Decides about a child. `cached` is its current state."""
    mend = Decision.UPDATE if app.is_changed else Decision.HEAL
    if cached is None:
        return Decision.CREATE if app.status.observed_generation is None else mend
    metadata = cached.get("metadata") or {}
    is_terminating = metadata.get("deletionTimestamp") is not None
    if is_ours(app, cached):
        is_right = has_fields(cached, child.wanted) and not surplus(cached, child.wanted)
        return Decision.LEAVE if is_terminating or is_right else mend
    # An orphan is adopted only if it has our labels, as after `kubectl delete --cascade=orphan`.
    is_our_orphan = controller_of(cached) is None and has_fields(metadata.get("labels"), _labels(app))
    return mend if is_our_orphan and not is_terminating else Decision.NAME_TAKEN


def is_ours(app: WebApp, obj: Object) -> bool:
    """Whether the `WebApp` controls an object."""
    controller = controller_of(obj)
    return app.uid is not None and controller is not None and controller.get("uid") == app.uid


def surplus(actual: Any, wanted: Any) -> list[Object]:
    """The JSON patch that removes entries which break the child and which an apply would leave: ports that are not
    ours, and additional labels in a selector. If a port was renumbered by hand, an apply would add ours beside it, and
    the server would refuse both because they have the same name."""
    operations: list[Object] = []
    _collect(actual, wanted, "", operations)
    return operations


def _collect(actual: Any, wanted: Any, pointer: str, operations: list[Object]) -> None:
    if _is_ours_alone(pointer) and _exceeds(actual, wanted):
        operations.append({"op": "replace", "path": pointer, "value": wanted})
    elif isinstance(actual, dict) and isinstance(wanted, dict):
        # The keys are sorted, so that the patches are the same in every language.
        for key in sorted(wanted):
            # A key with a slash, which a pointer would have to escape, is a label. A label has nothing below it.
            if key in actual:
                _collect(actual[key], wanted[key], f"{pointer}/{key}", operations)
    elif isinstance(actual, list) and isinstance(wanted, list):
        for element in wanted:
            index = next((at for at, one in enumerate(actual) if _name(one) == _name(element)), None)
            if index is not None:
                _collect(actual[index], element, f"{pointer}/{index}", operations)


def _name(element: Any) -> Any:
    return element.get("name") if isinstance(element, dict) else None


def _is_ours_alone(pointer: str) -> bool:
    """Whether only this plugin can change a field. A Deployment's selector is immutable, but a Service's is not."""
    return pointer.endswith("/ports") or pointer == "/spec/selector"


def _exceeds(actual: Any, wanted: Any) -> bool:
    """Whether there is an entry that is not wanted."""
    if isinstance(actual, list) and isinstance(wanted, list):
        return any(not any(has_fields(one, other) for other in wanted) for one in actual)
    if isinstance(actual, dict) and isinstance(wanted, dict):
        return any(key not in wanted for key in actual)
    return False
