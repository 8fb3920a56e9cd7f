"""Where the host's calls come in: the registration of a plugin's function, and the classes that the component exports.

Called by plugins once, as a decorator, and by componentize-py's bindings for each call. Natively the decorators only check.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from . import _host
from ._calls import Composition, CompositionRequest, Outcome, Request
from ._errors import Failure, failures_of, summary, untold
from ._text import plain
from .manifest import Manifest

try:
    from . import _wit
except ImportError as error:  # no component: a test
    if error.name not in ("wit_world", "componentize_py_types"):
        raise
    _wit = None  # type: ignore[assignment]

Reconcile = TypeVar("Reconcile", bound=Callable[[Request], Outcome])
Compose = TypeVar("Compose", bound=Callable[[CompositionRequest], Composition])

#: Names the module that componentize-py is told to build.
_APP = "app"


def reconciler(manifest: Manifest) -> Callable[[Reconcile], Reconcile]:
    """Makes the decorated function the plugin's reconciler: it brings the world to the state that an object asks for.

    It is called with a `Request`, and returns nothing, or `windlass.requeue_after(…)`. The function stays as it is, for tests to
    call. The module with the decorator must be `app.py` or imported by it.
    """
    _check(manifest, "reconciler")

    def register(function: Reconcile) -> Reconcile:
        if _wit is not None:
            _export("Reconciler", "reconcile", manifest, lambda request: _wit.outcome(function(_wit.request(request))))
        return function

    return register


def composer(manifest: Manifest) -> Callable[[Compose], Compose]:
    """Makes the decorated function the plugin's composer: a pure function from an object and its children to the children that
    should be.

    It is called with a `CompositionRequest`, and returns a `Composition`. The function stays as it is, for tests to call. The module
    with the decorator must be `app.py` or imported by it.
    """
    _check(manifest, "composer")

    def register(function: Compose) -> Compose:
        if _wit is not None:
            _export("Composer", "compose", manifest, lambda request: _wit.composition(function(_wit.composition_request(request))))
        return function

    return register


def _check(manifest: object, what: str) -> None:
    if not isinstance(manifest, Manifest):
        raise TypeError(f"@windlass.{what}(…) takes the plugin's Manifest, and not {manifest!r}")


def _export(world: str, method: str, manifest: Manifest, answer: Callable[[Any], Any]) -> None:
    """Puts the class that componentize-py looks for into the application's module."""
    if not _wit.has_export(world):
        raise RuntimeError(
            f"this plugin is a {world.lower()}, but is being built as another kind: see `plugin:` in windlass.yaml"
        )
    app = sys.modules.get(_APP)
    if app is None:
        raise RuntimeError(f"a plugin is built from its module {_APP!r}: rename it, or import it there")
    if hasattr(app, world):
        raise RuntimeError(f"a plugin has one {world.lower()}, and this registers another")
    described = manifest.to_json()

    class Export:
        """Answers the host's calls. componentize-py makes one at the end of the build."""

        def __init__(self) -> None:
            from . import _runtime  # it is for components alone

            try:
                _runtime.seal()
            except Exception as error:  # componentize-py shows the message alone
                raise RuntimeError(f"the SDK could not end the build:\n{stack(error)}") from None

        def describe(self) -> str:
            return described

    def call(self: Export, request: Any) -> Any:
        from_host = sys.modules["windlass._runtime"]
        _host.current = _wit.HOST
        from_host.begin()
        try:
            return answer(request)
        except BaseException as error:  # the instance lives on: only this call has failed
            raise raised(error) from None
        finally:
            from_host.end()

    setattr(Export, method, call)
    Export.__name__ = Export.__qualname__ = world
    setattr(app, world, Export)


def raised(error: BaseException) -> Exception:
    """What the host is told of an exception, as the bindings want it. It does not fail: the instance would be lost."""
    try:
        failures = failures_of(error)
    except BaseException as failed:
        failures = [untold(summary(error), failed)]
    return _wit.raised([_as_told(failure) for failure in failures])


def _as_told(failure: Failure) -> Any:
    try:
        if failure.uncaught is not None:
            report(failure.uncaught)
        return _wit.failure(failure)
    except BaseException as failed:  # such as an ApiError with fields that cannot cross: the others keep their class
        try:
            report(failed)  # its stack has that of the exception above it
        except BaseException:
            pass
        text = failure.message if failure.message or failure.error is None else summary(failure.error)
        return _wit.failure(untold(text, failed))


def report(error: BaseException) -> None:
    """Logs an exception that the plugin did not mean, with its stack. Its first frames are this module's."""
    _host.current.log(_host.ERROR, plain(summary(error)), [("stack", plain(stack(error, skip=2)))])


def stack(error: BaseException, skip: int = 0) -> str:
    """The traceback of an exception as text, as far as it can be had."""
    frames = error.__traceback__
    while skip and frames is not None and frames.tb_next is not None:
        frames, skip = frames.tb_next, skip - 1
    try:
        lines = traceback.format_exception(type(error), error, frames)
    except Exception as failed:  # an exception of the plugin's own may not let itself be formatted
        lines = [f"{type(error).__qualname__} (its stack cannot be had: {failed!r})"]
    return "".join(lines).strip().replace('File "/0/', 'File "').replace('File "/1/', 'File "')
