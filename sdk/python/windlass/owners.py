"""Claims existing objects by their labels."""

from __future__ import annotations

from dataclasses import dataclass

from . import _host
from ._objects import ObjectRef

__all__ = ["Claimed", "claim"]


@dataclass(frozen=True)
class Claimed:
    """The changes of a claim."""

    #: The objects that the primary controls from now on.
    adopted: list[ObjectRef]
    #: The objects that it no longer controls.
    released: list[ObjectRef]


def claim(api_version: str, kind: str, label_selector: str) -> Claimed:
    """Makes the primary the controller of all matching objects of its namespace that have no controller, and releases
    objects that it controls and that no longer match. It does not touch objects of other controllers.

    It attempts all changes, and raises the errors in an `ExceptionGroup` of `ApiError`. Afterwards
    `windlass.cache.list` with `owned` returns the objects. The selector must not be empty, and a declared watch of the
    kind must have no selectors.

    """
    adopted, released = _host.current.claim(api_version, kind, label_selector)
    return Claimed(adopted, released)
