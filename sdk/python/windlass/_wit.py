"""The host of a component, through the bindings that componentize-py generates (`wit_world`). It can be imported only
in a component.

Only `_entry` uses it, so this module must not keep state between calls. It serves both kinds of plugins, although a
composer has only some of the imports. The exports are in `_wit_exports`.

"""

# The bindings have types only in a build.
# mypy: disable-error-code="no-any-return, import-not-found"
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import componentize_py_types
import wit_world
from wit_world.imports import clock, config, log, random, types

from . import _host
from ._errors import ApiError, Collected, Reason
from ._host import Collection, DeleteOptions, ListedKind, LogQuery, Operation, Pairs, Query, ServedKind, WriteOptions
from ._objects import ObjectRef
from ._text import number, number_or_none, plain, text, text_or_none
from .events import Event
from .http import HttpReason, failed
from .http import Request as HttpRequest

Err = componentize_py_types.Err

try:
    from wit_world.imports import cache, events, http, live, metrics, owners, triggers, writes
except ImportError:  # the world of composers
    cache = events = http = live = metrics = owners = triggers = writes = None

_LEVELS = tuple(log.Level)
_REASONS = tuple(Reason)
_LARGEST_CODE = (1 << 16) - 1
_HTTP_REASONS = tuple(HttpReason)


def _by_name(enum: Any) -> dict[str, Any]:
    return {member.name.lower(): member for member in enum}


if writes is not None:
    _VALIDATIONS, _PATCH_TYPES = _by_name(writes.FieldValidation), _by_name(writes.PatchType)
    _PROPAGATIONS = _by_name(writes.Propagation)
    _WRITES = {verb: getattr(writes, verb) for verb in ("apply", "create", "update")}


def _reason(binding: Any) -> Reason:
    return _REASONS[binding.value]


def _ref_of(target: Any) -> ObjectRef | None:
    if target is None:
        return None
    return ObjectRef(target.api_version, target.kind, target.name, target.namespace, target.uid)


def _error(error: Any) -> ApiError:
    return ApiError(
        _reason(error.reason),
        error.message,
        code=error.code,
        status_reason=error.status_reason,
        retry_after_ms=error.retry_after_ms,
        verb=error.verb,
        resource=error.resource,
        object=_ref_of(error.object),
    )


# The values are checked here, because the bindings end the instance without a message if a value has the wrong type.


def _ref(target: Any, what: str = "the target") -> Any:
    if not isinstance(target, ObjectRef):
        raise TypeError(f"{what} must be an ObjectRef, and is of type {type(target).__name__}")
    namespace, uid = target.namespace, target.uid
    try:  # one check for all, which nearly always succeeds
        if "".join(
            (target.api_version, target.kind, target.name, "" if namespace is None else namespace, "" if uid is None else uid)
        ).isascii():
            return target
    except TypeError:
        pass
    return ObjectRef(
        text(target.api_version, f"api_version of {what}"),
        text(target.kind, f"kind of {what}"),
        text(target.name, f"name of {what}"),
        text_or_none(namespace, f"namespace of {what}"),
        text_or_none(uid, f"uid of {what}"),
    )


def _ref_or_none(target: Any, what: str) -> Any:
    return None if target is None else _ref(target, what)


def _kind(api_version: str, kind: str) -> Any:
    return types.ObjectKind(text(api_version, "api_version"), text(kind, "kind"))


def error_out(error: ApiError, message: str) -> Any:
    reason: Any = error.reason
    return types.ApiError(
        number(error.code, "code of an ApiError", _LARGEST_CODE),
        types.ApiReason(_REASONS.index(reason if reason in _REASONS else Reason.OTHER)),
        plain(error.status_reason),
        plain(message),
        number_or_none(error.retry_after_ms, "retry_after_ms of an ApiError"),
        plain(error.verb),
        plain(error.resource),
        _ref_or_none(error.object, "the object of an ApiError"),
    )


def _texts(fields: Sequence[str] | None) -> list[str] | None:
    if fields is None:
        return None
    if isinstance(fields, str):
        raise TypeError("fields must be a list of JSON pointers, and is a text")
    return [text(field, "each of the fields") for field in fields]


def _results(results: list[Any]) -> list[str | ApiError | None]:
    return [_error(result.value) if isinstance(result, Err) else result.value for result in results]


def _options(options: WriteOptions | None) -> Any:
    if options is None:
        options = WriteOptions()
    subresource = None
    if options.subresource is not None:
        subresource = writes.Subresource(text(options.subresource, "subresource"), _ref_or_none(options.parent, "the parent"))
    return writes.WriteOptions(
        subresource,
        text_or_none(options.resource_version, "resource_version"),
        bool(options.owned),
        bool(options.force),
        bool(options.dry_run),
        _VALIDATIONS[options.field_validation],
        text_or_none(options.manager_suffix, "manager_suffix"),
        _texts(options.fields),
    )


