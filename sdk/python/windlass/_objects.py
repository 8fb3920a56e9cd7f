"""References to objects, and helpers for objects that are dicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

#: A Kubernetes object as JSON: dicts, lists, texts, numbers, booleans and None.
Object = dict[str, Any]


@dataclass(frozen=True)
class ObjectKind:
    """A kind of object, named as in a manifest: `apps/v1` and `Deployment`."""

    api_version: str
    kind: str


# The class is not frozen, because creating an instance would take three times as long. But it is hashable, so treat it
# as a value.
@dataclass(slots=True, unsafe_hash=True)
class ObjectRef:
    """A reference to one object. With a `uid` it does not match another object of the same name: then a read finds
    nothing and a write fails with `Reason.CONFLICT`."""

    api_version: str
    kind: str
    name: str
    namespace: str | None = None
    uid: str | None = None

    # This is not a field. The bindings use a reference unchanged, and read this attribute. There is only one cluster.
    cluster = None

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> ObjectRef:
        """The reference to an object, from its `apiVersion`, `kind` and `metadata`, without its UID: see `with_uid`."""
        metadata = obj["metadata"]
        return cls(obj["apiVersion"], obj["kind"], metadata["name"], metadata.get("namespace"))

    def with_uid(self, uid: str) -> ObjectRef:
        """The same reference, restricted to the object with this UID."""
        return replace(self, uid=uid)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace is not None else f"{self.kind} {self.name}"


def sibling(obj: Mapping[str, Any], api_version: str, kind: str, name: str | None = None) -> ObjectRef:
    """A reference to an object of another kind in the same namespace. The default for `name` is the object's name."""
    metadata = obj["metadata"]
    return ObjectRef(api_version, kind, metadata["name"] if name is None else name, metadata.get("namespace"))


def owner_reference(owner: Mapping[str, Any]) -> Object:
    """The entry for `metadata.ownerReferences` that makes `owner` the controller of an object.

    Use it for owners other than the primary. For the primary, the usual way is to write with `owned=True`.

    """
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: Mapping[str, Any]) -> Object | None:
    """The owner reference of the object's controller, or None."""
    owners = (obj.get("metadata") or {}).get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller") is True), None)


def is_controlled_by(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether `owner` is the controller of an object. The UIDs are compared."""
    controller = controller_of(obj)
    uid = (owner.get("metadata") or {}).get("uid")
    return uid is not None and controller is not None and controller.get("uid") == uid


def has_fields(actual: Any, wanted: Any) -> bool:
    """Whether an object has every wanted field with the wanted value.

    Fields that the server or other clients have added are ignored, as in an apply. A list must contain each wanted
    element, at any position.

    Do not use it to decide whether to apply: it does not notice a field that is no longer wanted, or a missing owner.
    The host itself skips an apply that would change nothing.

    """
    # Plain loops: `all` and generators cost three times as much, and this runs at each reconcile.
    if isinstance(wanted, dict):
        if not isinstance(actual, dict):
            return False
        for key, value in wanted.items():
            if key not in actual or not has_fields(actual[key], value):
                return False
        return True
    if isinstance(wanted, list):
        if not isinstance(actual, list):
            return False
        for value in wanted:
            for element in actual:
                if has_fields(element, value):
                    break
            else:
                return False
        return True
    # JSON distinguishes true from 1, Python's `==` does not.
    return isinstance(actual, bool) == isinstance(wanted, bool) and bool(actual == wanted)
