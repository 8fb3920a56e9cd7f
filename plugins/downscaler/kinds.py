"""The kinds that the downscaler changes, and where each has its size. Pure: nothing here calls the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


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

    @property
    def group(self) -> str:
        """The API group."""
        return self.api_version.rpartition("/")[0]

    @property
    def pointer(self) -> str:
        """The field as a JSON pointer."""
        return "/" + "/".join(self.path)

    def size(self, obj: Mapping[str, Any]) -> int:
        """The size of an object."""
        value: Any = obj
        for name in self.path:
            value = (value or {}).get(name)
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

    def smallest(self, replicas: int) -> int:
        """The size in a downtime, for the number of replicas that people have asked for."""
        return max(self.least, replicas if self.form == "number" else min(replicas, 1))


#: The value of a node selector that no node has.
_ON = "true"
_NOWHERE = "kube-downscaler-non-existent"

KINDS = {
    kind.resource: kind
    for kind in (
        Kind("deployments", "apps/v1", "Deployment", ("spec", "replicas")),
        Kind("statefulsets", "apps/v1", "StatefulSet", ("spec", "replicas")),
        Kind("horizontalpodautoscalers", "autoscaling/v2", "HorizontalPodAutoscaler", ("spec", "minReplicas"), least=1),
        Kind("cronjobs", "batch/v1", "CronJob", ("spec", "suspend"), "flag"),
        Kind("jobs", "batch/v1", "Job", ("spec", "suspend"), "flag"),
        Kind("daemonsets", "apps/v1", "DaemonSet", ("spec", "template", "spec", "nodeSelector", _NOWHERE), "mark"),
    )
}
#: The field in which a Job says that it has finished.
CONDITIONS = "/status/conditions"


def is_finished(obj: Mapping[str, Any]) -> bool:
    """Whether a Job has completed or failed, so that it never runs again."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(it["type"] in ("Complete", "Failed") and it["status"] == "True" for it in conditions)


def is_controlled_by(obj: Mapping[str, Any], kind: str) -> bool:
    """Whether an object of this kind has made the object."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] == kind and owner.get("controller") for owner in owners)
