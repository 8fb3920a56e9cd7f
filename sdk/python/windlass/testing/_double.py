"""The host in memory: the test's setup and calls, and the responses to a plugin."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from types import TracebackType
from typing import Any

from .. import _host
from .._calls import Composition, CompositionRequest, Outcome, Request
from .._errors import ApiError, Reason
from .._host import Collection, DeleteOptions, ListedKind, LogQuery, Operation, Pairs, Query, ServedKind, WriteOptions
from .._logging import Handler, Record
from .._mapping import Customize, Map, Matches, RelatedRule, Target, counts_of, rules_of, targets_of
from .._objects import Object, ObjectRef, controller_of, is_controlled_by
from .._text import decode, encode
from ..events import Event
from ..http import HttpError, HttpReason, Response, failed
from ..http import Request as HttpRequest
from ..triggers import Trigger
from ._forms import listed_kinds, projection, scale, served_kind, viewed
from ._records import Fault, LogLine, MetricValue, Write
from ._requests import change, composition_request, request
from ._store import Store, key_of

_LEVELS = ("trace", "debug", "info", "warn", "error")


class Host(Store):
    """A host in memory. A context manager: within it, the modules of `windlass` use this host."""

    def __init__(self, *objects: Mapping[str, Any], config: Mapping[str, Any] | None = None, crds: str | None = None) -> None:
        super().__init__()
        if crds is not None:
            self.define(crds)
        #: Every requested write, in order. The writes of a batch are listed one by one.
        self.writes: list[Write] = []
        #: Every event that was emitted.
        self.events: list[Event] = []
        #: Every line that was logged, including those of `logging`.
        self.logs: list[LogLine] = []
        #: Every value of a metric.
        self.metrics: list[MetricValue] = []
        #: Every HTTP request that was sent.
        self.requests: list[HttpRequest] = []
        #: The result of `windlass.config.get`.
        self.configuration: Object = dict(config or {})
        #: The logs of Pods, by `ObjectRef`, for all their containers. For any other Pod, a read fails with `NOT_FOUND`.
        self.pod_logs: dict[ObjectRef, str] = {}
        #: The kinds that the API server does not serve, as `apiVersion` and `kind`. According to `live.served` it serves
        #: all other kinds; `live.kinds` returns those of the host's objects and definitions.
        self.unserved: set[tuple[str, str]] = set()
        #: The responses to creates of objects without a name, by kind, such as a `SubjectAccessReview`. Such objects
        #: are not stored.
        self.answers: dict[str, Object] = {}
        #: The result of `windlass.triggers.list`.
        self.triggers: list[Trigger] = []
        self._faults: list[Fault] = []
        self._responses: list[tuple[str, str, Response | HttpReason]] = []
        self._random = 0
        self._before: _host.Host | None = None
        self._handler = Handler()
        self._level = logging.WARNING
        self._factory: Callable[..., logging.LogRecord] = logging.LogRecord
        self.add(*objects)

    def __enter__(self) -> Host:
        self._before, _host.current = _host.current, self
        root = logging.getLogger()
        root.addHandler(self._handler)
        self._factory = logging.getLogRecordFactory()
        logging.setLogRecordFactory(Record)
        self._level = root.level
        root.setLevel(1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None) -> None:
        assert self._before is not None
        _host.current = self._before
        root = logging.getLogger()
        root.removeHandler(self._handler)
        logging.setLogRecordFactory(self._factory)
        root.setLevel(self._level)

    # --- Setup by a test ---

    def add(self, *objects: Mapping[str, Any]) -> None:
        """Adds objects unchanged, except for the fields that a server would add: UID, version, generation."""
        for obj in objects:
            self._store(copy.deepcopy(dict(obj)))

    def define(self, crds: str) -> None:
        """Defines kinds by CustomResourceDefinitions in YAML, usually those of crd.yaml:
        `Path("crd.yaml").read_text()`.

        From now on objects of these kinds get their defaults, and a write of an invalid object fails with
        `Reason.INVALID`, with the paths in its message. An unknown field is invalid, as for an API server with strict
        field validation; a write with another `field_validation` keeps it. It does not check `format`, `allOf` and
        similar keywords, list types, and rules in CEL."""
        self._definitions.add(crds)

    def remove(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> None:
        """Removes an object, and the objects that it controls."""
        self._drop((api_version, kind, namespace, name))

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """Returns the current state of an object. Raises `KeyError` if it does not exist."""
        return self.objects[api_version, kind, namespace, name]

    def fail(
        self,
        verb: str,
        reason: Reason = Reason.SERVER_ERROR,
        message: str = "the test makes this request fail",
        *,
        kind: str | None = None,
        name: str | None = None,
        times: int | None = None,
        error: ApiError | None = None,
    ) -> None:
        """Makes requests with a verb fail (`get`, `list`, `apply`, `create`, `update`, `patch`, `delete`,
        `deletecollection`, `claim`, `served`, `kinds`). `kind` and `name` restrict the requests. `times` is how many of
        them fail; without it, all do. `error` is raised unchanged, instead of an error with this reason and message."""
        made = error or ApiError(reason, message, verb=verb)
        self._faults.append(Fault(verb, made, kind, name, times))

    def respond(self, method: str, url: str, response: Response | HttpReason) -> None:
        """Sets the response to HTTP requests of this method to this URL; the latest call counts. A request without a
        response fails with `HttpReason.NOT_GRANTED`."""
        self._responses.insert(0, (method, url, response))

    def advance(self, seconds: int) -> None:
        """Advances the clock."""
        self.clock = self.clock._replace(seconds=self.clock.seconds + seconds)

    # --- Calls ---

    def reconcile(
        self,
        function: Callable[[Request], Outcome],
        obj: Mapping[str, Any] | None,
        *,
        controller: str = "test",
        deleting: bool | None = None,
        attempt: int = 0,
    ) -> Outcome:
        """Adds an object as the primary, and reconciles it. Exceptions of the function are raised.
        `windlass.failures_of` returns the failures that the host would receive for them."""
        if obj is not None:
            self.primary = self._store(copy.deepcopy(dict(obj)))
        return function(request(self.primary if obj is not None else None, controller=controller, deleting=deleting, attempt=attempt))

    def compose(
        self,
        function: Callable[[CompositionRequest], Composition],
        parent: Mapping[str, Any],
        *,
        children: Iterable[Mapping[str, Any]] = (),
        related: Iterable[Mapping[str, Any]] = (),
        deleting: bool | None = None,
        controller: str = "test",
    ) -> Composition:
        """Composes a parent, with this host's configuration. A child that does not fit a defined kind is refused, as
        its write would be."""
        asked = composition_request(
            parent, children=children, related=related, config=self.configuration, deleting=deleting, controller=controller
        )
        composition = function(asked)
        composition.requeue()
        for child in composition.children if self._definitions else ():
            self._admitted(child, "apply", ObjectRef.of(child), WriteOptions())
        if self._definitions and composition.status is not None:
            of_parent = {**parent, "status": composition.status}
            self._admitted(of_parent, "apply", ObjectRef.of(parent), WriteOptions(subresource="status"))
        return composition

    def map(
        self, function: Map, watch: str, *, old: Mapping[str, Any] | None = None, new: Mapping[str, Any] | None = None
    ) -> list[Target]:
        """Calls a mapper for a change in this watch. Raises the function's exceptions, and an error for an invalid
        result."""
        return targets_of(function(watch, change(old, new)))

    def matches(
        self, function: Matches, watch: str, *, old: Mapping[str, Any] | None = None, new: Mapping[str, Any] | None = None
    ) -> bool:
        """Calls a predicate for a change in this watch. Raises the function's exceptions, and an error for an invalid
        result."""
        return counts_of(function(watch, change(old, new)))

    def customize(
        self, function: Customize, parent: Mapping[str, Any], *, deleting: bool | None = None, controller: str = "test"
    ) -> list[RelatedRule]:
        """Calls a customizer for a parent. Raises the function's exceptions, and an error for an invalid result."""
        return rules_of(function(request(parent, controller=controller, deleting=deleting)))

    # --- The functions of `_host.Host` ---

    def cache_get(self, target: ObjectRef, fields: Sequence[str] | None) -> str | None:
        self._may_fail("get", target.kind, target.name, target)
        found = self.objects.get(key_of(target))
        if found is None or (target.uid is not None and found["metadata"].get("uid") != target.uid):
            return None
        return encode(found if fields is None else projection(found, fields))

    def cache_get_many(self, targets: list[ObjectRef], fields: Sequence[str] | None) -> list[str | ApiError | None]:
        return [_or_error(lambda: self.cache_get(target, fields)) for target in targets]

    def cache_list(self, query: Query) -> tuple[list[str], str | None]:
        self._may_fail("list", query.kind, None, None)
        found = [obj for _, obj in sorted(self.objects.items(), key=lambda item: tuple(map(str, item[0]))) if self._fits(obj, query)]
        begin = int(query.page_token or 0)
        rest = found[begin : begin + query.limit]
        fields = query.fields
        items = [encode(obj if fields is None else projection(obj, fields)) for obj in rest]
        end = begin + query.limit
        return items, str(end) if end < len(found) else None

    def live_get(self, target: ObjectRef, subresource: str | None, fields: Sequence[str] | None, metadata_only: bool) -> str | None:
        text = self.cache_get(target, None)
        if text is None:
            return None
        found = decode(text)
        if subresource == "scale":
            found = scale(found)
        elif subresource not in (None, "status"):
            error = self._error(Reason.NOT_FOUND, f"there is no {subresource}", "get", target)
            error.object = None  # as on the real host: the object itself exists
            raise error
        return encode(viewed(found, fields, metadata_only))

    def live_list(self, query: Query) -> tuple[list[str], str | None]:
        items, token = self.cache_list(replace(query, fields=None))
        return [encode(viewed(decode(item), query.fields, query.metadata_only)) for item in items], token

    def live_log(self, query: LogQuery) -> str:
        self._may_fail("get", query.pod.kind, query.pod.name, query.pod)
        log = self.pod_logs.get(query.pod)
        if log is None:
            raise self._error(Reason.NOT_FOUND, "it does not exist", "get", query.pod)
        lines = log.splitlines(keepends=True)
        if query.tail_lines is not None:
            lines = lines[max(len(lines) - query.tail_lines, 0) :]
        return "".join(lines).encode()[: query.limit_bytes].decode(errors="ignore")

    def live_served(self, api_version: str, kind: str) -> ServedKind | None:
        self._may_fail("served", kind, None, None)
        if (api_version, kind) in self.unserved:
            return None
        return served_kind(kind)

    def live_kinds(self) -> list[ListedKind]:
        self._may_fail("kinds", "", None, None)
        return listed_kinds(({key[:2] for key in self.objects} | self._definitions.kinds) - self.unserved)

    def delete_collection(self, collection: Collection, deletion: DeleteOptions) -> list[ObjectRef] | None:
        target = ObjectRef(collection.api_version, collection.kind, "", collection.namespace)
        selectors = {"label_selector": collection.label_selector, "field_selector": collection.field_selector}
        given = {name: value for name, value in {**selectors, "all": collection.all, "dry_run": deletion.dry_run}.items() if value}
        self.writes.append(Write("deletecollection", target, None, given))
        self._may_fail("deletecollection", collection.kind, None, None)
        if not collection.all and not any(selectors.values()):
            raise self._error(Reason.INVALID, "nothing is selected", "deletecollection", target)
        if collection.field_selector:
            raise NotImplementedError("windlass.testing does not support field selectors")
        query = Query(collection.api_version, collection.kind, collection.namespace, collection.label_selector)
        deleted = []
        for found in [obj for obj in self.objects.values() if self._fits(obj, query)]:
            ref = ObjectRef.of(found).with_uid(found["metadata"]["uid"])
            self._delete(found, ref, Operation("delete", target=ref, deletion=deletion))
            deleted.append(ref)
        return deleted

    def write(self, operation: Operation) -> str | None:
        body = json.loads(operation.body) if operation.body else None
        target = operation.target if operation.target is not None else ObjectRef.of(_named(body or {}))
        options = _given(operation)
        self.writes.append(Write(operation.verb, target, body, options))
        self._may_fail(operation.verb, target.kind, target.name, target)
        known = self.objects.get(key_of(target))
        version = options.get("resource_version")
        stale = known is not None and version is not None and known["metadata"].get("resourceVersion") != version
        another = known is not None and target.uid is not None and known["metadata"].get("uid") != target.uid
        if stale or another:
            raise self._error(Reason.CONFLICT, "the object has been modified", operation.verb, target)
        if operation.verb == "delete":
            return self._delete(known, target, operation)
        if operation.verb == "create" and not target.name and "subresource" not in options:
            # An object without a name is of a kind that is not stored.
            return encode(self.answers.get(target.kind, body or {}))
        written = self._write(operation, target, body, known)
        given = options.get("fields")
        return encode(written if given is None else projection(written, given))

    def batch(self, operations: list[Operation]) -> list[str | ApiError | None]:
        return [_or_error(lambda: self.write(operation)) for operation in operations]

    def claim(self, api_version: str, kind: str, selector: str) -> tuple[list[ObjectRef], list[ObjectRef]]:
        self._may_fail("claim", kind, None, None)
        adopted, released = [], []
        assert self.primary is not None, "a claim is made within Host.reconcile"
        query = Query(api_version, kind, namespace=self.primary["metadata"].get("namespace"), label_selector=selector)
        for obj in list(self.objects.values()):
            same = (obj["apiVersion"], obj["kind"], obj["metadata"].get("namespace")) == (api_version, kind, query.namespace)
            ref = ObjectRef.of(obj)
            if same and controller_of(obj) is None and self._fits(obj, query):
                self._own(obj)
                adopted.append(ref.with_uid(obj["metadata"]["uid"]))
            elif same and is_controlled_by(obj, self.primary) and not self._fits(obj, query):
                obj["metadata"]["ownerReferences"].remove(controller_of(obj))
                released.append(ref.with_uid(obj["metadata"]["uid"]))
        return adopted, released

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def log(self, level: int, message: str, fields: Pairs) -> None:
        self.logs.append(LogLine(_LEVELS[level], message, dict(fields)))

    def metric(self, verb: str, name: str, value: float, labels: Pairs) -> None:
        self.metrics.append(MetricValue(verb, name, value, dict(labels)))

    def config(self) -> str:
        return encode(self.configuration)

    def now(self) -> tuple[int, int]:
        return self.clock.seconds, self.clock.nanoseconds

    def random_u32(self) -> int:
        # The generator of Numerical Recipes. Its numbers are the same in each test.
        self._random = (self._random * 1_664_525 + 1_013_904_223) % (1 << 32)
        return self._random

    def random_bytes(self, length: int) -> bytes:
        return bytes(self.random_u32() >> 24 for _ in range(length))

    def triggers_list(self) -> list[tuple[str, str | None, ObjectRef | None]]:
        return [(trigger.reason, trigger.watch, trigger.object) for trigger in self.triggers]

    def fetch(self, request: HttpRequest) -> tuple[int, Pairs, str | bytes]:
        self.requests.append(request)
        for method, url, response in self._responses:
            if (method, url) == (request.method, request.url):
                if isinstance(response, HttpReason):
                    raise failed(request, response, "the test makes this request fail")
                return response.status, response.headers, response.body
        error: HttpError = failed(request, HttpReason.NOT_GRANTED, "the test has set no response: set one with Host.respond")
        raise error

    # --- Implementation ---

    def _may_fail(self, verb: str, kind: str, name: str | None, target: ObjectRef | None) -> None:
        for fault in self._faults:
            if fault.verb != verb or fault.kind not in (None, kind) or fault.name not in (None, name) or fault.times == 0:
                continue
            if fault.times is not None:
                fault.times -= 1
            error = copy.copy(fault.error)
            error.object = error.object or target
            raise error


def _named(obj: Object) -> Object:
    metadata = obj.get("metadata") or {}
    return obj if "name" in metadata else {**obj, "metadata": {**metadata, "name": metadata.get("generateName", "")}}


def _given(operation: Operation) -> dict[str, Any]:
    options: Any = operation.deletion if operation.verb == "delete" else operation.options or WriteOptions()
    default = type(options)()
    names = [field.name for field in fields(options)]
    given = {name: getattr(options, name) for name in names if getattr(options, name) != getattr(default, name)}
    if operation.verb == "patch":
        given["patch_type"] = operation.patch_type
    return given


def _or_error(act: Callable[[], str | None]) -> str | ApiError | None:
    try:
        return act()
    except ApiError as error:
        return error
