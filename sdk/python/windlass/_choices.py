"""The parts of a manifest that have one of several forms, created by class methods. Plugins import them from `manifest`."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from typing import Any, Literal

from ._objects import Object
from ._text import encode


class Tagged:
    """One of several forms, made by the class methods of its kind."""

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
        """All but `managedFields`: the default."""
        return cls("full")

    @classmethod
    def metadata(cls) -> Projection:
        """The object's identity and its metadata."""
        return cls("metadata")

    @classmethod
    def fields(cls, *pointers: str) -> Projection:
        """The metadata, and the values at these JSON pointers; `*` in one stands for each element of a list."""
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
        """Of the annotation with this key. Annotations are texts."""
        return WhereSubject("annotation", key)

    @classmethod
    def field(cls, pointer: str) -> WhereSubject:
        """Of the values at a JSON pointer. With a `*`, which stands for each element of a list, one that fits is enough."""
        return WhereSubject("field", _pointers((pointer,))[0])

    @classmethod
    def any(cls, *conditions: Where) -> Where:
        """At least one of these holds. None of them may be an `any` itself."""
        return cls(any=[condition.document() for condition in conditions])

    def document(self) -> Object:
        """The condition as JSON has it."""
        return dict(self._document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Where) and self._document == other._document

    def __hash__(self) -> int:
        return hash(encode(self._document))

    def __repr__(self) -> str:
        return f"Where({self._document!r})"


class WhereSubject:
    """The annotation or field of a condition, which says what it has to be."""

    def __init__(self, name: str, value: str) -> None:
        self._members = {name: value}

    def is_(self, value: str | float | bool) -> Where:
        """It has this value."""
        return Where(**self._members, **{"is": value})

    def in_(self, *values: str | float | bool) -> Where:
        """It has one of these values."""
        return Where(**self._members, **{"in": list(values)})

    def not_in(self, *values: str | float | bool) -> Where:
        """It has none of these values, or is absent."""
        return Where(**self._members, notIn=list(values))

    def exists(self) -> Where:
        """It has a value."""
        return Where(**self._members, exists=True)

    def absent(self) -> Where:
        """It has no value, or null."""
        return Where(**self._members, exists=False)


class Predicate(Tagged):
    """An update of an object that counts. Creations, deletions, and the beginning of a deletion always count."""

    @classmethod
    def generation(cls) -> Predicate:
        """The desired state has changed, if the kind has a generation."""
        return cls("generation")

    @classmethod
    def labels(cls) -> Predicate:
        """A label has changed."""
        return cls("labels")

    @classmethod
    def annotations(cls) -> Predicate:
        """An annotation has changed."""
        return cls("annotations")

    @classmethod
    def fields(cls, *pointers: str) -> Predicate:
        """A value at one of these JSON pointers has changed; `*` in one stands for each element of a list."""
        return cls("fields", pointers=_pointers(pointers))

    @classmethod
    def not_(cls, predicate: Predicate) -> Predicate:
        """The update counts unless the other predicate accepts it."""
        return cls("not", predicate=predicate.document())

    @classmethod
    def and_(cls, *predicates: Predicate) -> Predicate:
        """The update counts if all other predicates, at least one, accept it."""
        return cls("and", predicates=[predicate.document() for predicate in predicates])


def _reference(base: str, namespace: str | None, name: str) -> dict[str, str]:
    """Where to find references. Members that are not given are left out."""
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
        """The primary that the value at a JSON pointer names; with a `*` in it, each that it leads to."""
        return cls("field", pointer=_pointers((pointer,))[0])

    @classmethod
    def reference(cls, name: str, namespace: str | None = None, base: str = "") -> Mapping:
        """The primaries that references name, each of which says namespace and name in two fields.

        `base` leads to them, such as `/spec/refs/*`; without it the object itself is the reference. `name` and `namespace` are
        JSON pointers below it. Where there is no namespace, it is the object's own.
        """
        return cls("reference", **_reference(base, namespace, name))

    @classmethod
    def referenced_by(cls, index: str) -> Mapping:
        """Every primary whose index contains the object's name, or its namespace and name. The primary's watch declares the index."""
        return cls("referencedBy", index=index)

    @classmethod
    def selected_by(cls, index: str) -> Mapping:
        """Every primary with a selector that selects the object's labels. The primary's watch declares the index, of selectors."""
        return cls("selectedBy", index=index)

    @classmethod
    def same_name(cls) -> Mapping:
        """The primary with the object's own name."""
        return cls("sameName")

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
        """By the text at a JSON pointer, or each element of a list of texts. With a `*` in it, by all that it leads to."""
        return cls(name, {"type": "field", "pointer": _pointers((pointer,))[0]})

    @classmethod
    def label(cls, name: str, key: str) -> Index:
        """By a label."""
        return cls(name, {"type": "label", "key": key})

    @classmethod
    def annotation(cls, name: str, key: str, split: str | None = None) -> Index:
        """By an annotation. With `split`, the character between the parts of a list such as `a, b`, by each part."""
        return cls(name, {"type": "annotation", "key": key} | ({} if split is None else {"split": split}))

    @classmethod
    def reference(cls, index: str, name: str, namespace: str | None = None, base: str = "") -> Index:
        """By references that say namespace and name in two fields, each as `namespace/name`: see `Mapping.reference`."""
        return cls(index, {"type": "reference", **_reference(base, namespace, name)})

    @classmethod
    def selector(cls, name: str, pointer: str, form: Literal["labelSelector", "labels", "text"] = "labelSelector") -> Index:
        """By label selectors, for `Mapping.selected_by`. `windlass.cache.list` finds an object by labels that it selects.

        `labelSelector`: with `matchLabels` and `matchExpressions`; an empty one selects everything. `labels`: a map of labels, as
        a Service has one; an empty one selects nothing. `text`: such as `app in (web,api)`; an empty one selects everything.
        """
        return cls(name, {"type": "selector", "pointer": _pointers((pointer,))[0], "form": form})