def _view(fields: Sequence[str] | None, metadata_only: bool) -> Any:
    if metadata_only:
        return live.View_Metadata()
    return live.View_Whole() if fields is None else live.View_Fields(_texts(fields))


def _served(served: Any) -> ServedKind:
    return ServedKind(served.resource, served.namespaced, served.verbs, served.subresources)


def _deletion(deletion: DeleteOptions | None) -> Any:
    assert deletion is not None
    propagation = _PROPAGATIONS[deletion.propagation]
    return writes.DeleteOptions(
        text_or_none(deletion.resource_version, "resource_version"),
        propagation,
        number_or_none(deletion.grace_period_ms, "grace_period_ms"),
        bool(deletion.dry_run),
    )


def _operation(operation: Operation) -> Any:
    if operation.verb == "delete":
        return writes.Operation_Delete(writes.DeleteWrite(_ref(operation.target), _deletion(operation.deletion)))
    options = _options(operation.options)
    if operation.verb == "patch":
        patch_type = _PATCH_TYPES[operation.patch_type]
        body = text(operation.body, "the patch")
        return writes.Operation_Patch(writes.PatchWrite(_ref(operation.target), patch_type, body, options))
    form = getattr(writes, f"Operation_{operation.verb.capitalize()}")
    return form(writes.ObjectWrite(text(operation.body, "the object"), options))


def event_out(event: Event) -> Any:
    return types.Event(
        _ref_or_none(event.regarding, "regarding"),
        _ref_or_none(event.related, "related"),
        types.EventType.WARNING if event.event_type == "warning" else types.EventType.NORMAL,
        plain(event.reason),
        plain(event.action),
        plain(event.note),
    )


