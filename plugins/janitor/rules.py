"""The operator's rules: which objects get a time to live although they have no annotation. Pure: nothing here calls the
host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from lifetimes import ttl_seconds

#: What a rule may know about a PersistentVolumeClaim, besides the object itself.
CONTEXT = "_context"
_NOT_MOUNTED, _NOT_REFERENCED = "pvc_is_not_mounted", "pvc_is_not_referenced"
#: The members of an object that a cache of its metadata has.
_CACHED = frozenset({"apiVersion", "kind", "metadata"})
#: The fields of the metadata whose changes run an object again.
_CACHED_METADATA = frozenset({
    "annotations", "creationTimestamp", "finalizers", "generation", "labels", "name", "namespace", "ownerReferences", "uid",
})  # fmt: skip
#: The members whose changes run an object with a generation again.
_NOTICED = _CACHED | {"spec"}
#: What stands for all resources in a rule, and for all members of an object.
ALL = "*"
#: What stands for `managedFields`, or for something that contains them.
_HIDDEN = "metadata.managedFields"
#: The nodes of an expression whose first child is about the object, and whose other children are about parts of it.
_STEPS = frozenset({
    "subexpression", "index_expression", "projection", "value_projection", "filter_projection", "flatten", "slice", "pipe",
})  # fmt: skip
#: The nodes all of whose children are about the object.
_JOINTS = frozenset({
    "and_expression", "comparator", "expref", "function_expression", "key_val_pair", "multi_select_dict", "multi_select_list",
    "not_expression", "or_expression",
})  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """A rule whose expression has been compiled."""

    id: str
    #: Plurals such as `deployments`; `*` for all.
    resources: frozenset[str]
    expression: Any
    ttl: str
    #: The members of the object that the expression looks at. `metadata` stands for the fields whose changes are
    #: noticed, and `*` for everything.
    members: frozenset[str]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Rule:
        """Compiles a rule. Raises `ValueError` if its expression is invalid."""
        try:
            expression = jmespath.compile(document["jmespath"])
        except JMESPathError as error:
            raise ValueError(f"the rule {document['id']}: its jmespath is invalid: {error}") from None
        if sees_managed_fields(expression.parsed):
            raise ValueError(
                f"the rule {document['id']}: its jmespath depends on metadata.managedFields, or on all of the metadata or the object. "
                "The host gives no plugin the managedFields, so it could match too much: name other fields"
            )
        return cls(
            document["id"], frozenset(document["resources"]), expression, document["ttl"], members_of(expression.parsed)
        )

    @property
    def seconds(self) -> int | None:
        """The time to live. None: for ever."""
        return ttl_seconds(self.ttl)

    @property
    def is_cached(self) -> bool:
        """Whether the metadata of an object, and the context of a claim, are enough to decide."""
        return self.members <= _CACHED | {CONTEXT}

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether the expression is true of an object, or is a list, an object or a text that is not empty."""
        try:
            value = self.expression.search(obj)
        except JMESPathError:
            return False  # Such as `starts_with` of a missing label.
        return value is True or (isinstance(value, (list, dict, str)) and len(value) > 0)


def plural(kind: str) -> str:
    """The resource of a kind, by the rule that Kubernetes follows for its own kinds."""
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith(("s", "x", "z", "ch", "sh")):
        return name + "es"
    if name.endswith("y") and name[-2:-1] not in tuple("aeiou"):
        return name[:-1] + "ies"
    return name + "s"


def rules_for(rules: Iterable[Rule], resource: str) -> list[Rule]:
    """The rules for objects of a resource, in the operator's order."""
    return [rule for rule in rules if not rule.resources.isdisjoint((resource, ALL))]


def judged(rule: Rule, metadata: Mapping[str, Any]) -> bool | None:
    """Whether a rule matches an object with this metadata. None: that depends on the rest of the object, or on the
    context of the claim."""
    if not rule.is_cached:
        return None
    answers = {rule.matches(it) for it in _with_contexts(metadata)}
    return answers.pop() if len(answers) == 1 else None


def soonest(rules: Sequence[Rule], metadata: Mapping[str, Any]) -> int | None:
    """The shortest time to live, in seconds, that an object with this metadata may have: from its first match by
    metadata, or from a rule before that, which needs the whole object. None: it stays, whatever else is in it."""
    found: list[int | None] = []
    for rule in rules:
        matches = judged(rule, metadata)
        if matches is not False:
            found.append(rule.seconds)
        if matches:
            break
    return min((seconds for seconds in found if seconds is not None), default=None)


def first_match(rules: Iterable[Rule], obj: Mapping[str, Any]) -> Rule | None:
    """The rule that decides about a whole object."""
    return next((rule for rule in rules if rule.matches(obj)), None)


def is_noticed(rules: Iterable[Rule], metadata: Mapping[str, Any]) -> bool:
    """Whether each change of the object that these rules look at runs the object again."""
    has_generation = "generation" in metadata["metadata"]
    return all(judged(rule, metadata) is not None or (has_generation and rule.members <= _NOTICED) for rule in rules)


