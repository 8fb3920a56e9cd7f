"""Status conditions in Kubernetes' form: dicts in a list that contains each type once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import clock
from ._objects import Object

__all__ = ["condition", "find", "is_true", "removed", "updated"]


def condition(type: str, status: bool | str, reason: str, message: str = "") -> Object:
    """Creates a condition for `updated`. `status` is True, False, or the text `Unknown`. `reason` is in CamelCase for
    machines, `message` for people."""
    text = ("True" if status else "False") if isinstance(status, bool) else status
    if text not in ("True", "False", "Unknown"):
        raise ValueError(f"the status of a condition is True, False or Unknown, and not {status!r}")
    return {"type": type, "status": text, "reason": reason, "message": message}


def updated(
    known: Iterable[Mapping[str, Any]] | None,
    *new: Mapping[str, Any],
    generation: int | None,
    now: clock.Timestamp | Callable[[], clock.Timestamp] = clock.now,
) -> list[Object]:
    """Returns a list with conditions set, all about this generation of the object.

    A condition of a known type keeps its position in the list, and others are appended. `lastTransitionTime` becomes
    `now` if the status changed, and otherwise stays, so setting the same condition again changes nothing. `now` is a
    time, or a function that is called only if a status changed: a call that reads the time cannot be saved.

    """
    conditions = [dict(condition) for condition in known or ()]
    places = {condition.get("type"): place for place, condition in enumerate(conditions)}
    for entry in new:
        type, status = entry["type"], entry["status"]
        place = places.get(type)
        old = {} if place is None else conditions[place]
        since = old.get("lastTransitionTime") if old.get("status") == status else None
        if not since:
            now = now() if callable(now) else now
            since = str(now)
        entered = {"type": type, "status": status, "reason": entry["reason"], "message": entry.get("message", "")}
        if generation is not None:
            entered["observedGeneration"] = generation
        entered["lastTransitionTime"] = since
        if place is None:
            places[type] = len(conditions)
            conditions.append(entered)
        else:
            conditions[place] = entered
    return conditions


def find(conditions: Iterable[Mapping[str, Any]] | None, type: str) -> Mapping[str, Any] | None:
    """Returns the condition of a type, or None."""
    return next((condition for condition in conditions or () if condition.get("type") == type), None)


def is_true(conditions: Iterable[Mapping[str, Any]] | None, type: str) -> bool:
    """Whether a condition exists and is true."""
    found = find(conditions, type)
    return found is not None and found.get("status") == "True"


def removed(conditions: Iterable[Mapping[str, Any]] | None, type: str) -> list[Object]:
    """Returns a list without the condition of a type. The other conditions keep their order."""
    return [dict(condition) for condition in conditions or () if condition.get("type") != type]
