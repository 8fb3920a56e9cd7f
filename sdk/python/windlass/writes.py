"""Changes to the API. The host resolves the outcome of each change, and holds the key until its caches show it.

Every function but `delete` and `ensure` returns the current object on the server: use it instead of reading the object
again. Some functions have these options:

- `owned` makes the primary the controller of the object;
- `force` (apply only) takes over fields that other managers own;
- `resource_version` is the optimistic lock: the write fails with `Reason.CONFLICT` unless the object still has this
  version;
- `subresource` writes to a subresource, such as `status`; `parent` names the object if the body has another kind, such
  as `Eviction`;
- `dry_run` makes the server check the change and respond as if it had made it, without making it;
- `field_validation` sets how the server treats unknown fields: `strict` refuses the object, `warn` and `ignore` drop
  the fields;
- `manager_suffix` uses another field manager: the plugin's, followed by `/` and this suffix of at most 32 lower-case
  letters, digits and dashes. This way two controllers can apply two parts of one object, and neither drops what the
  other has applied;
- `fields` returns only the object's identity and the values at these JSON pointers, which keep their places; an empty
  list returns only its identity.

"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from . import _host, cache
from ._ensure import other_controller, patch_of, version_of
from ._errors import ApiError, Reason
from ._host import Collection, DeleteOptions, Operation, WriteOptions
from ._objects import Object, ObjectRef
from ._text import decode, encode, number

__all__ = [
    "Effect", "Ensured", "FieldValidation", "Operation", "PatchType", "Propagation",
    "apply", "apply_status", "batch", "create", "delete", "delete_collection", "ensure", "evict", "op_apply", "op_create", "op_delete",
    "op_patch", "op_update", "patch", "scale", "update",
]  # fmt: skip

Effect = Literal["unchanged", "created", "patched"]
FieldValidation = Literal["strict", "warn", "ignore"]
PatchType = Literal["merge", "json", "strategic"]
Propagation = Literal["background", "foreground", "orphan"]


def apply(
    obj: Mapping[str, Any],
    *,
    owned: bool = False,
    force: bool = False,
    subresource: str | None = None,
    parent: ObjectRef | None = None,
    resource_version: str | None = None,
    dry_run: bool = False,
    field_validation: FieldValidation = "strict",
    manager_suffix: str | None = None,
    fields: Sequence[str] | None = None,
) -> Object:
    """Applies a set of fields, server-side and as the plugin's field manager. Include only the fields that you want;
    fields of other managers stay."""
    options = WriteOptions(subresource, parent, resource_version, owned, force, dry_run, field_validation, manager_suffix, fields)
    return _written(Operation("apply", encode(obj), options=options))


def create(
    obj: Mapping[str, Any],
    *,
    owned: bool = False,
    subresource: str | None = None,
    parent: ObjectRef | None = None,
    resource_version: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    field_validation: FieldValidation = "strict",
    manager_suffix: str | None = None,
    fields: Sequence[str] | None = None,
) -> Object:
    """Creates an object. `metadata.generateName` is allowed. If the kind is not stored, such as a
    `SubjectAccessReview`, the object needs no name, and the result is the server's response."""
    options = WriteOptions(subresource, parent, resource_version, owned, force, dry_run, field_validation, manager_suffix, fields)
    return _written(Operation("create", encode(obj), options=options))


def update(
    obj: Mapping[str, Any],
    *,
    owned: bool = False,
    subresource: str | None = None,
    parent: ObjectRef | None = None,
    resource_version: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    field_validation: FieldValidation = "strict",
    manager_suffix: str | None = None,
    fields: Sequence[str] | None = None,
) -> Object:
    """Replaces an object. Its `resourceVersion` is the optimistic lock; without it, changes of other clients are lost."""
    options = WriteOptions(subresource, parent, resource_version, owned, force, dry_run, field_validation, manager_suffix, fields)
    return _written(Operation("update", encode(obj), options=options))


def patch(
    target: ObjectRef,
    patch: Mapping[str, Any] | list[dict[str, Any]],
    *,
    patch_type: PatchType = "merge",
    owned: bool = False,
    subresource: str | None = None,
    parent: ObjectRef | None = None,
    resource_version: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    field_validation: FieldValidation = "strict",
    manager_suffix: str | None = None,
    fields: Sequence[str] | None = None,
) -> Object:
    """Changes an object by a JSON merge patch (RFC 7386), a JSON patch (RFC 6902, a list of operations), or, for
    built-in kinds, a strategic merge patch."""
    options = WriteOptions(subresource, parent, resource_version, owned, force, dry_run, field_validation, manager_suffix, fields)
    return _written(Operation("patch", encode(patch), target, patch_type, options))


