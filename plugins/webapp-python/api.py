"""The fields of the `WebApp` kind that the plugin reads and writes. The CRD is in examples/webapp/crd.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import windlass
from windlass import ObjectRef

#: The group and version.
API_VERSION = "apps.kubedojo.io/v1beta1"
#: The kind.
KIND = "WebApp"

#: The states in one word. The current spec has not been ready yet; all its replicas are ready; it was ready, and is
#: not now.
PENDING, RUNNING, DEGRADED = "Pending", "Running", "Degraded"

#: Unicode's white space, which the server refuses around an image. `str.strip` without an argument also removes
#: control characters.
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


@dataclass(slots=True)
class Spec:
    """The desired state. The defaults are the CRD's."""

    #: The container image.
    image: str
    #: How many Pods.
    replicas: int = 2
    #: The port that the container listens on.
    port: int = 8080


@dataclass(slots=True)
class Status:
    """The status as this plugin last wrote it."""

    #: The generation that the other fields are about. None before the first reconcile.
    observed_generation: int | None = None
    #: The number of ready Pods.
    ready_replicas: int = 0
    #: The state in one word. None before the first reconcile.
    phase: str | None = None
    #: The state in detail: `Ready` and `Progressing`.
    conditions: list[dict[str, Any]] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The status as JSON."""
        document: dict[str, Any] = {}
        if self.observed_generation is not None:
            document["observedGeneration"] = self.observed_generation
        document["readyReplicas"] = self.ready_replicas
        if self.phase is not None:
            document["phase"] = self.phase
        document["conditions"] = self.conditions
        return document


@dataclass(slots=True)
class WebApp:
    """An application that answers HTTP."""

    name: str
    namespace: str | None
    uid: str | None
    generation: int | None
    #: The desired state.
    spec: Spec
    #: What is.
    status: Status = field(default_factory=Status)

    @classmethod
    def of(cls, obj: windlass.Object) -> WebApp:
        """Reads an object. An object that does not fit is a terminal error, because only a change of the object can
        help."""
        try:
            metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
            asked = {name: spec[name] for name in ("image", "replicas", "port") if name in spec}
            return cls(
                metadata["name"],
                metadata.get("namespace"),
                metadata.get("uid"),
                metadata.get("generation"),
                Spec(**asked),
                Status(
                    status.get("observedGeneration"),
                    status.get("readyReplicas", 0),
                    status.get("phase"),
                    list(status.get("conditions") or []),
                ),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise windlass.Terminal(f"the primary is not a WebApp: {error!r}") from None

    def sibling(self, api_version: str, kind: str) -> ObjectRef:
        """A reference to the object of another kind with the same namespace and name."""
        return ObjectRef(api_version, kind, self.name, self.namespace)

    @property
    def is_changed(self) -> bool:
        """Whether the spec is newer than the one that the status is about."""
        return self.status.observed_generation != self.generation
