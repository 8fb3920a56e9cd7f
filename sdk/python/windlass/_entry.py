"""The entry points of a component: the registration of a plugin's function, and the classes that the component exports.

A plugin uses a decorator of this module once. componentize-py's bindings call the exported classes for each call.
Outside a component the decorators only check their arguments.

"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from . import _host
from ._calls import Composition, CompositionRequest, Outcome, Request
from ._errors import Failure, failures_of, summary, unreported
from ._mapping import Customize, Map, Matches, counts_of
from ._text import plain
from .manifest import Manifest, Watch

try:
    from . import _wit, _wit_exports
except ImportError as error:  # not in a component, but in a test
    if error.name not in ("wit_world", "componentize_py_types"):
        raise
    _wit = _wit_exports = None  # type: ignore[assignment]

Reconcile = TypeVar("Reconcile", bound=Callable[[Request], Outcome])
Compose = TypeVar("Compose", bound=Callable[[CompositionRequest], Composition])

#: Names the module that componentize-py builds.
_APP = "app"


def reconciler(manifest: Manifest, *, map: Map | None = None, matches: Matches | None = None) -> Callable[[Reconcile], Reconcile]:
    """Makes the decorated function the plugin's reconciler: it brings the cluster to the state that an object
    specifies.

    The host calls it with a `Request`. It returns None, `windlass.requeue_after(…)` or
    `windlass.requeue_with_backoff()`. The decorator returns the
    function unchanged, so that tests can call it. The module with the decorator must be `app.py` or imported by it.

    `map` is for the watches that the manifest maps by `Mapping.mapper()`. It is called with the name of the watch and a
    `Change`, and returns a list of the primaries that the change concerns, each as a `Primary` or an `Indexed`. It may
    use `log`, `clock`, `random` and `config`, and read `windlass.cache`. Each change is mapped only once, so also map
    the objects that it reads. After an exception, which is logged, every primary runs at low priority.

    `matches` is for the watches with `code_predicate`. It is called with the name of the watch and a `Change`, and
    returns whether the change counts. The host asks about new objects, the objects of the first list and of a resync
    (`change.old` is None), and updates that pass the watch's `predicates`. Deletions always count. A change that does not
    count is not mapped, and runs no primary. The function may use what `map` may use. After an exception, which is logged,
    the change counts.

    """
    _check(manifest, "reconciler")
    _check_mapping(manifest, "mapper", map, "map", "reconciler")
    _check_predicate(manifest, matches)

    def register(function: Reconcile) -> Reconcile:
        if _wit is not None:
            _export("Reconciler", "reconcile", manifest, lambda request: _wit_exports.outcome(function(_wit_exports.request(request))))
            has_code = {"map": map is not None, "matches": matches is not None}
            _export_optional("Mapper", {
                "map": _method(partial(_targets, map), raised_as_text),
                "matches": _method(partial(_counts, matches), raised_as_text),
            }, has_code)  # fmt: skip
        return function

    return register


def composer(manifest: Manifest, *, customize: Customize | None = None) -> Callable[[Compose], Compose]:
    """Makes the decorated function the plugin's composer: a pure function that computes the children that an object
    should have.

    The host calls it with a `CompositionRequest`, and it returns a `Composition`. The decorator returns the function
    unchanged, so that tests can call it. The module with the decorator must be `app.py` or imported by it.

    `customize` is for the watches that the manifest maps by `Mapping.customize()`. It is called before each composition
    with a `Request`, whose object is the parent, and returns a list of `RelatedRule`, which select the related objects
    of the composition. It must depend only on its argument and `windlass.config`.

    """
    _check(manifest, "composer")
    _check_mapping(manifest, "customize", customize, "customize", "composer")

    def register(function: Compose) -> Compose:
        if _wit is not None:
            _export(
                "Composer", "compose", manifest,
                lambda request: _wit_exports.composition(function(_wit_exports.composition_request(request))),
            )  # fmt: skip
            has_code = {"customize": customize is not None}
            _export_optional("Customize", {"customize": _method(partial(_rules, customize), raised)}, has_code)
        return function

    return register


def _check(manifest: object, what: str) -> None:
    if not isinstance(manifest, Manifest):
        raise TypeError(f"@windlass.{what}(…) takes the plugin's Manifest, and not {manifest!r}")


def _check_mapping(manifest: Manifest, mapping: str, function: object, name: str, decorator: str) -> None:
    """Refuses a manifest that maps a watch by a function that the plugin does not have."""
    where = f"@windlass.{decorator}(MANIFEST, {name}=…)"
    if _is_function(function, where):
        return
    for controller in manifest.controllers:
        for kind, watch in (*(("watch", it) for it in controller.watches), *(("hook", it) for it in controller.hooks)):
            if watch.document().get("mapping") == {"type": mapping}:
                missing = f"the manifest maps the {kind} {watch.name!r} by `{mapping}`, and the plugin has no `{name}`"
                raise TypeError(f"{missing}: {where} takes it")


def _check_predicate(manifest: Manifest, matches: object) -> None:
    """Refuses a manifest with a `code_predicate`, for which the plugin does not have the function."""
    where = "@windlass.reconciler(MANIFEST, matches=…)"
    if _is_function(matches, where):
        return
    for controller in manifest.controllers:
        for watch in (controller.primary, *controller.owns, *controller.watches):
            # The primary may be a timer.
            if isinstance(watch, Watch) and watch.code_predicate:
                missing = f"the manifest has a code_predicate for the watch {watch.name!r}, and the plugin has no `matches`"
                raise TypeError(f"{missing}: {where} takes it")


def _is_function(function: object, where: str) -> bool:
    if function is not None and not callable(function):
        raise TypeError(f"{where} takes a function, and not {function!r}")
    return function is not None


class _Export:
    """Handles the host's calls. componentize-py creates one instance of each class at the end of the build."""

    def __init__(self) -> None:
        from . import _runtime  # only for components

        try:
            _runtime.seal()
        except Exception as error:  # componentize-py only shows the message
            raise RuntimeError(f"the SDK could not end the build:\n{stack(error)}") from None