class Ensured(NamedTuple):
    """The effect of `ensure`, with the object as it is now."""

    object: Object
    effect: Effect
    """`unchanged`: the cache shows the object with all desired fields, and nothing was sent. `created`: the object did
    not exist. `patched`: the object lacked some of the desired fields."""


def ensure(obj: Mapping[str, Any]) -> Ensured:
    """Creates the object if it is not in the cache. Otherwise sends the smallest merge patch that gives the object the
    desired fields, or nothing if it has them already. The kind must be watched.

        deployment, effect = writes.ensure(wanted)

    Prefer `apply`: it also removes fields that the plugin applied before and no longer wants, and it detects another
    writer of the same field. `ensure` does neither. Its advantage is that a create costs the server less than an apply.
    Its rules:

    - A field that `obj` leaves out stays as it is. None removes a field.
    - A list belongs to the plugin as a whole. It is as desired if it has as many elements, and each has the desired
      fields. When a list is written, an element keeps its other fields if the element at the same position has the same
      `name`.
    - A patch that writes a list or removes a field fails with `Reason.CONFLICT` if the object has changed since the
      cache showed it. Do not catch the error, and the host runs the key again on a newer cache.
    - The desired owners and finalizers are added to the existing ones; None instead of a list removes all of them. To
      own the object, give it an `owner_reference` to the controller: if the object has another controller, `ensure`
      then fails with `Reason.ALREADY_EXISTS`. Without such a reference the object is patched, whichever owner it has.
    - `status` is not compared: write it with `apply_status`. The fields of `metadata` that the server sets are not
      compared either. So a `resourceVersion` is no lock, and an object that has one cannot be created.
    - Write values as the server stores them; any other value is sent again at each call. For example, the server stores
      a quantity of `0.5` as `500m`, and drops empty and zero values of built-in kinds such as `nodeSelector: {}`,
      `tolerations: []` and `paused: false`. Webhooks may add elements to lists.

    """
    # JSON has only lists, so tuples become lists.
    desired = decode(encode(obj))
    target = _target_of(desired)
    cached = cache.get(target)
    if cached is None:
        return Ensured(create(desired), "created")
    controller = other_controller(cached, desired)
    if controller is not None:
        message = f"it exists, and {controller} controls it"
        raise ApiError(Reason.ALREADY_EXISTS, message, verb="ensure", resource=target.kind, object=target)
    changes = patch_of(cached, desired)
    if changes is None:
        return Ensured(cached, "unchanged")
    # The patch must not reach a later object of this name, which may have another controller.
    target.uid = cached["metadata"].get("uid")
    return Ensured(patch(target, changes, resource_version=version_of(cached, changes)), "patched")


def _target_of(obj: Object) -> ObjectRef:
    metadata = obj.get("metadata") or {}
    for field, value in (("apiVersion", obj.get("apiVersion")), ("kind", obj.get("kind")), ("metadata.name", metadata.get("name"))):
        if not value:
            raise ValueError(f"the object to write has no {field}")
    return ObjectRef.of(obj)


def delete(
    target: ObjectRef,
    *,
    resource_version: str | None = None,
    propagation: Propagation = "background",
    grace_period_ms: int | None = None,
    dry_run: bool = False,
) -> Object | None:
    """Deletes an object. Returns the object if it still exists, because it waits for finalizers or its grace period.
    None: it is deleted.

    `propagation` sets what happens to the object's dependents: they are deleted after it (`background`), deleted before
    it (`foreground`), or kept (`orphan`).

    """
    text = _host.current.write(op_delete(target, resource_version, propagation, grace_period_ms, dry_run))
    return None if text is None else decode(text)


