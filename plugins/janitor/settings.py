"""The operator's configuration, and its schema. Pure: nothing here calls the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lifetimes import TTL_PATTERN
from rules import ALL, Rule, plural

_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 1}}
_KINDS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}},
        "additionalProperties": False,
    },
}
_RULE = {
    "type": "object",
    "required": ["id", "resources", "jmespath", "ttl"],
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        "resources": {**_TEXTS, "minItems": 1},
        "jmespath": {"type": "string", "minLength": 1},
        "ttl": {"type": "string", "pattern": TTL_PATTERN},
    },
    "additionalProperties": False,
}
#: The schema that the host checks a configuration against.
SCHEMA = {
    "type": "object",
    "properties": {
        "kinds": {**_KINDS, "description": "Namespaced kinds, and Namespace, whose annotated objects are deleted"},
        "ruleKinds": {**_KINDS, "description": "Kinds that the rules are about"},
        "rules": {"type": "array", "items": _RULE},
        "plurals": {
            "type": "object", "additionalProperties": {"type": "string", "minLength": 1},
            "description": "The plurals of kinds in ruleKinds that do not follow from the kind, such as {MongoDB: mongodb}",
        },
        "includeNamespaces": {**_TEXTS, "description": "Only objects in these namespaces; by default in all"},
        "excludeNamespaces": {**_TEXTS, "description": "No object in these namespaces; by default kube-system"},
        "deploymentTimeAnnotation": {"type": "string", "minLength": 1},
        "deleteNotificationSeconds": {"type": "integer", "minimum": 1, "maximum": 31_536_000},
        "dryRun": {"type": "boolean"},
    },
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Settings:
    """The configuration, with its defaults."""

    include_namespaces: frozenset[str] = frozenset()
    exclude_namespaces: frozenset[str] = frozenset({"kube-system"})
    #: The annotation whose time takes the place of the creation's.
    time_annotation: str | None = None
    #: The time between the Event that warns of a deletion and the deletion. None: no such Event.
    notification: int | None = None
    dry_run: bool = False
    rules: tuple[Rule, ...] = ()
    #: The plurals of kinds that do not follow from the kind.
    plurals: Mapping[str, str] = field(default_factory=dict)
    #: Invalid rules, for people. If there is one, no rule counts: it might be meant to keep an object from a later one.
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Settings:
        """Reads a configuration that is valid by the schema."""
        rules: list[Rule] = []
        problems: list[str] = []
        plurals = document.get("plurals", {})
        known = {ALL, *(_plural_of(it["kind"], plurals) for it in document.get("ruleKinds", ()))}
        for rule in document.get("rules", ()):
            try:
                rules.append(Rule.of(rule))
            except ValueError as error:
                problems.append(str(error))
            problems += [_unknown(rule["id"], resource) for resource in rule["resources"] if resource not in known]
        return cls(
            frozenset(document.get("includeNamespaces", ())),
            frozenset(document.get("excludeNamespaces", ("kube-system",))),
            document.get("deploymentTimeAnnotation"),
            document.get("deleteNotificationSeconds"),
            document.get("dryRun", False),
            () if problems else tuple(rules),
            plurals,
            tuple(problems),
        )

    def plural_of(self, kind: str) -> str:
        """The resource of a kind, as rules name it."""
        return _plural_of(kind, self.plurals)

    def covers(self, obj: Mapping[str, Any]) -> bool:
        """Whether the janitor may delete an object, by its namespace. A Namespace counts as inside itself. Other objects
        without a namespace are never covered: no setting would limit which of them are deleted."""
        namespace = namespace_of(obj)
        if namespace is None:
            return False
        included = not self.include_namespaces or namespace in self.include_namespaces
        return included and namespace not in self.exclude_namespaces


def _plural_of(kind: str, plurals: Mapping[str, str]) -> str:
    return plurals.get(kind) or plural(kind)


def _unknown(rule: str, resource: str) -> str:
    return (
        f"the rule {rule}: {resource!r} is the plural of no kind in ruleKinds: add the kind there, and to `plurals` if its plural "
        "does not follow from it; otherwise take it out of the rule"
    )


def namespace_of(obj: Mapping[str, Any]) -> str | None:
    """The namespace that decides about an object. None: it is cluster-scoped, and not a Namespace."""
    is_namespace = (obj["apiVersion"], obj["kind"]) == ("v1", "Namespace")
    found: str | None = obj["metadata"].get("name" if is_namespace else "namespace")
    return found
