"""The manifest: what a plugin watches, and which other rights it needs. It consists of dataclasses, so a field that the
host does not know raises an error.

Durations are in milliseconds, at most 2^31 - 1. A field that is left out has the host's default.

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
    "Backoff", "Controller", "Hook", "HttpAccess", "Index", "Manifest", "MappedWatch", "Mapping", "Options", "OwnedWatch", "Permission",
    "Predicate", "Projection", "Timer", "Watch", "Where",
]  # fmt: skip


class _Part:
    """A dataclass that becomes a part of the document. The names become camelCase, and fields that are not set are left
    out."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, str) and str(field.type).startswith("Sequence"):
                raise TypeError(f"{field.name} of a {type(self).__name__} is a list, and not the text {value!r}")

    def document(self) -> Object:
        """The part as JSON."""
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

    #: Group and version, such as `apps/v1`; the core group is left out, as in `v1`. Required, unless `kinds_from` is set.
    api_version: str | None = None
    #: The kind, such as `Deployment`. Required, unless `kinds_from` is set.
    kind: str | None = None
    #: Only objects in these namespaces, with a cache for each. Empty: all namespaces, and cluster-scoped objects.
    namespaces: Sequence[str] = ()
    #: Only objects with these labels, such as `app=web,tier in (front,back)`.
    label_selector: str | None = None
    #: Only objects with these fields, as far as the API supports them for the kind.
    field_selector: str | None = None
    #: How much of an object the cache keeps.
    projection: Projection | None = None
    #: Indexes, by which `windlass.cache.list` finds objects quickly.
    indexes: Sequence[Index] = ()
    #: Selects the updates that run primaries: one predicate that accepts an update is enough. Empty: all updates.
    predicates: Sequence[Predicate] = ()
    #: A DNS label that no other watch of the controller has.
    name: str | None = None
    #: False: ignores the beginning and the end of an object's deletion. Not for a primary.
    deleted: bool | None = None
    #: False: sends even a write that would provably change nothing, for webhooks that must run at each write.
    no_op_skip: bool | None = None
    #: Only objects that meet all of these conditions. The host evaluates them, so the server still sends all objects.
    #: An object that no longer meets them counts as deleted.
    where: Sequence[Where] = ()
    #: True: the cache keeps `metadata.managedFields`, which are left out otherwise.
    managed_fields: bool | None = None
    #: A JSON pointer to a list of kinds in the configuration, each with `apiVersion` and `kind`. It takes the place of `api_version` and
    #: `kind`, and needs `projection=Projection.metadata()`. Not for children, nor for composers.
    kinds_from: str | None = None
    #: Rights to change objects of these kinds. Only with `kinds_from`; other rights are permissions of the manifest.
    verbs: Sequence[Literal["create", "update", "patch", "delete", "deletecollection"]] = ()
    #: True: the reconciler's `matches` also decides which new objects and updates count. Deletions always count. The
    #: watch needs a name. Only for reconcilers.
    code_predicate: bool | None = None
    #: A call receives only these fields of an object, as JSON pointers, and its identity: of the primary in a request,
    #: and of a composer's parent, children and related objects. A reconciler has this only for its primary, because it
    #: names the fields of its other objects in each read. None: all that the cache keeps. Empty: only the identity.
    call_fields: Sequence[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kinds_from is None and (self.api_version is None or self.kind is None):
            raise TypeError("a Watch needs api_version and kind, or kinds_from")

    def document(self) -> Object:
        """The watch as JSON."""
        # An empty list of fields differs from none.
        return {**super().document(), **({} if self.call_fields is None else {"callFields": list(self.call_fields)})}


@dataclass(frozen=True)
class Timer(_Part):
    """A timer that calls the plugin at certain times, in place of objects. It has either `cron` or `interval_ms`."""

    #: Due when the local time matches, as in Kubernetes' CronJob: minute, hour, day of the month, month, and day of the week.
    cron: str | None = None
    #: The IANA name of the time zone of `cron`, such as `Europe/Berlin`. Default: UTC.
    time_zone: str | None = None
    #: Due once in each interval, at least 1000. The first call comes at once.
    interval_ms: int | None = None
    #: Each call comes at a random time up to this long after its due time.
    jitter_ms: int | None = None
    #: Due times at which no call could be made, such as while the host was down. `once`: one call for the last of them,
    #: as soon as it can be made. `skip`: none, if it could begin only a minute late or later. Default: `once`.
    missed: Literal["once", "skip"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.cron is None) == (self.interval_ms is None):
            raise TypeError("a Timer needs either cron or interval_ms")

    def document(self) -> Object:
        """The primary as JSON."""
        return {"timer": super().document()}


@dataclass(frozen=True)
class OwnedWatch(Watch):
    """Children of one kind. A plain `Watch` also works, unless a composer sets an update strategy."""

    #: How a composer's children are updated: by applying, by deleting and creating them again, or only after someone
    #: else has deleted them. Not for a reconciler.
    update_strategy: Literal["inPlace", "recreate", "onDelete"] | None = None


@dataclass(frozen=True)
class MappedWatch(Watch):
    """A watch, and the mapping of its changes to primaries."""

    #: How a changed object maps to primaries. Required.
    mapping: Mapping | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.mapping, Mapping):
            raise TypeError(f"a MappedWatch of {self.kind or self.kinds_from} needs a mapping, such as mapping=Mapping.same_name()")
        if self.name is None and self.mapping in (Mapping.mapper(), Mapping.customize()):
            raise TypeError(f"a MappedWatch of {self.kind or self.kinds_from} that the plugin maps itself needs a name, which is passed to its function")


