"""A host for unit tests, which answers from memory and records what a plugin does.

    class ShopTest(unittest.TestCase):
        def test_a_shop_gets_its_settings(self) -> None:
            with windlass.testing.Host() as host:
                host.reconcile(app.reconcile, shop)
                self.assertEqual(host.get("v1", "ConfigMap", "shop", "default")["data"], {"currency": "EUR"})

        def test_a_conflict_is_passed_on(self) -> None:
            with windlass.testing.Host() as host:
                host.fail("apply", windlass.Reason.CONFLICT)
                with self.assertRaises(windlass.ApiError):
                    host.reconcile(app.reconcile, shop)

It is no API server: an apply merges, nothing is validated or garbage-collected, and every declared or undeclared kind is in the cache. For
the whole, `windlass dev` runs the plugin on a real one.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Any

from . import _host
from ._calls import Composition, CompositionRequest, Outcome, Request
from ._errors import ApiError, Reason
from ._host import Operation, Pairs, Query, WriteOptions
from ._logging import Handler, Record
from ._objects import Object, ObjectRef, controller_of, is_controlled_by, owner_reference
from ._text import encode
from .clock import Timestamp
from .events import Event
from .http import HttpError, HttpReason, Response, failed
from .http import Request as HttpRequest

__all__ = ["Host", "LogLine", "MetricValue", "Write", "composition_request", "request"]

Key = tuple[str, str, str | None, str]

_LEVELS = ("trace", "debug", "info", "warn", "error")


@dataclass(frozen=True)
class Write:
    """A write that a plugin asked for, also if it failed."""

    #: `apply`, `create`, `update`, `patch` or `delete`.
    verb: str
    #: Which object.
    target: ObjectRef
    #: The object, the fields to apply, or the patch. None: a deletion.
    body: Any
    #: The options, as the function of `windlass.writes` takes them, without those that were left out.
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LogLine:
    """A line of the log."""

    level: str
    message: str
    fields: dict[str, str]


@dataclass(frozen=True)
class MetricValue:
    """A value of a metric. The verb is `add`, `set` or `observe`."""

    verb: str
    name: str
    value: float
    labels: dict[str, str]


@dataclass
class _Fault:
    verb: str
    error: ApiError
    kind: str | None
    name: str | None
    times: int | None


def request(obj: Mapping[str, Any] | None, *, controller: str = "test", deleting: bool | None = None, attempt: int = 0) -> Request:
    """A request about an object. It is one of deletion if the object has a `deletionTimestamp`, unless said otherwise."""
    metadata: Mapping[str, Any] = {} if obj is None else obj["metadata"]
    return Request(
        controller,
        metadata.get("name", "gone"),
        metadata.get("namespace", "default" if obj is None else None),
        metadata.get("uid"),
        None if obj is None else encode(obj),
        bool(metadata.get("deletionTimestamp")) if deleting is None else deleting,
        attempt,
        "0123456789abcdef0123456789abcdef",
    )


def composition_request(
    parent: Mapping[str, Any],
    *,
    children: Iterable[Mapping[str, Any]] = (),
    related: Iterable[Mapping[str, Any]] = (),
    config: Mapping[str, Any] | None = None,
    deleting: bool | None = None,
    controller: str = "test",
) -> CompositionRequest:
    """A composition request about a parent."""
    asked = request(parent, controller=controller, deleting=deleting)
    about = Request(asked.controller, asked.name, asked.namespace, asked.uid, None, asked.deleting, 0, asked.trace_id)
    return CompositionRequest(about, encode(parent), [*map(encode, children)], [*map(encode, related)], encode(config or {}))


class Host:
    """The host, in memory. A context manager: within it, the modules of `windlass` ask this one."""

    def __init__(self, *objects: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> None:
        #: What there is, by apiVersion, kind, namespace and name.
        self.objects: dict[Key, Object] = {}
        #: Every write that was asked for, in order; those of a batch one by one.
        self.writes: list[Write] = []
        #: Every event that was emitted.
        self.events: list[Event] = []
        #: Every line that was logged, also by `logging`.
        self.logs: list[LogLine] = []
        #: Every value of a metric.
        self.metrics: list[MetricValue] = []
        #: Every HTTP request that was sent.
        self.requests: list[HttpRequest] = []
        #: What `windlass.config.get` returns.
        self.configuration: Object = dict(config or {})
        #: What `windlass.clock.now` returns. It stands still.
        self.clock = Timestamp(1_795_258_125, 0)
        #: The object that is reconciled: the owner of what is written with `owned`.
        self.primary: Object | None = None
        self._faults: list[_Fault] = []
        self._responses: list[tuple[str, str, Response | HttpReason]] = []
        self._version = 0
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

    # --- What a test arranges ---

    def add(self, *objects: Mapping[str, Any]) -> None:
        """Puts objects there, as they are but for what a server would add: UID, version, generation."""
        for obj in objects:
            self._store(copy.deepcopy(dict(obj)))

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """An object that is there; `KeyError` if it is not."""
        return self.objects[api_version, kind, namespace, name]

    def fail(
        self,
        verb: str,
        reason: Reason = Reason.SERVER_ERROR,
        message: str = "the test lets it fail",
        *,
        kind: str | None = None,
        name: str | None = None,
        times: int | None = None,
        error: ApiError | None = None,
    ) -> None:
        """Lets requests fail: those of a verb (`get`, `list`, `apply`, `create`, `update`, `patch`, `delete`, `claim`), about objects of
        a kind or of a name if these are given, and so many times, or each time. `error` is raised as it is, in place of one with
        this reason and message."""
        made = error or ApiError(reason, message, verb=verb)
        self._faults.append(_Fault(verb, made, kind, name, times))

    def respond(self, method: str, url: str, response: Response | HttpReason) -> None:
        """Answers HTTP requests of this method to this URL; the latest answer counts. What has none is `HttpReason.NOT_GRANTED`."""
        self._responses.insert(0, (method, url, response))

    def advance(self, seconds: int) -> None:
        """Lets time pass."""
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
        """Puts an object there, as the primary, and reconciles it. What the function raises is raised: `windlass.failures_of` tells
        what the host would be told."""
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
        """Composes a parent. The configuration is this host's."""
        asked = composition_request(
            parent, children=children, related=related, config=self.configuration, deleting=deleting, controller=controller
        )
        return function(asked)

    # --- What a plugin asks for: see `_host.Host` ---

    def cache_get(self, target: ObjectRef, fields: Sequence[str] | None) -> str | None:
        self._may_fail("get", target.kind, target.name, target)
        found = self.objects.get(_key(target))
        if found is None or (target.uid is not None and found["metadata"].get("uid") != target.uid):
            return None
        return encode(found if fields is None else _projected(found, fields))

    def cache_get_many(self, targets: list[ObjectRef], fields: Sequence[str] | None) -> list[str | ApiError | None]:
        return [_or_error(lambda: self.cache_get(target, fields)) for target in targets]

    def cache_list(self, query: Query) -> tuple[list[str], str | None]:
        self._may_fail("list", query.kind, None, None)
        found = [obj for _, obj in sorted(self.objects.items(), key=lambda item: tuple(map(str, item[0]))) if self._fits(obj, query)]
        begin = int(query.page_token or 0)
        rest = found[begin : begin + query.limit]
        fields = query.fields
        items = [encode(obj if fields is None else _projected(obj, fields)) for obj in rest]
        end = begin + query.limit
        return items, str(end) if end < len(found) else None

    def live_get(self, target: ObjectRef) -> str | None:
        return self.cache_get(target, None)

    def live_list(self, query: Query) -> tuple[list[str], str | None]:
        return self.cache_list(query)

    def write(self, operation: Operation) -> str | None:
        body = json.loads(operation.body) if operation.body else None
        target = operation.target if operation.target is not None else ObjectRef.of(_named(body or {}))
        options = _given(operation)
        self.writes.append(Write(operation.verb, target, body, options))
        self._may_fail(operation.verb, target.kind, target.name, target)
        known = self.objects.get(_key(target))
        version = options.get("resource_version")
        stale = known is not None and version is not None and known["metadata"].get("resourceVersion") != version
        another = known is not None and target.uid is not None and known["metadata"].get("uid") != target.uid
        if stale or another:
            raise self._error(Reason.CONFLICT, "the object has been modified", operation.verb, target)
        if operation.verb == "delete":
            return self._delete(known, target, operation)
        return encode(self._write(operation, target, body, known))

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
        # The generator of Numerical Recipes: the same in each test.
        self._random = (self._random * 1_664_525 + 1_013_904_223) % (1 << 32)
        return self._random

    def random_bytes(self, length: int) -> bytes:
        return bytes(self.random_u32() >> 24 for _ in range(length))

    def fetch(self, request: HttpRequest) -> tuple[int, Pairs, str | bytes]:
        self.requests.append(request)
        for method, url, response in self._responses:
            if (method, url) == (request.method, request.url):
                if isinstance(response, HttpReason):
                    raise failed(request, response, "the test lets it fail")
                return response.status, response.headers, response.body
        error: HttpError = failed(request, HttpReason.NOT_GRANTED, "the test has no answer: Host.respond gives one")
        raise error

    # --- How it is done ---

    def _may_fail(self, verb: str, kind: str, name: str | None, target: ObjectRef | None) -> None:
        for fault in self._faults:
            if fault.verb != verb or fault.kind not in (None, kind) or fault.name not in (None, name) or fault.times == 0:
                continue
            if fault.times is not None:
                fault.times -= 1
            error = copy.copy(fault.error)
            error.object = error.object or target
            raise error

    def _error(self, reason: Reason, message: str, verb: str, target: ObjectRef) -> ApiError:
        return ApiError(reason, message, verb=verb, resource=target.kind.lower() + "s", object=target)

    def _store(self, obj: Object) -> Object:
        metadata = obj["metadata"]
        self._version += 1
        key = (obj["apiVersion"], obj["kind"], metadata.get("namespace"), metadata["name"])
        known = self.objects.get(key)
        new = f"uid-{self._version}"
        metadata.setdefault("uid", new if known is None else known["metadata"].get("uid", new))
        metadata.setdefault("resourceVersion", str(self._version))
        metadata.setdefault("generation", 1)
        self.objects[key] = obj
        return obj

    def _write(self, operation: Operation, target: ObjectRef, body: Any, known: Object | None) -> Object:
        verb, options = operation.verb, operation.options or WriteOptions()
        if options.subresource is not None and options.parent is not None:
            return dict(body)  # such as an eviction: the answer is what was sent
        if known is None and (verb in ("update", "patch") or options.subresource is not None):
            raise self._error(Reason.NOT_FOUND, "the object does not exist", verb, target)
        if known is not None and verb == "create":
            raise self._error(Reason.ALREADY_EXISTS, "the object exists", verb, target)
        if verb == "patch":
            new = _json_patched(known, body) if operation.patch_type == "json" else _merged(known, body)
        elif verb == "apply" and known is not None:
            new = _applied(known, body)
        else:
            new = copy.deepcopy(body)
            if known is not None:
                new["metadata"] = {**{key: known["metadata"][key] for key in ("uid", "generation")}, **new["metadata"]}
        changed = known is None or new != known
        if options.dry_run:
            return dict(new)
        if "name" not in new["metadata"]:
            new["metadata"]["name"] = f"{new['metadata']['generateName']}{self._version + 1}"
        if changed:
            new["metadata"].pop("resourceVersion", None)
            if known is not None and new.get("spec") != known.get("spec"):
                new["metadata"]["generation"] = known["metadata"]["generation"] + 1
        stored = self._store(new)
        if options.owned:
            self._own(stored)
        return stored

    def _delete(self, known: Object | None, target: ObjectRef, operation: Operation) -> str | None:
        if known is None:
            raise self._error(Reason.NOT_FOUND, "the object does not exist", "delete", target)
        dry_run = operation.deletion is not None and operation.deletion.dry_run
        if known["metadata"].get("finalizers"):
            deleted = copy.deepcopy(known) if dry_run else known
            deleted["metadata"]["deletionTimestamp"] = str(self.clock)
            return encode(deleted)
        if not dry_run:
            del self.objects[_key(target)]
        return None

    def _own(self, obj: Object) -> None:
        if self.primary is None:
            raise AssertionError("an owned write needs a primary: call the function by Host.reconcile, or set Host.primary")
        owners = obj["metadata"].setdefault("ownerReferences", [])
        if not is_controlled_by(obj, self.primary):
            owners.append(owner_reference(self.primary))

    def _fits(self, obj: Object, query: Query) -> bool:
        metadata = obj["metadata"]
        return (
            (obj["apiVersion"], obj["kind"]) == (query.api_version, query.kind)
            and query.namespace in (None, metadata.get("namespace"))
            and _selected(metadata.get("labels") or {}, query.label_selector or "")
            and (not query.owned or (self.primary is not None and is_controlled_by(obj, self.primary)))
        )