def members_of(node: Mapping[str, Any], only_truth: bool = True) -> frozenset[str]:
    """The members of the object that an expression looks at, from its syntax tree. `_HIDDEN` stands for what may be
    `managedFields`. `only_truth`: only whether there is a result matters, and not which one."""
    children: Sequence[Any] = node.get("children") or ()
    kind: str = node["type"]
    if kind == "field":
        # Here it is not followed by a field.
        return frozenset({_HIDDEN if _is_metadata(node) and not only_truth else node["value"]})
    if kind == "subexpression" and _is_metadata(children[0]):
        return frozenset({_field_of_metadata(children[1])})
    if kind == "literal":
        return frozenset()
    if (kind == "function_expression" and node["value"] == "keys" and children[0]["type"] == "current") or (
        kind == "value_projection" and children[0]["type"] == "identity" and _first(children[1])["type"] == "field"
    ):
        return frozenset({ALL})
    if kind in _STEPS and children:
        return members_of(children[0], False)
    if kind in _JOINTS:
        of_truth = kind == "not_expression" or (only_truth and kind in ("and_expression", "or_expression"))
        return frozenset().union(*(members_of(child, of_truth) for child in children))
    return frozenset({_HIDDEN})


def _is_metadata(node: Mapping[str, Any]) -> bool:
    return bool(node["type"] == "field" and node["value"] == "metadata")


def _first(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first step of a path such as `finalizers[0]`."""
    while node["type"] in _STEPS and node["children"]:
        node = node["children"][0]
    return node


def _field_of_metadata(node: Mapping[str, Any]) -> str:
    """The member that stands for a field of the metadata."""
    first = _first(node)
    if first["type"] != "field":
        return _HIDDEN
    return "metadata" if first["value"] in _CACHED_METADATA else ALL


def sees_managed_fields(expression: Mapping[str, Any]) -> bool:
    """Whether the result of an expression may depend on the `managedFields`, which no plugin gets."""
    nodes: list[Mapping[str, Any]] = [expression]
    for node in nodes:
        nodes += node.get("children") or ()
    return _HIDDEN in members_of(expression) or any(it["type"] == "field" and it["value"] == "managedFields" for it in nodes)


@dataclass(frozen=True)
class ClaimUser:
    """A kind whose objects may refer to PersistentVolumeClaims."""

    api_version: str
    kind: str
    #: The field that has the spec of a Pod.
    pod: tuple[str, ...]
    #: The field that has templates of claims. Empty: there are none.
    templates: tuple[str, ...] = ()

    @property
    def fields(self) -> list[str]:
        """The fields that refer to claims, as JSON pointers."""
        paths = [(*self.pod, "volumes"), *([self.templates] if self.templates else [])]
        return ["/" + "/".join(path) for path in paths]

    def refers_to(self, claim: str, obj: Mapping[str, Any]) -> bool:
        """Whether an object of this kind refers to a claim of its namespace."""
        if any(_claim_of(volume) == claim for volume in _list(obj, *self.pod, "volumes")):
            return True
        name = obj["metadata"]["name"]
        templates = _list(obj, *self.templates) if self.templates else ()
        return any(_is_claim_of(claim, template["metadata"]["name"], name) for template in templates)


#: Pods mount claims.
POD = ClaimUser("v1", "Pod", ("spec",))
#: The kinds that need a claim also while they have no Pod, such as a CronJob between two runs.
OWNERS_OF_PODS = (
    ClaimUser("apps/v1", "Deployment", ("spec", "template", "spec")),
    ClaimUser("apps/v1", "StatefulSet", ("spec", "template", "spec"), ("spec", "volumeClaimTemplates")),
    ClaimUser("batch/v1", "Job", ("spec", "template", "spec")),
    ClaimUser("batch/v1", "CronJob", ("spec", "jobTemplate", "spec", "template", "spec")),
)

#: Reads the objects of a kind in the namespace of a claim.
UsersReader = Callable[[ClaimUser], Iterable[Mapping[str, Any]]]


def claim_context(claim: str, read: UsersReader) -> dict[str, bool]:
    """What rules may know about a PersistentVolumeClaim. A claim that a Pod mounts is also referenced."""
    mounted = any(POD.refers_to(claim, pod) for pod in read(POD))
    referenced = mounted or any(user.refers_to(claim, obj) for user in OWNERS_OF_PODS for obj in read(user))
    return {_NOT_MOUNTED: not mounted, _NOT_REFERENCED: not referenced}


def _list(obj: Mapping[str, Any], *path: str) -> Sequence[Mapping[str, Any]]:
    value: Any = obj
    for member in path:
        value = value.get(member) or {}
    return value or ()


def _claim_of(volume: Mapping[str, Any]) -> str | None:
    return (volume.get("persistentVolumeClaim") or {}).get("claimName")


def _is_claim_of(claim: str, template: str, stateful_set: str) -> bool:
    """Whether a StatefulSet has made a claim from a template: `data-db-0`."""
    start = f"{template}-{stateful_set}-"
    return claim.startswith(start) and claim[len(start) :].isdecimal()


#: Reads what rules may know about a claim.
ContextReader = Callable[[], Mapping[str, bool]]


#: The contexts that a claim may have: it is mounted, or only referenced, or free.
_CONTEXTS = (
    {_NOT_MOUNTED: False, _NOT_REFERENCED: False},
    {_NOT_MOUNTED: True, _NOT_REFERENCED: False},
    {_NOT_MOUNTED: True, _NOT_REFERENCED: True},
)


def _with_contexts(obj: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The object with each context that it may have. Only claims have any."""
    is_claim = (obj["apiVersion"], obj["kind"]) == ("v1", "PersistentVolumeClaim")
    return [{**obj, CONTEXT: context} for context in _CONTEXTS] if is_claim else [obj]


def with_context(obj: Mapping[str, Any], rules: Sequence[Rule], read: ContextReader) -> Mapping[str, Any]:
    """The object as rules see it. The context is read only if the first match depends on it, because that lists all
    objects in the namespace that may use the claim."""
    possible = _with_contexts(obj)
    first = first_match(rules, possible[0])
    if all(first_match(rules, it) is first for it in possible[1:]):
        return possible[0]
    return {**obj, CONTEXT: dict(read())}