@dataclass(frozen=True)
class Backoff(_Part):
    """The delay before the n-th retry: `base_ms` doubled n times, at most `max_ms`. Another `limiter` changes that."""

    #: Default: 5.
    base_ms: int | None = None
    #: Default: 1,000,000.
    max_ms: int | None = None
    #: Default: `exponential`. With `tokenBucket`, the retries of all objects share a rate. `maxOf` takes the longer of
    #: both delays.
    limiter: Literal["exponential", "tokenBucket", "maxOf"] | None = None
    #: Retries per second of all objects together, for a token bucket. Default: 10.
    per_second: int | None = None
    #: Retries at once, for a token bucket. Default: 100.
    burst: int | None = None


@dataclass(frozen=True)
class Options(_Part):
    """How a controller's loop runs."""

    #: How many objects are reconciled at once, at most 64. Default: 16.
    workers: int | None = None
    #: How many counted retries an object gets before it runs only in the slow lane. Default: 15.
    max_retries: int | None = None
    #: The delays of retries.
    backoff: Backoff | None = None
    #: How often every object runs again even if nothing changed. Default: ten hours.
    resync_ms: int | None = None
    #: How long a call may take. Default: 30 seconds.
    deadline_ms: int | None = None
    #: Whether objects get the finalizer `windlass.dev/NAME`, so that the plugin can clean up before they are deleted. A
    #: call with `deleting` that succeeds removes it.
    finalizer: bool | None = None
    #: How to treat an object whose writes do not appear in the caches for too long. `probe` holds it until they appear;
    #: `run` runs it nevertheless. Default: `probe`.
    expectation_timeout: Literal["probe", "run"] | None = None
    #: Whether the controller writes the status of its primaries. If False, the manifest does not ask for that right.
    status: bool | None = None
    #: Whether the host may leave out calls that would read the same as the last call about their object, if that call
    #: changed nothing. Default: True.
    saved_calls: bool | None = None


@dataclass(frozen=True)
class Hook(_Part):
    """A web address at which other systems name objects that are to run: `POST /hooks/PLUGIN/NAME`. It is open only if the
    operator's policy names its secret. A delivery maps as an object of kind `HookDelivery` does that has the JSON of the
    request in `/payload`. Only objects that exist run."""

    #: Unique in the plugin, and among the watches of the controller. The function `map` gets it as the watch.
    name: str
    #: `Mapping.field(…)`, `Mapping.reference(…)`, `Mapping.mapper()` or `Mapping.all()`.
    mapping: Mapping


@dataclass(frozen=True)
class Controller(_Part):
    """One reconcile loop: a primary kind, and the other objects that make its objects run again."""

    #: Unique in the plugin. It is in requests, logs and metrics.
    name: str
    #: The objects that are reconciled, or a timer instead.
    primary: Watch | Timer
    #: Children: a change of one runs the primary that controls it.
    owns: Sequence[Watch | OwnedWatch] = ()
    #: Other objects: a change of one runs the primaries that its mapping finds.
    watches: Sequence[MappedWatch] = ()
    #: How the loop runs.
    options: Options | None = None
    #: Web addresses at which other systems name objects that are to run.
    hooks: Sequence[Hook] = ()


@dataclass(frozen=True)
class Permission(_Part):
    """Rights to resources of the API, as in a rule of a Kubernetes Role."""

    #: API groups; the core group is the empty text.
    api_groups: Sequence[str]
    #: Resources and subresources, such as `deployments` and `deployments/scale`.
    resources: Sequence[str]
    #: API verbs. An apply needs `create` and `patch`.
    verbs: Sequence[str]
    #: Only in these namespaces. Empty: in all namespaces, and for cluster-scoped objects.
    namespaces: Sequence[str] = ()
    #: Only objects with these names. Empty: all.
    names: Sequence[str] = ()


@dataclass(frozen=True)
class HttpAccess(_Part):
    """An HTTP host that the plugin may call."""

    #: The protocol for the host.
    scheme: Literal["https", "http"]
    #: The host's name. `*` stands for one label, as in `*.example.com`.
    host: str
    #: The methods, such as `GET`; `*` for all.
    methods: Sequence[str]
    #: None: the scheme's default port.
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
    #: The plugin's purpose in a sentence.
    description: str | None = None
    #: The complete CustomResourceDefinitions that the plugin installs.
    crds: Sequence[MappingType[str, Any]] = ()
    #: Rights beyond those that the watches imply: to read watched objects, to change owned ones, and to write the status of primaries.
    permissions: Sequence[Permission] = ()
    #: Metrics that the plugin may set.
    metrics: Sequence[Metric] = ()
    #: A JSON schema of the configuration that an operator may give. None: there is no configuration.
    config_schema: MappingType[str, Any] | None = None
    #: Finalizers, other than its own, that the plugin adds or removes; `*` for all. The host manages the plugin's own
    #: finalizer.
    finalizers: Sequence[str] = ()
    #: HTTP hosts that the plugin may call.
    http: Sequence[HttpAccess] = ()

    def document(self) -> Object:
        """The document as JSON."""
        document: Object = {"apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", **super().document()}
        if self.config_schema is not None:
            del document["configSchema"]
            document["config"] = {"schema": dict(self.config_schema)}
        if self.metrics:
            document["metrics"] = [_metric(metric) for metric in self.metrics]
        return document

    def to_json(self) -> str:
        """The document as text, as `describe` returns it."""
        return encode(self.document())


def _metric(metric: Metric) -> Object:
    document: Object = {"name": metric.name, "type": type(metric).__name__.lower(), "help": metric.help}
    if metric.labels:
        document["labels"] = list(metric.labels)
    if isinstance(metric, _metrics.Histogram) and metric.buckets:
        document["buckets"] = list(metric.buckets)
    return document