def _export(interface: str, method: str, manifest: Manifest, answer: Callable[[Any], Any]) -> None:
    """Adds the class that componentize-py looks for to the application's module."""
    if not _wit_exports.has_export(interface):
        raise RuntimeError(
            f"this plugin is a {interface.lower()}, but is being built as another kind: see `plugin:` in windlass.yaml"
        )
    app = sys.modules.get(_APP)
    if app is None:
        raise RuntimeError(f"a plugin is built from its module {_APP!r}: rename it, or import it there")
    if hasattr(app, interface):
        raise RuntimeError(f"a plugin has one {interface.lower()}, and this registers another")
    described = manifest.to_json()
    _put(interface, {"describe": lambda self: described, method: _method(answer, raised)})


def _export_optional(interface: str, methods: dict[str, Callable[[Any, Any], Any]], has_code: dict[str, bool]) -> None:
    """Adds the class of an optional interface, which the bindings always export. The host only calls it if the manifest
    uses it. `has_code` says for which of its methods the plugin has code."""
    if _wit_exports.has_export(interface):
        _put(interface, methods)
        return
    for method in (name for name, has in has_code.items() if has):
        raise RuntimeError(f"this plugin has a `{method}`, but is being built for a world that does not export `{interface.lower()}`")


def _put(interface: str, methods: dict[str, Any]) -> None:
    setattr(sys.modules[_APP], interface, type(interface, (_Export,), methods))


def _method(answer: Callable[[Any], Any], raised_as: Callable[[BaseException], Exception]) -> Callable[[Any, Any], Any]:
    """Creates the method of an export. It returns the result of a call, or raises the failures of an exception."""

    def call(self: _Export, asked: Any) -> Any:
        from_host = sys.modules["windlass._runtime"]
        _host.current = _wit.HOST
        from_host.begin()
        try:
            return answer(asked)
        except BaseException as error:  # only this call has failed: the instance continues
            raise raised_as(error) from None
        finally:
            from_host.end()

    return call


def _targets(function: Any, batch: Any) -> list[Any]:
    return [_wit_exports.targets(function(batch.watch, _wit_exports.change(change))) for change in batch.changes]


def _counts(function: Any, batch: Any) -> list[bool]:
    if function is None:  # the host does not ask: no watch has a code_predicate
        return [True for _ in batch.changes]
    return [counts_of(function(batch.watch, _wit_exports.change(change))) for change in batch.changes]


def _rules(function: Any, request: Any) -> list[Any]:
    return _wit_exports.rules(function(_wit_exports.request(request)))


def raised(error: BaseException) -> Exception:
    """Converts an exception to the failures of the bindings. This function must never raise, because the instance would
    be lost."""
    return _wit_exports.raised([_reported(failure) for failure in _failures(error)])


def raised_as_text(error: BaseException) -> Exception:
    """Like `raised`, for `map` and `matches`, whose error is only a text."""
    texts = []
    for failure in _failures(error):
        _reported(failure)
        texts.append(plain(failure.message or summary(error)))
    return _wit_exports.raised("; ".join(texts))


def _failures(error: BaseException) -> list[Failure]:
    try:
        return failures_of(error)
    except BaseException as failed:
        return [unreported(summary(error), failed)]


def _reported(failure: Failure) -> Any:
    try:
        if failure.uncaught is not None:
            report(failure.uncaught)
        return _wit_exports.failure(failure)
    except BaseException as failed:  # such as an ApiError with invalid fields; the other failures keep their class
        try:
            report(failed)  # its stack includes that of the exception above
        except BaseException:
            pass
        text = failure.message if failure.message or failure.error is None else summary(failure.error)
        return _wit_exports.failure(unreported(text, failed))


def report(error: BaseException) -> None:
    """Logs an unexpected exception with its stack. The first frames are this module's, so they are left out."""
    _host.current.log(_host.ERROR, plain(summary(error)), [("stack", plain(stack(error, skip=2)))])


def stack(error: BaseException, skip: int = 0) -> str:
    """The traceback of an exception as text. It also works if the exception cannot be formatted."""
    frames = error.__traceback__
    while skip and frames is not None and frames.tb_next is not None:
        frames, skip = frames.tb_next, skip - 1
    try:
        lines = traceback.format_exception(type(error), error, frames)
    except Exception as failed:  # an exception class of the plugin may fail to format itself
        lines = [f"{type(error).__qualname__} (its stack cannot be read: {failed!r})"]
    return "".join(lines).strip().replace('File "/0/', 'File "').replace('File "/1/', 'File "')
