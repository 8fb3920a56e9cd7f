"""Parts of a manifest that have one of several forms, which class methods create. Plugins import them from `manifest`."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from typing import Any, Literal

from ._objects import Object
from ._text import encode


class Tagged:
    """One of several forms, created by a class method."""

    def __init__(self, type: str, **fields: Any) -> None:
        self._document = {"type": type, **fields}

    def document(self) -> Object:
        """The form as JSON."""
        return dict(self._document)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._document == other.__dict__["_document"]

    def __hash__(self) -> int:
        return hash((type(self), encode(self._document)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._document!r})"


def _pointers(pointers: tuple[str, ...]) -> list[str]:
    if not pointers or not all(isinstance(pointer, str) and pointer.startswith("/") for pointer in pointers):
        raise ValueError(f"fields are given as JSON pointers, such as /spec/image, and not as {pointers!r}")
    return list(pointers)


class Projection(Tagged):
    """How much of an object the cache keeps."""

    @classmethod
    def full(cls) -> Projection:
        """All but `managedFields`, which is the default."""
        return cls("full")

    @classmethod
    def metadata(cls) -> Projection:
        """The object's identity and its metadata."""
        return cls("metadata")

    @classmethod
    def fields(cls, *pointers: str) -> Projection:
        """The metadata, and the values at these JSON pointers. In a pointer, `*` stands for each element of a list."""
        return cls("fields", pointers=_pointers(pointers))

    @classmethod
    def digest(cls, *pointers: str) -> Projection:
        """The metadata, and in the field `digest` a digest of the values at these JSON pointers, which are not kept themselves. With
        the predicate `fields("/digest")`, only a change of the values counts."""
        return cls("digest", pointers=_pointers(pointers))


class Where:
    """A condition on an annotation or a field, which the host evaluates: `Where.annotation("a").is_("true")`."""

    def __init__(self, **members: Any) -> None:
        self._document = members

    @classmethod
    def annotation(cls, key: str) -> WhereSubject:
        """Starts a condition on the annotation with this key. Annotations are texts."""
        return WhereSubject("annotation", key)

    @classmethod
    def field(cls, pointer: str) -> WhereSubject:
        """Starts a condition on the values at a JSON pointer. If it contains a `*`, which stands for each element of a
        list, one matching value is enough."""
        return WhereSubject("field", _pointers((pointer,))[0])

    @classmethod
    def any(cls, *conditions: Where) -> Where:
        """At least one of these conditions holds. The conditions must not be created by `any` themselves."""
        return cls(any=[condition.document() for condition in conditions])

    def document(self) -> Object:
        """The condition as JSON."""
        return dict(self._document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Where) and self._document == other._document

    def __hash__(self) -> int:
        return hash(encode(self._document))

    def __repr__(self) -> str:
        return f"Where({self._document!r})"


class WhereSubject:
    """The annotation or field of a condition. A method states the condition's requirement."""

    def __init__(self, name: str, value: str) -> None:
        self._members = {name: value}

    def is_(self, value: str | float | bool) -> Where:
        """The value is this one."""
        return Where(**self._members, **{"is": value})

    def in_(self, *values: str | float | bool) -> Where:
        """The value is one of these."""
        return Where(**self._members, **{"in": list(values)})

    def not_in(self, *values: str | float | bool) -> Where:
        """There is no value, or it is another than these."""
        return Where(**self._members, notIn=list(values))

    def exists(self) -> Where:
        """There is a value other than null."""
        return Where(**self._members, exists=True)

    def absent(self) -> Where:
        """There is no value, or it is null."""
        return Where(**self._members, exists=False)


class Predicate(Tagged):
    """Accepts some updates of an object. Creations, deletions, and the beginning of a deletion always count."""

    @classmethod
    def generation(cls) -> Predicate:
        """Accepts a change of the desired state, if the kind has a generation."""
        return cls("generation")

    @classmethod
    def labels(cls) -> Predicate:
        """Accepts a change of a label."""
        return cls("labels")

    @classmethod
    def annotations(cls) -> Predicate:
        """Accepts a change of an annotation."""
        return cls("annotations")

    @classmethod
    def fields(cls, *pointers: str) -> Predicate:
        """Accepts a change of a value at one of these JSON pointers. In a pointer, `*` stands for each element of a
        list."""
        return cls("fields", pointers=_pointers(pointers))

    @classmethod
    def not_(cls, predicate: Predicate) -> Predicate:
        """Accepts the updates that the predicate rejects."""
        return cls("not", predicate=predicate.document())

    @classmethod
    def and_(cls, *predicates: Predicate) -> Predicate:
        """Accepts the updates that all predicates, at least one, accept."""
        return cls("and", predicates=[predicate.document() for predicate in predicates])


