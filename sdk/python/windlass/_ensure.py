"""Computes the patch that gives an object the desired fields, for `writes.ensure`. This module does not call the host."""

from __future__ import annotations

from typing import Any

from ._objects import Object, controller_of

#: The fields of `metadata` that only the server sets.
_SET_BY_SERVER = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields",
    "selfLink",
)  # fmt: skip

#: Marks a missing value, as None stands for a null.
_NOTHING: Any = object()


def other_controller(cached: Object, desired: Object) -> str | None:
    """The controller of `cached`, if `desired` has another one."""
    has, wants = controller_of(cached), controller_of(desired)
    if has is None or wants is None or has.get("uid") == wants.get("uid"):
        return None
    return f"{has.get('kind', '')} {has.get('name', '')}"


def version_of(cached: Object, patch: Object) -> str | None:
    """The version of `cached`, if the patch must not be applied to a later one."""
    if not _may_undo(patch):
        return None
    version: str | None = (cached.get("metadata") or {}).get("resourceVersion")
    return version


def _may_undo(patch: Any) -> bool:
    """Whether a merge patch may undo newer writes of other clients: it replaces whole lists, and a null removes a field."""
    if isinstance(patch, dict):
        return any(_may_undo(value) for value in patch.values())
    return patch is None or isinstance(patch, list)


def patch_of(cached: Object, desired: Object) -> Object | None:
    """The merge patch that gives `cached` the fields of `desired`. None: it has them."""
    wanted = {field: value for field, value in desired.items() if field not in ("apiVersion", "kind", "status")}
    metadata = wanted.get("metadata")
    if isinstance(metadata, dict):
        # The server drops empty maps and lists in metadata.
        metadata = {field: value for field, value in metadata.items() if field not in _SET_BY_SERVER and value not in ({}, [])}
        for name in ("ownerReferences", "finalizers"):
            has, wants = (cached.get("metadata") or {}).get(name), metadata.get(name)
            if isinstance(has, list) and isinstance(wants, list):
                metadata[name] = _joined(has, wants)
        wanted["metadata"] = metadata
    patch = _difference(cached, wanted)
    return None if patch is _NOTHING else patch


def _joined(has: list[Any], wanted: list[Any]) -> list[Any]:
    """Returns `has` with the owners or finalizers of `wanted`. An entry replaces the same entry, or is appended."""
    joined = list(has)
    for element in wanted:
        place = next((place for place, known in enumerate(joined) if _is_same(known, element)), None)
        if place is None:
            joined.append(element)
        else:
            joined[place] = _overlaid(joined[place], element)
    return joined


def _is_same(known: Any, wanted: Any) -> bool:
    """Whether two entries are the same owner, or the same finalizer."""
    if isinstance(known, dict):
        return isinstance(wanted, dict) and known.get("uid") == wanted.get("uid")
    return bool(known == wanted)


def _difference(has: Any, wanted: Any) -> Any:
    """The merge patch that changes `has`, None if missing, into `wanted`."""
    if isinstance(has, dict) and isinstance(wanted, dict):
        differing = {}
        for field, value in wanted.items():
            change = _difference(has.get(field), value)
            if change is not _NOTHING:
                differing[field] = change
        return differing or _NOTHING
    if _shows(has, wanted):
        return _NOTHING
    if has is None:
        return _without_nulls(wanted)
    if isinstance(has, list) and isinstance(wanted, list):
        return [
            _overlaid(has[place], element) if place < len(has) and _are_named_alike(has[place], element) else _element(element)
            for place, element in enumerate(wanted)
        ]
    # Nulls may stay in this value: a merge patch drops them when it replaces a value of another type.
    return wanted


def _shows(has: Any, wanted: Any) -> bool:
    """Whether `has`, None if missing, has all `wanted` fields. A missing value is enough for a wanted None, and for a
    wanted dict that contains only None. It is not enough for an empty dict or list, such as `emptyDir: {}`."""
    # Plain loops: `all` and generators cost three times as much, and this runs at each reconcile.
    if isinstance(wanted, dict):
        if has is None and wanted:
            has = {}
        if not isinstance(has, dict):
            return False
        for field, value in wanted.items():
            if not _shows(has.get(field), value):
                return False
        return True
    if isinstance(wanted, list):
        if not isinstance(has, list) or len(has) != len(wanted):
            return False
        for known, value in zip(has, wanted):
            if not _shows(known, value):
                return False
        return True
    # JSON distinguishes true from 1, Python's `==` does not.
    return isinstance(has, bool) == isinstance(wanted, bool) and bool(has == wanted)


def _are_named_alike(has: Any, wanted: Any) -> bool:
    both = isinstance(has, dict) and isinstance(wanted, dict)
    return both and isinstance(has.get("name"), str) and has["name"] == wanted.get("name")


def _overlaid(has: Any, wanted: Any) -> Any:
    """Returns `has` with the `wanted` fields, as a merge patch would leave it."""
    if not isinstance(has, dict) or not isinstance(wanted, dict):
        return _element(wanted)
    overlaid = dict(has)
    for field, value in wanted.items():
        if value is None:
            overlaid.pop(field, None)
        elif not _shows(has.get(field), value):
            overlaid[field] = _overlaid(has.get(field), value)
    return overlaid


def _without_nulls(value: Any) -> Any:
    """Returns a value without the nulls in its objects. If the value itself is null, it returns the mark for a missing
    value."""
    if value is None:
        return _NOTHING
    if isinstance(value, dict):
        kept = {field: _without_nulls(inner) for field, inner in value.items()}
        return {field: inner for field, inner in kept.items() if inner is not _NOTHING}
    if isinstance(value, list):
        return [_element(element) for element in value]
    return value


def _element(value: Any) -> Any:
    """Like `_without_nulls`, for an element of a list, which may be null."""
    return None if value is None else _without_nulls(value)