def _key(target: ObjectRef) -> Key:
    return target.api_version, target.kind, target.namespace, target.name


def _named(obj: Object) -> Object:
    metadata = obj["metadata"]
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


def _selected(labels: Mapping[str, str], selector: str) -> bool:
    """Equality and existence: `a=b,c!=d,e,!f`."""
    for term in filter(None, (term.strip() for term in selector.split(","))):
        if "!=" in term:
            key, value = term.split("!=", 1)
            fits = labels.get(key) != value
        elif "=" in term:
            key, value = term.replace("==", "=").split("=", 1)
            fits = labels.get(key) == value
        elif " " in term:
            raise NotImplementedError(f"windlass.testing knows no sets in selectors: {term!r}")
        else:
            fits = (term[1:] not in labels) if term.startswith("!") else term in labels
        if not fits:
            return False
    return True


def _projected(obj: Object, pointers: Sequence[str]) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key in ("name", "namespace", "uid", "resourceVersion")}
    projected: Object = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    for pointer in pointers:
        found: Any = obj
        path = _path(pointer)
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        if found is not None:
            place = projected
            for step in path[:-1]:
                place = place.setdefault(step, {})
            place[path[-1]] = found
    return projected


def _path(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _merged(known: Any, patch: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(known) if isinstance(known, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return copy.deepcopy(merged)


def _applied(known: Any, fields: Any) -> Any:
    """An apply, nearly: maps are merged, lists of things with names by these, other lists replaced."""
    if isinstance(known, dict) and isinstance(fields, dict):
        return {**copy.deepcopy(known), **{key: _applied(known.get(key), value) for key, value in fields.items()}}
    if isinstance(known, list) and isinstance(fields, list) and fields and all(_has_name(one) for one in [*known, *fields]):
        by_name = {one["name"]: one for one in known}
        for one in fields:
            by_name[one["name"]] = _applied(by_name.get(one["name"]), one)
        return copy.deepcopy(list(by_name.values()))
    return copy.deepcopy(fields)


def _has_name(element: Any) -> bool:
    return isinstance(element, dict) and "name" in element


def _json_patched(known: Any, operations: list[dict[str, Any]]) -> Any:
    """A JSON patch of `add`, `replace`, `remove` and `test`."""
    patched = copy.deepcopy(known)
    for operation in operations:
        *path, last = _path(operation["path"])
        place: Any = patched
        for step in path:
            place = place[int(step)] if isinstance(place, list) else place[step]
        at: Any = last
        if isinstance(place, list):
            at = len(place) if last == "-" else int(last)
        op = operation["op"]
        if op == "test":
            if place[at] != operation["value"]:
                raise ApiError(Reason.INVALID, f"the test of {operation['path']} failed", verb="patch")
        elif op == "remove":
            del place[at]
        elif op == "add" and isinstance(place, list):
            place.insert(at, operation["value"])
        elif op in ("add", "replace"):
            place[at] = operation["value"]
        else:
            raise NotImplementedError(f"windlass.testing knows no {op} in a JSON patch")
    return patched