def _reference(base: str, namespace: str | None, name: str) -> dict[str, str]:
    """The members of a reference path. Members that are None or empty are left out."""
    members = {"base": base or None, "namespace": namespace, "name": name}
    return {member: _pointers((pointer,))[0] for member, pointer in members.items() if pointer is not None}


class Mapping(Tagged):
    """How a changed object maps to the primaries that run. On an update, both the old and the new object count."""

    @classmethod
    def owner(cls) -> Mapping:
        """The primary that controls the object."""
        return cls("owner")

    @classmethod
    def any_owner(cls) -> Mapping:
        """Each primary that owns the object, whether it is its controller or not."""
        return cls("anyOwner")

    @classmethod
    def label(cls, key: str) -> Mapping:
        """The primary that a label names."""
        return cls("label", key=key)

    @classmethod
    def annotation(cls, key: str) -> Mapping:
        """The primary that an annotation names."""
        return cls("annotation", key=key)

    @classmethod
    def field(cls, pointer: str) -> Mapping:
        """The primary that the value at a JSON pointer names. If the pointer contains a `*`, every primary that the
        matching values name."""
        return cls("field", pointer=_pointers((pointer,))[0])

    @classmethod
    def reference(cls, name: str, namespace: str | None = None, base: str = "") -> Mapping:
        """The primaries that references name, with the namespace and the name in two fields.

        `base` leads to the references, such as `/spec/refs/*`; without it the object itself is the reference. `name`
        and `namespace` are JSON pointers below it. If the namespace is missing, the reference is to the object's own
        namespace.

        """
        return cls("reference", **_reference(base, namespace, name))

    @classmethod
    def referenced_by(cls, index: str) -> Mapping:
        """Every primary whose index contains the object's name, or its namespace and name. The primary's watch declares
        the index."""
        return cls("referencedBy", index=index)

    @classmethod
    def selected_by(cls, index: str) -> Mapping:
        """Every primary whose selector matches the object's labels. The primary's watch declares the index of
        selectors."""
        return cls("selectedBy", index=index)

    @classmethod
    def same_name(cls) -> Mapping:
        """The primary with the object's own name."""
        return cls("sameName")

    @classmethod
    def none(cls) -> Mapping:
        """No primary: the plugin only reads the objects."""
        return cls("none")

    @classmethod
    def all(cls) -> Mapping:
        """Every primary, at low priority."""
        return cls("all")

    @classmethod
    def mapper(cls) -> Mapping:
        """The primaries that the reconciler's own `map` names: see `windlass.reconciler`. The watch needs a name."""
        return cls("mapper")

    @classmethod
    def customize(cls) -> Mapping:
        """The parents to which the composer's own `customize` relates the object: see `windlass.composer`. The watch needs a name."""
        return cls("customize")


class Index(Tagged):
    """A way to find objects by a value in them, with `windlass.cache.list` or `Mapping.referenced_by`."""

    def __init__(self, name: str, source: MappingType[str, str]) -> None:
        self._document = {"name": name, "source": dict(source)}

    @classmethod
    def field(cls, name: str, pointer: str) -> Index:
        """Indexes the text at a JSON pointer, or each element of a list of texts. In the pointer, `*` stands for each
        element of a list."""
        return cls(name, {"type": "field", "pointer": _pointers((pointer,))[0]})

    @classmethod
    def label(cls, name: str, key: str) -> Index:
        """Indexes a label."""
        return cls(name, {"type": "label", "key": key})

    @classmethod
    def annotation(cls, name: str, key: str, split: str | None = None) -> Index:
        """Indexes an annotation. With `split`, the separator of an annotation that is a list such as `a, b`, it indexes
        each part."""
        return cls(name, {"type": "annotation", "key": key} | ({} if split is None else {"split": split}))

    @classmethod
    def reference(cls, index: str, name: str, namespace: str | None = None, base: str = "") -> Index:
        """Indexes references with the namespace and the name in two fields, each as `namespace/name`: see
        `Mapping.reference`."""
        return cls(index, {"type": "reference", **_reference(base, namespace, name)})

    @classmethod
    def selector(cls, name: str, pointer: str, form: Literal["labelSelector", "labels", "text"] = "labelSelector") -> Index:
        """Indexes label selectors, for `Mapping.selected_by`. `windlass.cache.list` finds an object by labels that its
        selector matches.

        `form` is `labelSelector` for selectors with `matchLabels` and `matchExpressions`; `labels` for maps of labels,
        as in a Service; `text` for texts such as `app in (web,api)`. An empty map of labels selects nothing. An empty
        selector of the other forms selects everything.

        """
        return cls(name, {"type": "selector", "pointer": _pointers((pointer,))[0], "form": form})
