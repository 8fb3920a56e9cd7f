"""Decisions of a plugin's own code: which changes count, which primaries they concern, and which objects are related to a
parent.

This module has the records that plugins receive and return, and checks what they return. `_wit_exports` and `testing`
use it.

"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ._calls import Request
from ._objects import Object
from ._text import text, text_or_none


@dataclass(frozen=True)
class Change:
    """A change of an object of a watch."""

    #: The state before the change. None: the object is new, or part of the watch's first list.
    old: Object | None = None
    #: The state after the change. None: the object was deleted, and `old` is its last known state.
    new: Object | None = None

    @property
    def states(self) -> list[Object]:
        """The states that exist, the old one first. Usually both count: if an object now refers to another primary than
        before, the change concerns both."""
        return [state for state in (self.old, self.new) if state is not None]


@dataclass(frozen=True, kw_only=True)
class Primary:
    """Selects the primary with this key, which need not exist."""

    #: None for a cluster-scoped primary.
    namespace: str | None = None
    #: The primary's name.
    name: str


@dataclass(frozen=True)
class Indexed:
    """Selects all primaries with this value in an index, in any namespace."""

    #: The name of an index that the manifest declares for the primary.
    index: str
    #: The value. For an index of selectors it is a set of labels, such as `app=web,tier=front`, which selects the
    #: primaries whose selector matches these labels.
    value: str


#: Primaries that a change concerns.
Target = Primary | Indexed


@dataclass(frozen=True)
class RelatedRule:
    """Selects objects of one watch that are related to a parent: those that meet all conditions."""

    #: The name of the watch in the manifest, which maps it by `Mapping.customize()`.
    watch: str
    #: The objects' namespace. None: the parent's namespace, and cluster-scoped objects; for a cluster-scoped parent:
    #: any namespace.
    namespace: str | None = None
    #: Their names. Empty: any.
    names: Sequence[str] = ()
    #: Only objects with these labels, such as `app=web,tier in (front,back)`. None: any.
    label_selector: str | None = None


#: Returns the primaries that a change in the watch of this name concerns.
Map = Callable[[str, Change], Sequence[Target]]

#: Returns whether a change in the watch of this name counts.
Matches = Callable[[str, Change], bool]

#: Returns the objects that are related to the parent, which is the object of the request.
Customize = Callable[[Request], Sequence[RelatedRule]]


def targets_of(answer: object) -> list[Target]:
    """Checks the result of a `Map`. `TypeError` names the place of the error."""
    return [_target(target, place) for place, target in enumerate(_listed(answer, "map", _TARGETS))]


def counts_of(answer: object) -> bool:
    """Checks the result of a `Matches`."""
    if not isinstance(answer, bool):
        raise TypeError(f"matches returned {answer!r}; it returns True or False")
    return answer


def rules_of(answer: object) -> list[RelatedRule]:
    """Checks the result of a `Customize`. `TypeError` names the place of the error."""
    return [_rule(rule, place) for place, rule in enumerate(_listed(answer, "customize", _RULES))]


_TARGETS = "it returns a list of windlass.Primary and windlass.Indexed"
_RULES = "it returns a list of windlass.RelatedRule"


def _listed(answer: object, name: str, wanted: str) -> Sequence[Any]:
    if not isinstance(answer, (list, tuple)):
        raise TypeError(f"{name} returned {answer!r}; {wanted}")
    return answer


def _target(target: object, place: int) -> Target:
    if isinstance(target, Primary):
        what = f"of the Primary at [{place}]"
        return Primary(namespace=text_or_none(target.namespace, f"namespace {what}"), name=text(target.name, f"name {what}"))
    if isinstance(target, Indexed):
        what = f"of the Indexed at [{place}]"
        return Indexed(text(target.index, f"index {what}"), text(target.value, f"value {what}"))
    raise TypeError(f"map returned {target!r} at [{place}]; {_TARGETS}")


def _rule(rule: object, place: int) -> RelatedRule:
    if not isinstance(rule, RelatedRule):
        raise TypeError(f"customize returned {rule!r} at [{place}]; {_RULES}")
    what = f"of the RelatedRule at [{place}]"
    if not isinstance(rule.names, (list, tuple)):
        raise TypeError(f"names {what} is a list, and not {rule.names!r}")
    return RelatedRule(
        text(rule.watch, f"watch {what}"),
        text_or_none(rule.namespace, f"namespace {what}"),
        [text(name, f"each of the names {what}") for name in rule.names],
        text_or_none(rule.label_selector, f"label_selector {what}"),
    )