def delete_collection(
    api_version: str,
    kind: str,
    *,
    namespace: str | None = None,
    label_selector: str | None = None,
    field_selector: str | None = None,
    all: bool = False,
    propagation: Propagation = "background",
    grace_period_ms: int | None = None,
    dry_run: bool = False,
) -> list[ObjectRef] | None:
    """Deletes the objects of a kind for which all conditions hold, with one request. At least one selector is required,
    unless `all` is set. Without a namespace, it deletes in the primary's namespace.

    Returns the objects: each is deleted, or waits for finalizers or its grace period. None: the server does not report
    them. After an error, some may be deleted.

    """
    if grace_period_ms is not None:
        number(grace_period_ms, "grace_period_ms")
    collection = Collection(api_version, kind, namespace, label_selector, field_selector, all)
    return _host.current.delete_collection(collection, DeleteOptions(None, propagation, grace_period_ms, dry_run))


def apply_status(target: ObjectRef, status: Mapping[str, Any]) -> None:
    """Applies the status of an object, with force, because no other client writes it. Call it only if the status has
    changed."""
    metadata: Object = {"name": target.name}
    if target.namespace is not None:
        metadata["namespace"] = target.namespace
    obj = {"apiVersion": target.api_version, "kind": target.kind, "metadata": metadata, "status": status}
    _host.current.write(Operation("apply", encode(obj), options=WriteOptions(subresource="status", force=True)))


def scale(target: ObjectRef, replicas: int) -> Object:
    """Sets the number of replicas of an object of any kind that has a `scale` subresource."""
    return patch(target, {"spec": {"replicas": replicas}}, subresource="scale")


def evict(pod: ObjectRef) -> None:
    """Evicts a Pod: deletes it unless a disruption budget forbids it now, which is an error with
    `Reason.TOO_MANY_REQUESTS`. Evicting a deleted Pod succeeds.

    Set the UID in the reference. Without it the host cannot know which Pod of this name is deleted, and holds the
    primary for a second or two.

    """
    metadata: Object = {"name": pod.name}
    if pod.namespace is not None:
        metadata["namespace"] = pod.namespace
    eviction: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    if pod.uid is not None:
        eviction["deleteOptions"] = {"preconditions": {"uid": pod.uid}}
    parent = ObjectRef(pod.api_version, pod.kind, pod.name, pod.namespace)
    try:
        create(eviction, subresource="eviction", parent=parent)
    except ApiError as error:
        # If the Pod is gone, the error names it. If the server does not serve evictions, the error names no object.
        if error.reason is not Reason.NOT_FOUND or error.object is None:
            raise


def batch(operations: Iterable[Operation]) -> list[Object | ApiError | None]:
    """Runs operations concurrently, in no order, and returns their results in the order of the argument.

    The result of a failed operation is an `ApiError`, so that one failure does not hide the others:

        results = writes.batch(writes.op_create(pod, owned=True) for pod in pods)
        windlass.Failures(results).raise_any()

    The host starts slowly, and speeds up while they succeed. Only a deletion returns None.

    """
    answers = _host.current.batch(list(operations))
    return [decode(answer) if isinstance(answer, str) else answer for answer in answers]


def op_apply(obj: Mapping[str, Any], **options: Any) -> Operation:
    """An `apply` for a `batch`, with its options."""
    return Operation("apply", encode(obj), options=_options(options))


def op_create(obj: Mapping[str, Any], **options: Any) -> Operation:
    """A `create` for a `batch`, with its options."""
    return Operation("create", encode(obj), options=_options(options))


def op_update(obj: Mapping[str, Any], **options: Any) -> Operation:
    """An `update` for a `batch`, with its options."""
    return Operation("update", encode(obj), options=_options(options))


def op_patch(
    target: ObjectRef,
    patch: Mapping[str, Any] | list[dict[str, Any]],
    *,
    patch_type: PatchType = "merge",
    **options: Any,
) -> Operation:
    """A `patch` for a `batch`, with its options."""
    return Operation("patch", encode(patch), target, patch_type, _options(options))


def op_delete(
    target: ObjectRef,
    resource_version: str | None = None,
    propagation: Propagation = "background",
    grace_period_ms: int | None = None,
    dry_run: bool = False,
) -> Operation:
    """A `delete` for a `batch`, with its options."""
    if grace_period_ms is not None:
        number(grace_period_ms, "grace_period_ms")
    deletion = DeleteOptions(resource_version, propagation, grace_period_ms, dry_run)
    return Operation("delete", target=target, deletion=deletion)


def _options(options: dict[str, Any]) -> WriteOptions:
    return WriteOptions(**options)


def _written(operation: Operation) -> Object:
    text = _host.current.write(operation)
    assert text is not None, "only a deletion answers nothing"
    written: Object = decode(text)
    return written
