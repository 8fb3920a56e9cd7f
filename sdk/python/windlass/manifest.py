"""The manifest: what a plugin watches, and what it may do. Dataclasses, so that what the host does not know does not construct.

Durations are in milliseconds, at most 2^31 - 1. What is left out has the host's default.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from . import metrics as _metrics
from ._choices import Index, Mapping, Predicate, Projection, Tagged, Where
from ._objects import Object
from ._text import camel, encode

__all__ = [
    "Backoff", "Controller", "HttpAccess", "Index", "Manifest", "MappedWatch", "Mapping", "Options", "OwnedWatch", "Permission",
    "Predicate", "Projection", "Watch", "Where",
]  # fmt: skip


class _Part:
    """Turns a dataclass into its part of the document: names in camelCase, without what is left out."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, str) and str(field.type).startswith("Sequence"):
                raise TypeError(f"{field.name} of a {type(self).__name__} is a list, and not the text {value!r}")

    def document(self) -> Object:
        """The part as JSON has it."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        return {camel(name): _value(value) for name, value in values if value is not None and value != () and value != []}


def _value(value: Any) -> Any:
    if isinstance(value, (_Part, Tagged, Where)):
        return value.document()
    if isinstance(value, (list, tuple)):
        return [_value(element) for element in value]
    return value


@dataclass(frozen=True)
class Watch(_Part):
    """Objects of one kind that the host keeps in its cache for the plugin."""

    #: Group and version, such as `apps/v1`; the core group is left out, as in `v1`.
    api_version: str
    #: The kind, such as `Deployment`.
    kind: str
    #: Only objects in these namespaces, one cache each. Empty: all namespaces, and objects without one.
    namespaces: Sequence[str] = ()
    #: Only objects with these labels, such as `app=web,tier in (front,back)`.
    label_selector: str | None = None
    #: Only objects with these fields, as far as the API supports them for the kind.
    field_selector: str | None = None
    #: How much of an object the cache keeps.
    projection: Projection | None = None
    #: Indexes, by which `windlass.cache.list` finds objects quickly.
    indexes: Sequence[Index] = ()
    #: Which updates count: any of these. Empty: all updates.
    predicates: Sequence[Predicate] = ()
    #: A DNS label that no other watch of the controller has.
    name: str | None = None
    #: False: neither the beginning of an object's deletion nor its end runs anybody. Not for a primary.
    deleted: bool | None = None
    #: False: even a write that would provably change nothing is sent, for webhooks that are to run at each.
    no_op_skip: bool | None = None
    #: Only objects for which all of these conditions hold. The host evaluates them, so the server still sends all objects. An object
    #: for which they stop holding counts as gone.
    where: Sequence[Where] = ()
    #: True: the cache keeps `metadata.managedFields`, which are left out otherwise.
    managed_fields: bool | None = None


@dataclass(frozen=True)
class OwnedWatch(Watch):
    """Children of one kind. A plain `Watch` does as well, unless a composer says how they change."""

    #: How a composer's children change: by applying, by deleting and creating anew, or not until somebody else deletes them. A
    #: reconciler may not have it.
    update_strategy: Literal["inPlace", "recreate", "onDelete"] | None = None


@dataclass(frozen=True)
class MappedWatch(Watch):
    """A watch, and whom its changes concern."""

    #: How a changed object leads to primaries. It must be given.
    mapping: Mapping | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.mapping, Mapping):
            raise TypeError(f"a MappedWatch of {self.kind} needs a mapping, such as mapping=Mapping.same_name()")
        if self.name is None and self.mapping in (Mapping.mapper(), Mapping.customize()):
            raise TypeError(f"a MappedWatch of {self.kind} that the plugin maps itself needs a name, by which its function is asked")


@dataclass(frozen=True)
class Backoff(_Part):
    """The delay before the n-th retry: `base_ms` doubled n times, at most `max_ms`, unless `limiter` says otherwise."""

    #: 5 unless said otherwise.
    base_ms: int | None = None
    #: 1,000,000 unless said otherwise.
    max_ms: int | None = None
    #: `exponential`, unless said otherwise. `tokenBucket`: the retries of all objects share a rate. `maxOf`: the longer of both.
    limiter: Literal["exponential", "tokenBucket", "maxOf"] | None = None
    #: Retries a second of all objects together, for a token bucket. 10 unless said otherwise.
    per_second: int | None = None
    #: Retries at once, for a token bucket. 100 unless said otherwise.
    burst: int | None = None


@dataclass(frozen=True)
class Options(_Part):
    """How a controller's loop runs."""

    #: How many objects are reconciled at once, at most 64. 16 unless said otherwise.
    workers: int | None = None
    #: How many counted retries an object gets before the slow lane. 15 unless said otherwise.
    max_retries: int | None = None
    #: How long retries wait.
    backoff: Backoff | None = None
    #: How often every object runs again without a reason. Ten hours unless said otherwise.
    resync_ms: int | None = None
    #: How long a call may take. 30 seconds unless said otherwise.
    deadline_ms: int | None = None
    #: Whether objects get the finalizer `windlass.dev/NAME`, so that the plugin can clean up before they go: a call with `deleting`
    #: that ends without an error takes it off.
    finalizer: bool | None = None
    #: What happens to an object whose own writes do not appear in the caches for too long. `probe`, unless said otherwise: it is
    #: held until they do. `run`: it runs all the same.
    expectation_timeout: Literal["probe", "run"] | None = None


