"""What brings the fields of an object about, for `writes.ensure`. Nothing here asks the host."""

from __future__ import annotations

from typing import Any

from ._objects import Object, controller_of

#: The fields of `metadata` that only the server sets.
_SET_BY_SERVER = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields",
    "selfLink",
)  # fmt: skip

#: There is nothing, where None would be a null.
_NOTHING: Any = object()


def other_controller(cached: Object, desired: Object) -> str | None:
    """The controller of `cached`, if `desired` names another one."""
    has, wants = controller_of(cached), controller_of(desired)
    if has is None or wants is None or has.get("uid") == wants.get("uid"):
        return None
    return f"{has.get('kind', '')} {has.get('name', '')}"


def version_of(cached: Object, patch: Object) -> str | None:
    """The version that was compared, if the patch must not reach a later one."""
    if not _may_undo(patch):
        return None
    version: str | None = (cached.get("metadata") or {}).get("resourceVersion")
    return version


def _may_undo(patch: Any) -> bool:
    """Whether a merge patch may undo what others have written since: it replaces lists whole, and a null removes all that is in its
    place."""
    if isinstance(patch, dict):
        return any(_may_undo(value) for value in patch.values())
    return patch is None or isinstance(patch, list)


def patch_of(cached: Object, desired: Object) -> Object | None:
    """The merge patch that brings the fields of `desired` about. None: they are there."""
    wanted = {field: value for field, value in desired.items() if field not in ("apiVersion", "kind", "status")}
    metadata = wanted.get("metadata")
    if isinstance(metadata, dict):
        # The server stores no empty map or list in metadata.
        metadata = {field: value for field, value in metadata.items() if field not in _SET_BY_SERVER and value not in ({}, [])}
        for name in ("ownerReferences", "finalizers"):
            has, wants = (cached.get("metadata") or {}).get(name), metadata.get(name)
            if isinstance(has, list) and isinstance(wants, list):
                metadata[name] = _joined(has, wants)
        wanted["metadata"] = metadata
    patch = _difference(cached, wanted)
    return None if patch is _NOTHING else patch


def _joined(has: list[Any], wanted: list[Any]) -> list[Any]:
    """`has`, in which the owners or finalizers of `wanted` replace those that are the same, or are added."""
    joined = list(has)
    for element in wanted:
        place = next((place for place, known in enumerate(joined) if _is_same(known, element)), None)
        if place is None:
            joined.append(element)
        else:
            joined[place] = _overlaid(joined[place], element)
    return joined


def _is_same(known: Any, wanted: Any) -> bool:
    """Whether two owners are one, or two finalizers."""
    if isinstance(known, dict):
        return isinstance(wanted, dict) and known.get("uid") == wanted.get("uid")
    return bool(known == wanted)


def _difference(has: Any, wanted: Any) -> Any:
    """What a merge patch must have to make `wanted` of `has`, which is None if there is nothing."""
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
    # Of what a merge patch puts in the place of something else, it removes the nulls.
    return wanted


def _shows(has: Any, wanted: Any) -> bool:
    """Whether `has`, which is None if there is nothing, has all that is `wanted`. None, and a dict of nothing but None, want
    nothing. An empty dict or list is wanted for itself, as `emptyDir: {}` is."""
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
    # JSON tells true from 1, which Python's `==` does not.
    return isinstance(has, bool) == isinstance(wanted, bool) and bool(has == wanted)


def _are_named_alike(has: Any, wanted: Any) -> bool:
    both = isinstance(has, dict) and isinstance(wanted, dict)
    return both and isinstance(has.get("name"), str) and has["name"] == wanted.get("name")


def _overlaid(has: Any, wanted: Any) -> Any:
    """`has` with the `wanted` fields, as a merge patch would leave it."""
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
    """A value without the fields of objects that are null. Nothing, if it is null itself."""
    if value is None:
        return _NOTHING
    if isinstance(value, dict):
        kept = {field: _without_nulls(inner) for field, inner in value.items()}
        return {field: inner for field, inner in kept.items() if inner is not _NOTHING}
    if isinstance(value, list):
        return [_element(element) for element in value]
    return value


def _element(value: Any) -> Any:
    """The same of an element of a list, which may be null."""
    return None if value is None else _without_nulls(value)
