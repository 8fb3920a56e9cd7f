"""The kinds that the downscaler changes, and where each has its size. Pure: nothing here calls the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


#: The annotation with the size before a downtime.
ORIGINAL_REPLICAS = "downscaler/original-replicas"


@dataclass(frozen=True)
class Kind:
    """A kind of workload. Its size is a number of replicas, or 0 and 1 if it can only be switched off and on."""

    #: The plural, as in the configuration. It is also the controller's name.
    resource: str
    api_version: str
    kind: str
    #: The field that has the size.
    path: tuple[str, ...]
    #: How the field has it: as a number, as a flag that is true for 0, or as a value that nothing has, for 0.
    form: Literal["number", "flag", "mark"] = "number"
    #: The smallest size that the API allows.
    least: int = 0
    #: The field that limits the size. Empty: no field does.
    limit: tuple[str, ...] = ()
    #: Other fields that decisions need, as JSON pointers.
    more: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The API group."""
        return self.api_version.rpartition("/")[0]

    @property
    def pointer(self) -> str:
        """The field as a JSON pointer."""
        return _pointer(self.path)

    @property
    def fields(self) -> list[str]:
        """All fields that decisions need, as JSON pointers."""
        return [self.pointer, *([_pointer(self.limit)] if self.limit else []), *self.more]

    def size(self, obj: Mapping[str, Any]) -> int:
        """The size of an object."""
        value = _value(obj, self.path)
        if self.form == "number":
            return 1 if value is None else value
        return 0 if value in (True, _ON) else 1

    def change(self, size: int) -> dict[str, Any]:
        """A merge patch that sets the size."""
        value: Any = size
        if self.form == "flag":
            value = size == 0
        elif self.form == "mark":
            value = _ON if size == 0 else None
        for name in reversed(self.path):
            value = {name: value}
        return value

    def largest(self, obj: Mapping[str, Any]) -> int | None:
        """The largest size that the API allows for an object. None: there is no limit."""
        return _value(obj, self.limit) if self.limit else None

    def smallest(self, replicas: int) -> int:
        """The size in a downtime, for the number of replicas that people have asked for."""
        return max(self.least, replicas if self.form == "number" else min(replicas, 1))


def _pointer(path: tuple[str, ...]) -> str:
    return "/" + "/".join(path)


def _value(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = (obj or {}).get(name)
    return obj


#: The field in which a Job says that it has finished.
_CONDITIONS = "/status/conditions"
#: The value of a node selector that no node has.
_ON = "true"
_NOWHERE = "kube-downscaler-non-existent"

KINDS = {
    kind.resource: kind
    for kind in (
        Kind("deployments", "apps/v1", "Deployment", ("spec", "replicas")),
        Kind("statefulsets", "apps/v1", "StatefulSet", ("spec", "replicas")),
        Kind(
            "horizontalpodautoscalers", "autoscaling/v2", "HorizontalPodAutoscaler", ("spec", "minReplicas"),
            least=1, limit=("spec", "maxReplicas"),
        ),
        Kind("cronjobs", "batch/v1", "CronJob", ("spec", "suspend"), "flag"),
        Kind("jobs", "batch/v1", "Job", ("spec", "suspend"), "flag", more=(_CONDITIONS,)),
        Kind("daemonsets", "apps/v1", "DaemonSet", ("spec", "template", "spec", "nodeSelector", _NOWHERE), "mark"),
    )  # fmt: skip
}


def is_finished(obj: Mapping[str, Any]) -> bool:
    """Whether a Job has completed or failed, so that it never runs again."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(it["type"] in ("Complete", "Failed") and it["status"] == "True" for it in conditions)


def was_scaled(obj: Mapping[str, Any]) -> bool:
    """Whether the downscaler, or the original, has scaled the object down and not up again."""
    return ORIGINAL_REPLICAS in (obj["metadata"].get("annotations") or {})


def is_owned(obj: Mapping[str, Any]) -> bool:
    """Whether the object belongs to another one, such as a Job to a CronJob."""
    return bool(obj["metadata"].get("ownerReferences"))


def is_of_stack(obj: Mapping[str, Any]) -> bool:
    """Whether a Stack of Zalando's controller has made the object."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(
        owner["kind"] == "Stack" and owner["apiVersion"].startswith("zalando.org/") and owner.get("controller") for owner in owners
    )