class WitHost:
    """The host that runs the component."""

    def _needs_reconciler(self, interface: Any, what: str) -> None:
        if interface is None:
            raise RuntimeError(f"windlass.{what} is for reconcilers: a composer may use only its request")

    def cache_get(self, target: ObjectRef, fields: Sequence[str] | None) -> str | None:
        self._needs_reconciler(cache, "cache")
        try:
            return cache.get(_ref(target), _texts(fields))
        except Err as error:
            raise _error(error.value) from None

    def cache_get_many(self, targets: list[ObjectRef], fields: Sequence[str] | None) -> list[str | ApiError | None]:
        self._needs_reconciler(cache, "cache")
        return _results(cache.get_many([_ref(target) for target in targets], _texts(fields)))

    def cache_list(self, query: Query) -> tuple[list[str], str | None]:
        self._needs_reconciler(cache, "cache")
        index = None
        if query.index is not None:
            name, value = query.index
            index = cache.IndexMatch(text(name, "the name of the index"), text(value, "the value of the index"))
        asked = cache.ListQuery(
            _kind(query.api_version, query.kind),
            text_or_none(query.namespace, "namespace"),
            text_or_none(query.label_selector, "label_selector"),
            index,
            bool(query.owned),
            _texts(query.fields),
            query.limit,  # a number: see `_pages.checked`
            query.max_bytes,
            text_or_none(query.page_token, "page_token"),
        )
        try:
            page = cache.list(asked)
        except Err as error:
            raise _error(error.value) from None
        return page.items, page.next_token

    def live_get(self, target: ObjectRef, subresource: str | None, fields: Sequence[str] | None, metadata_only: bool) -> str | None:
        self._needs_reconciler(live, "live")
        try:
            return live.get(_ref(target), text_or_none(subresource, "subresource"), _view(fields, metadata_only))
        except Err as error:
            raise _error(error.value) from None

    def live_list(self, query: Query) -> tuple[list[str], str | None]:
        self._needs_reconciler(live, "live")
        asked = live.ListQuery(
            _kind(query.api_version, query.kind),
            text_or_none(query.namespace, "namespace"),
            text_or_none(query.label_selector, "label_selector"),
            text_or_none(query.field_selector, "field_selector"),
            _view(query.fields, query.metadata_only),
            query.limit,
            text_or_none(query.page_token, "page_token"),
        )
        try:
            page = live.list(asked)
        except Err as error:
            raise _error(error.value) from None
        return page.items, page.next_token

    def live_log(self, query: LogQuery) -> str:
        self._needs_reconciler(live, "live")
        asked = live.LogQuery(
            _ref(query.pod, "the pod"),
            text_or_none(query.container, "container"),
            bool(query.previous),
            number_or_none(query.tail_lines, "tail_lines"),
            number_or_none(query.since_ms, "since_ms"),
            number_or_none(query.limit_bytes, "limit_bytes"),
        )
        try:
            return live.log(asked)
        except Err as error:
            raise _error(error.value) from None

    def live_served(self, api_version: str, kind: str) -> ServedKind | None:
        self._needs_reconciler(live, "live")
        try:
            served = live.served(_kind(api_version, kind))
        except Err as error:
            raise _error(error.value) from None
        return None if served is None else _served(served)

    def live_kinds(self) -> list[ListedKind]:
        self._needs_reconciler(live, "live")
        try:
            kinds = live.kinds()
        except Err as error:
            raise _error(error.value) from None
        return [ListedKind(listed.kind.api_version, listed.kind.kind, _served(listed.served)) for listed in kinds]

    def write(self, operation: Operation) -> str | None:
        self._needs_reconciler(writes, "writes")
        verb = operation.verb
        try:
            if verb == "delete":
                return writes.delete(_ref(operation.target), _deletion(operation.deletion))
            options = _options(operation.options)
            if verb == "patch":
                patch_type = _PATCH_TYPES[operation.patch_type]
                return writes.patch(_ref(operation.target), patch_type, text(operation.body, "the patch"), options)
            return _WRITES[verb](text(operation.body, "the object"), options)
        except Err as error:
            raise _error(error.value) from None

    def delete_collection(self, collection: Collection, deletion: DeleteOptions) -> list[ObjectRef] | None:
        self._needs_reconciler(writes, "writes")
        asked = writes.Collection(
            _kind(collection.api_version, collection.kind),
            text_or_none(collection.namespace, "namespace"),
            text_or_none(collection.label_selector, "label_selector"),
            text_or_none(collection.field_selector, "field_selector"),
            bool(collection.all),
        )
        try:
            deleted = writes.delete_collection(asked, _deletion(deletion))
        except Err as error:
            raise _error(error.value) from None
        return None if deleted is None else [_ref_of(ref) for ref in deleted]  # type: ignore[misc]

    def batch(self, operations: list[Operation]) -> list[str | ApiError | None]:
        self._needs_reconciler(writes, "writes")
        return _results(writes.batch([_operation(operation) for operation in operations]))

    def claim(self, api_version: str, kind: str, selector: str) -> tuple[list[ObjectRef], list[ObjectRef]]:
        self._needs_reconciler(owners, "owners")
        try:
            claimed = owners.claim(_kind(api_version, kind), text(selector, "label_selector"))
        except Err as error:
            errors = [_error(each) for each in error.value]
            raise Collected(f"{len(errors)} objects could not be claimed", errors) from None
        return [_ref_of(ref) for ref in claimed.adopted], [_ref_of(ref) for ref in claimed.released]  # type: ignore[misc]

    def emit(self, event: Event) -> None:
        self._needs_reconciler(events, "events")
        events.emit(event_out(event))

    def log(self, level: int, message: str, fields: Pairs) -> None:
        log.log(_LEVELS[level], message, fields)

    def metric(self, verb: str, name: str, value: float, labels: Pairs) -> None:
        self._needs_reconciler(metrics, "metrics")
        getattr(metrics, verb)(plain(name), float(value), [(plain(key), plain(label)) for key, label in labels])

    def config(self) -> str:
        return config.get()

    def now(self) -> tuple[int, int]:
        now = clock.now()
        return now.seconds, now.nanoseconds

    def random_u32(self) -> int:
        return random.get_u32()

    def random_bytes(self, length: int) -> bytes:
        return random.get_bytes(length)

    def triggers_list(self) -> list[tuple[str, str | None, ObjectRef | None]]:
        self._needs_reconciler(triggers, "triggers")
        return [(trigger.reason, trigger.watch, _ref_of(trigger.object)) for trigger in triggers.list()]

    def fetch(self, request: HttpRequest) -> tuple[int, Pairs, str | bytes]:
        self._needs_reconciler(http, "http")
        body = None
        if request.body is not None:
            body = http.Body_Text(plain(request.body)) if isinstance(request.body, str) else http.Body_Bytes(bytes(request.body))
        headers = [(plain(name), plain(value)) for name, value in request.headers]
        try:
            method, url = text(request.method, "method"), text(request.url, "url")
            response = http.fetch(http.Request(method, url, headers, body, number_or_none(request.timeout_ms, "timeout_ms")))
        except Err as error:
            raise failed(request, _HTTP_REASONS[error.value.reason.value], error.value.message) from None
        return response.status, response.headers, response.body.value


class BuildHost(_host.NoHost):
    """The host while the component is built: the plugin's module runs, but there is no real host yet."""

    def _lacks(self, what: str) -> NoReturn:
        raise RuntimeError(f"{what} is called while the plugin is built: call it within reconcile or compose")

    def metric(self, verb: str, name: str, value: float, labels: Pairs) -> None:
        self._lacks("windlass.metrics")

    def config(self) -> str:
        self._lacks("windlass.config.get")

    def now(self) -> tuple[int, int]:
        self._lacks("windlass.clock.now")

    def random_u32(self) -> int:
        self._lacks("windlass.random.number")

    def random_bytes(self, length: int) -> bytes:
        self._lacks("windlass.random.bytes")

    def log(self, level: int, message: str, fields: Pairs) -> None:
        self._lacks("windlass.log")


#: The host that calls use.
HOST = WitHost()

_host.current = BuildHost()