@dataclass(frozen=True)
class Controller(_Part):
    """One reconcile loop: a primary kind, and what else makes its objects run again."""

    #: Unique in the plugin. It is in requests, logs and metrics.
    name: str
    #: The objects that are reconciled.
    primary: Watch
    #: Children: a change of one runs the primary that controls it.
    owns: Sequence[Watch | OwnedWatch] = ()
    #: Other objects: a change of one runs the primaries that its mapping finds.
    watches: Sequence[MappedWatch] = ()
    #: How the loop runs.
    options: Options | None = None


@dataclass(frozen=True)
class Permission(_Part):
    """Access to resources of the API, as a rule in a Kubernetes Role."""

    #: API groups; the core group is the empty text.
    api_groups: Sequence[str]
    #: Resources and subresources, such as `deployments` and `deployments/scale`.
    resources: Sequence[str]
    #: API verbs. An apply needs `create` and `patch`.
    verbs: Sequence[str]
    #: Only in these namespaces. Empty: in all, and objects without one.
    namespaces: Sequence[str] = ()
    #: Only objects with these names. Empty: all.
    names: Sequence[str] = ()


@dataclass(frozen=True)
class HttpAccess(_Part):
    """An HTTP host that the plugin may ask."""

    #: How the host is reached.
    scheme: Literal["https", "http"]
    #: The host's name. `*` stands for one label, as in `*.example.com`.
    host: str
    #: The methods, such as `GET`; `*` for all.
    methods: Sequence[str]
    #: None: the scheme's own.
    port: int | None = None


Metric = _metrics.Counter | _metrics.Gauge | _metrics.Histogram


@dataclass(frozen=True)
class Manifest(_Part):
    """The whole document."""

    #: The plugin's name: the stem of the file that it is installed as, up to 63 lower-case letters, digits and dashes.
    name: str
    #: The plugin's own version, by semver.org.
    version: str
    #: The reconcile loops. A plugin needs at least one.
    controllers: Sequence[Controller]
    #: What the plugin is for, in a sentence.
    description: str | None = None
    #: CustomResourceDefinitions that the plugin brings, whole.
    crds: Sequence[MappingType[str, Any]] = ()
    #: Access beyond what the watches imply: to read what is watched, to change what is owned, and to write the status of primaries.
    permissions: Sequence[Permission] = ()
    #: Metrics that the plugin may set.
    metrics: Sequence[Metric] = ()
    #: A JSON schema of the configuration that an operator may give. None: it takes none.
    config_schema: MappingType[str, Any] | None = None
    #: Finalizers of others that the plugin's own writes add or remove; `*` for all. Its own is kept by the host.
    finalizers: Sequence[str] = ()
    #: HTTP hosts that the plugin may ask.
    http: Sequence[HttpAccess] = ()

    def document(self) -> Object:
        """The document as JSON has it."""
        document: Object = {"apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", **super().document()}
        if self.config_schema is not None:
            del document["configSchema"]
            document["config"] = {"schema": dict(self.config_schema)}
        if self.metrics:
            document["metrics"] = [_metric(metric) for metric in self.metrics]
        return document

    def to_json(self) -> str:
        """The document as text, as `describe` answers it."""
        return encode(self.document())


def _metric(metric: Metric) -> Object:
    document: Object = {"name": metric.name, "type": type(metric).__name__.lower(), "help": metric.help}
    if metric.labels:
        document["labels"] = list(metric.labels)
    if isinstance(metric, _metrics.Histogram) and metric.buckets:
        document["buckets"] = list(metric.buckets)
    return document
