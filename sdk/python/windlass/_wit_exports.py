"""Converts the requests and results of the exports between the bindings' form and the package's. For `_entry`; see `_wit`."""

# The bindings have types only in a build.
# mypy: disable-error-code="import-not-found"
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wit_world import exports
from wit_world.imports import types

from ._calls import Composition, CompositionRequest, Done, Outcome, RequeueAfter, RequeueBackoff, Request
from ._errors import Failure
from ._mapping import Change, Primary, RelatedRule, Target, rules_of, targets_of
from ._text import decode, encode, number, number_or_none, plain
from ._wit import Err, error_out, event_out


# A world has at most two of these exports.
try:
    from wit_world.exports import reconciler as _reconciler
except ImportError:
    _reconciler = None

try:
    from wit_world.exports import mapper as _mapper
except ImportError:
    _mapper = None

try:
    from wit_world.exports import composer as _composer
except ImportError:
    _composer = None

try:
    from wit_world.exports import customize as _customize
except ImportError:
    _customize = None


def has_export(name: str) -> bool:
    """Whether the component is built for a world that exports this interface."""
    return hasattr(exports, name)


def request(asked: Any) -> Request:
    """Converts a request from the host."""
    return Request(
        asked.controller,
        asked.name,
        asked.namespace,
        asked.uid,
        asked.object,
        asked.deleting,
        asked.attempt,
        asked.trace_id,
    )


def composition_request(asked: Any) -> CompositionRequest:
    """Converts a composition request from the host."""
    return CompositionRequest(request(asked.request), asked.parent, asked.children, asked.related, asked.config)


def change(asked: Any) -> Change:
    """Converts one change of a batch."""
    return Change(None if asked.old is None else decode(asked.old), None if asked.new is None else decode(asked.new))


def outcome(answer: Outcome) -> Any:
    """Converts the outcome of a reconcile for the host."""
    if answer is None or isinstance(answer, Done):
        return _reconciler.Outcome(None)
    if isinstance(answer, (RequeueAfter, RequeueBackoff)):
        return _reconciler.Outcome(_requeue(answer))
    wanted = "it returns nothing, windlass.requeue_after(seconds) or windlass.requeue_with_backoff()"
    raise TypeError(f"reconcile returned {answer!r}; {wanted}")


def _requeue(answer: RequeueAfter | RequeueBackoff | None) -> Any:
    if isinstance(answer, RequeueAfter):
        return types.Requeue_AfterMs(number(answer.ms, "ms of a RequeueAfter"))
    return None if answer is None else types.Requeue_Backoff()


def composition(answer: Composition) -> Any:
    """Converts the composition of a composer for the host."""
    if not isinstance(answer, Composition):
        raise TypeError(f"compose returned {answer!r}; it returns a windlass.Composition")
    return _composer.Composition(
        [encode(child) for child in answer.children],
        None if answer.status is None else encode(answer.status),
        [event_out(event) for event in answer.events],
        _requeue(answer.requeue()),
        bool(answer.allow_empty),
        bool(answer.finalized),
    )


def targets(answer: Sequence[Target]) -> list[Any]:
    """Converts the result of a map for one change for the host."""
    return [
        _mapper.Target_Primary(_mapper.ObjectKey(target.namespace, target.name))
        if isinstance(target, Primary)
        else _mapper.Target_Indexed(_mapper.IndexValue(target.index, target.value))
        for target in targets_of(answer)
    ]


def rules(answer: Sequence[RelatedRule]) -> list[Any]:
    """Converts the result of a customize for the host."""
    return [_customize.RelatedRule(rule.watch, rule.namespace, rule.names, rule.label_selector) for rule in rules_of(answer)]


def failure(of: Failure) -> Any:
    """Converts a failure for the bindings."""
    if of.error is not None:
        return types.Failure("", error_out(of.error, of.message), False, None)
    retry_after_ms = number_or_none(of.retry_after_ms, "retry_after_ms of a Transient")
    return types.Failure(plain(of.message), None, of.kind == "terminal", retry_after_ms)


def raised(failures: list[Any] | str) -> Exception:
    """The exception that the bindings turn into failures, or into the text of a mapper's error."""
    return Err(failures)
