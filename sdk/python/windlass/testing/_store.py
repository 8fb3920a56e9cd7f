"""The stored objects, and the effects of writes. It is not an API server: see the package."""

from __future__ import annotations

import copy
from typing import Any

from .._errors import ApiError, Reason
from .._host import Operation, Query, WriteOptions
from .._objects import Object, ObjectRef, controller_of, is_controlled_by, owner_reference
from .._text import encode
from ..clock import Timestamp
from ._definitions import Definitions
from ._forms import applied, json_patched, merge_patched, selected

Key = tuple[str, str, str | None, str]


class Store:
    """The part of a `Host` that stands in for the API server."""

    def __init__(self) -> None:
        #: The objects, by apiVersion, kind, namespace and name.
        self.objects: dict[Key, Object] = {}
        #: The time that `windlass.clock.now` returns. It does not advance.
        self.clock = Timestamp(1_795_258_125, 0)
        #: The object that is reconciled. It becomes the controller of objects written with `owned`.
        self.primary: Object | None = None
        self._version = 0
        self._definitions = Definitions()

    def _error(self, reason: Reason, message: str, verb: str, target: ObjectRef) -> ApiError:
        return ApiError(reason, message, verb=verb, resource=target.kind.lower() + "s", object=target)

    def _store(self, obj: Object) -> Object:
        self._definitions.fill(obj)
        metadata = obj["metadata"]
        self._version += 1
        key = (obj["apiVersion"], obj["kind"], metadata.get("namespace"), metadata["name"])
        known = self.objects.get(key)
        new = f"uid-{self._version}"
        metadata.setdefault("uid", new if known is None else known["metadata"].get("uid", new))
        metadata.setdefault("resourceVersion", str(self._version))
        metadata.setdefault("generation", 1)
        self.objects[key] = obj
        return obj

    def _admitted(self, obj: Any, verb: str, target: ObjectRef, options: WriteOptions) -> Object:
        """Returns a copy of an object with its defaults. Refuses an object that does not fit its definition."""
        admitted: Object = copy.deepcopy(obj)
        self._definitions.fill(admitted)
        misfits = self._definitions.misfits(admitted, options.subresource, strict=options.field_validation == "strict")
        if misfits:
            raise self._error(Reason.INVALID, f"the object does not fit its definition: {'; '.join(misfits)}", verb, target)
        return admitted

    def _write(self, operation: Operation, target: ObjectRef, body: Any, known: Object | None) -> Object:
        verb, options = operation.verb, operation.options or WriteOptions()
        if options.subresource is not None and options.parent is not None:
            return dict(body)  # such as an eviction: the response is the object sent
        if known is None and (verb in ("update", "patch") or options.subresource is not None):
            raise self._error(Reason.NOT_FOUND, "the object does not exist", verb, target)
        if known is not None and verb == "create":
            raise self._error(Reason.ALREADY_EXISTS, "the object exists", verb, target)
        if verb == "patch":
            new = json_patched(known, body) if operation.patch_type == "json" else merge_patched(known, body)
        elif verb == "apply" and known is not None:
            new = applied(known, body)
        else:
            new = copy.deepcopy(body)
            if known is not None:
                new["metadata"] = {**{key: known["metadata"][key] for key in ("uid", "generation")}, **new["metadata"]}
        new = self._admitted(new, verb, target, options)
        changed = known is None or new != known
        if options.dry_run:
            return dict(new)
        if "name" not in new["metadata"]:
            new["metadata"]["name"] = f"{new['metadata']['generateName']}{self._version + 1}"
        if changed:
            new["metadata"].pop("resourceVersion", None)
            if known is not None and new.get("spec") != known.get("spec"):
                new["metadata"]["generation"] = known["metadata"]["generation"] + 1
        stored = self._store(new)
        if options.owned:
            self._own(stored)
        if known is not None and _waits(known) and known["metadata"].get("deletionTimestamp") and not _waits(stored):
            self._drop(key_of(target))
        return stored

    def _delete(self, known: Object | None, target: ObjectRef, operation: Operation) -> str | None:
        if known is None:
            raise self._error(Reason.NOT_FOUND, "the object does not exist", "delete", target)
        dry_run = operation.deletion is not None and operation.deletion.dry_run
        if _waits(known):
            deleted = copy.deepcopy(known) if dry_run else known
            deleted["metadata"]["deletionTimestamp"] = str(self.clock)
            return encode(deleted)
        if not dry_run:
            self._drop(key_of(target), orphans=operation.deletion is not None and operation.deletion.propagation == "orphan")
        return None

    def _drop(self, key: Key, *, orphans: bool = False) -> None:
        """Removes an object, and the objects that it controls, as the garbage collector does."""
        gone = self.objects.pop(key, None)
        if gone is None:
            return
        for owned, obj in list(self.objects.items()):
            if not is_controlled_by(obj, gone):
                continue
            if orphans:
                obj["metadata"]["ownerReferences"].remove(controller_of(obj))
            elif _waits(obj):
                obj["metadata"]["deletionTimestamp"] = str(self.clock)
            else:
                self._drop(owned)

    def _own(self, obj: Object) -> None:
        if self.primary is None:
            raise AssertionError("an owned write needs a primary: call the function by Host.reconcile, or set Host.primary")
        owners = obj["metadata"].setdefault("ownerReferences", [])
        if not is_controlled_by(obj, self.primary):
            owners.append(owner_reference(self.primary))

    def _fits(self, obj: Object, query: Query) -> bool:
        metadata = obj["metadata"]
        return (
            (obj["apiVersion"], obj["kind"]) == (query.api_version, query.kind)
            and query.namespace in (None, metadata.get("namespace"))
            and selected(metadata.get("labels") or {}, query.label_selector or "")
            and (not query.owned or (self.primary is not None and is_controlled_by(obj, self.primary)))
        )


def _waits(obj: Object) -> bool:
    return bool(obj["metadata"].get("finalizers"))


def key_of(target: ObjectRef) -> Key:
    return target.api_version, target.kind, target.namespace, target.name
