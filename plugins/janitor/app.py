"""The janitor in Python: deletes objects whose time has come, by their annotations or by the operator's rules.

This module reads, deletes and reports. Pure functions in `lifetimes` and `rules` decide.

"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import rules
import windlass
from lifetimes import EXPIRES, TTL, Deadline, annotated, annotations_of, birth, ttl_deadline
from settings import SCHEMA, Settings, namespace_of
from windlass import Object, ObjectRef, Reason, clock, config, events, live, writes
from windlass.manifest import Controller, Manifest, Options, Permission, Predicate, Projection, Watch, Where
from windlass.metrics import Counter

#: The longest time until an object is looked at again, in seconds. It bounds the delay after the clock was set forward.
REST_MAX = 12 * 3_600
#: The interval for reading an object again whose changes no watch shows, in seconds.
RECHECK_INTERVAL = 600
#: Annotations and rules act at their times, so each object runs again by itself.
OPTIONS = Options(status=False)

DELETIONS = Counter("deletions_total", "Objects that were deleted.", labels=["reason"])

MANIFEST = Manifest(
    name="janitor",
    version="0.1.0",
    description="Deletes objects after their time to live, or at their expiry time.",
    controllers=[
        Controller(
            name="janitor",
            primary=Watch(
                kinds_from="/kinds",
                verbs=["delete"],
                projection=Projection.metadata(),
                where=[Where.any(Where.annotation(TTL).exists(), Where.annotation(EXPIRES).exists())],
                predicates=[Predicate.annotations()],
            ),
            options=OPTIONS,
        ),
        Controller(
            name="rules",
            primary=Watch(
                kinds_from="/ruleKinds",
                verbs=["delete"],
                projection=Projection.metadata(),
                # An annotation takes precedence over all rules.
                where=[Where.annotation(TTL).absent()],
                predicates=[
                    Predicate.annotations(), Predicate.labels(), Predicate.generation(), Predicate.fields("/metadata/ownerReferences", "/metadata/finalizers"),
                ],  # fmt: skip
            ),
            options=OPTIONS,
        ),
    ],
    # For rules about PersistentVolumeClaims that use `_context`.
    permissions=[
        Permission([""], ["pods"], ["list"]),
        Permission(["apps"], ["deployments", "statefulsets"], ["list"]),
        Permission(["batch"], ["cronjobs", "jobs"], ["list"]),
    ],
    metrics=[DELETIONS],
    config_schema=SCHEMA,
)

log = logging.getLogger(__name__)

#: The mistakes in the configuration that this instance has logged. A fresh instance logs them again.
reported: set[str] = set()


@windlass.reconciler(MANIFEST)
def reconcile(request: windlass.Request) -> windlass.Outcome:
    obj = request.object
    if obj is None or request.deleting or obj["metadata"].get("deletionTimestamp") is not None:
        return windlass.DONE
    settings = Settings.of(config.get())
    if namespace_of(obj) is None:
        report(f"{obj['kind']} is cluster-scoped", "the janitor deletes no cluster-scoped object but Namespaces: remove the kind")
    if not settings.covers(obj):
        return windlass.DONE
    return by_rules(obj, settings) if request.controller == "rules" else by_annotations(obj, settings)


def by_annotations(obj: Object, settings: Settings) -> windlass.Outcome:
    """Deletes an object if its annotations say so, and reports invalid ones."""
    verdict = annotated(obj, settings.time_annotation)
    for problem in verdict.problems:
        complain(problem)
    return windlass.DONE if verdict.deadline is None else act(obj, verdict.deadline, settings)


def by_rules(obj: Object, settings: Settings) -> windlass.Outcome:
    """Deletes an object if a rule says so. Reads the whole object only if that may decide."""
    for problem in settings.problems:
        report(problem, "no rule is in force until all of them are valid")
    found = rules.rules_for(settings.rules, settings.plural_of(obj["kind"]))
    soonest = rules.soonest(found, obj)
    if soonest is None:
        return windlass.DONE
    try:
        due = birth(obj, settings.time_annotation) + soonest
    except ValueError as error:
        complain(str(error))
        return windlass.DONE
    # The warning comes before the deletion, so the decision must be known by then.
    wait = due - (settings.notification or 0) - clock.now().seconds
    if wait > 0:
        return rest(wait)
    if not all(rule.is_cached for rule in found):
        whole = live.get(ObjectRef.of(obj).with_uid(obj["metadata"]["uid"]))
        # The cache may lag behind an annotation that takes the object from all rules.
        if whole is None or TTL in annotations_of(whole) or whole["metadata"].get("deletionTimestamp") is not None:
            return windlass.DONE
        obj = whole
    rule = rules.first_match(found, rules.with_context(obj, found, lambda: claim_context(obj)))
    deadline = None if rule is None else ttl_deadline(obj, rule.ttl, f"rule {rule.id}, ttl={rule.ttl}", settings.time_annotation)
    if rules.is_noticed(found, obj):
        return windlass.DONE if deadline is None else act(obj, deadline, settings)
    # Another rule may match before the deadline, or this one no longer.
    return rest(RECHECK_INTERVAL) if deadline is None else act(obj, deadline, settings, RECHECK_INTERVAL)


def claim_context(claim: Object) -> dict[str, bool]:
    """Reads what rules may know about a PersistentVolumeClaim."""
    metadata = claim["metadata"]

    def users(of: rules.ClaimUser) -> Iterator[Object]:
        return live.list(of.api_version, of.kind, namespace=metadata["namespace"], fields=of.fields)

    return rules.claim_context(metadata["name"], users)


def act(obj: Object, deadline: Deadline, settings: Settings, wait_max: int = REST_MAX) -> windlass.Outcome:
    """Deletes the object if its deadline has passed. Otherwise waits for it, and warns in time if the operator wants
    that. After `wait_max` seconds the decision is made again."""
    now = clock.now().seconds
    if now >= deadline.due:
        delete(obj, deadline, settings)
        return windlass.DONE
    warning = deadline.due - (settings.notification or 0)
    if now < warning:
        return rest(min(warning - now, wait_max))
    if settings.notification is not None and not settings.dry_run:
        when = clock.Timestamp(deadline.due, 0)
        note = f"will be deleted at {when} ({deadline.cause})"
        events.warning("DeleteNotification", "Notify", note)
    return rest(min(deadline.due - now, wait_max))


def delete(obj: Object, deadline: Deadline, settings: Settings) -> None:
    """Deletes exactly the object that was judged: after any change of it, the decision is made again."""
    metadata = obj["metadata"]
    if settings.dry_run:
        log.warning("would delete the object: the configuration has dryRun", extra={"kind": obj["kind"], "cause": deadline.cause})
        return
    try:
        writes.delete(ObjectRef.of(obj).with_uid(metadata["uid"]), resource_version=metadata["resourceVersion"])
    except windlass.ApiError as error:
        if error.reason is Reason.NOT_FOUND:
            return
        raise
    log.info("deleted the object", extra={"kind": obj["kind"], "cause": deadline.cause})
    DELETIONS.add(reason=deadline.reason)
    events.normal(deadline.reason, "Delete", f"deleted the {obj['kind']} ({deadline.cause})")


def report(problem: str, consequence: str) -> None:
    """Logs a mistake in the configuration once."""
    if problem not in reported:
        reported.add(problem)
        log.error(consequence, extra={"problem": problem})


def complain(problem: str) -> None:
    """Reports an invalid annotation. Only a change of the object can help, so nothing is retried."""
    log.warning("an annotation is invalid", extra={"problem": problem})
    events.warning("InvalidAnnotation", "Read", f"the janitor ignores this annotation: {problem}")


def rest(seconds: int) -> windlass.Outcome:
    """Runs the object again after a time, or earlier to look at the clock again."""
    return windlass.requeue_after(min(max(seconds, 1), REST_MAX))
