"""Selectors, projections and patches, as a server applies them. This module does not access the stored objects."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._errors import ApiError, Reason
from .._host import ListedKind, ServedKind
from .._objects import Object


def selected(labels: Mapping[str, str], selector: str) -> bool:
    """Whether labels match a selector of equality and existence: `a=b,c!=d,e,!f`."""
    for term in filter(None, (term.strip() for term in selector.split(","))):
        if "!=" in term:
            key, value = term.split("!=", 1)
            fits = labels.get(key) != value
        elif "=" in term:
            key, value = term.replace("==", "=").split("=", 1)
            fits = labels.get(key) == value
        elif " " in term:
            raise NotImplementedError(f"windlass.testing does not support sets in selectors: {term!r}")
        else:
            fits = (term[1:] not in labels) if term.startswith("!") else term in labels
        if not fits:
            return False
    return True


def viewed(obj: Object, fields: Sequence[str] | None, metadata_only: bool) -> Object:
    """Returns the part of an object that a live read selects."""
    if metadata_only:
        return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": obj["metadata"]}
    return obj if fields is None else projection(obj, fields)


def scale(obj: Object) -> Object:
    """Returns the scale subresource of an object that has replicas."""
    metadata = {key: value for key, value in obj["metadata"].items() if key in ("name", "namespace", "uid", "resourceVersion")}
    replicas = {part: {"replicas": (obj.get(part) or {}).get("replicas", 0)} for part in ("spec", "status")}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, **replicas}


def served_kind(kind: str) -> ServedKind:
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    return ServedKind(f"{kind.lower()}s", True, verbs, ["status"])


def listed_kinds(kinds: Iterable[tuple[str, str]]) -> list[ListedKind]:
    """Returns each kind once, by group and kind. A kind with several versions is listed with the first one."""
    listed: dict[tuple[str, str], ListedKind] = {}
    for api_version, kind in sorted(kinds):
        listed.setdefault((api_version.rpartition("/")[0], kind), ListedKind(api_version, kind, served_kind(kind)))
    return [listed[key] for key in sorted(listed)]


def projection(obj: Object, pointers: Sequence[str]) -> Object:
    """Returns an object's identity and the values at the pointers."""
    metadata = {key: value for key, value in obj["metadata"].items() if key in ("name", "namespace", "uid")}
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


def merge_patched(known: Any, patch: Any) -> Any:
    """Applies a JSON merge patch."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(known) if isinstance(known, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patched(merged.get(key), value)
    return copy.deepcopy(merged)


def applied(known: Any, fields: Any) -> Any:
    """Approximates an apply: maps are merged, lists of named elements are merged by name, and other lists are replaced."""
    if isinstance(known, dict) and isinstance(fields, dict):
        return {**copy.deepcopy(known), **{key: applied(known.get(key), value) for key, value in fields.items()}}
    if isinstance(known, list) and isinstance(fields, list) and fields and all(_has_name(one) for one in [*known, *fields]):
        by_name = {one["name"]: one for one in known}
        for one in fields:
            by_name[one["name"]] = applied(by_name.get(one["name"]), one)
        return copy.deepcopy(list(by_name.values()))
    return copy.deepcopy(fields)


def _has_name(element: Any) -> bool:
    return isinstance(element, dict) and "name" in element


def json_patched(known: Any, operations: list[dict[str, Any]]) -> Any:
    """Applies a JSON patch of `add`, `replace`, `remove` and `test`."""
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
            raise NotImplementedError(f"windlass.testing does not support {op} in a JSON patch")
    return patched
