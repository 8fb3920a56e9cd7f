"""The WebApp plugin in Python: a Deployment and a Service for each `WebApp`.

This module reads, writes and reports. Pure functions in `children` and `status` compute the children and the status.

"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import children
import windlass
from api import API_VERSION, KIND, WebApp
from children import Child, Decision
from status import Problem, new_status
from windlass import Object, cache, clock, events, writes
from windlass.manifest import Controller, Manifest, Predicate, Watch

#: The interval for checking a taken name again, in seconds. No watch shows when it becomes free.
NAME_TAKEN_RETRY = 60

#: The fields of a child that the plugin compares or reports. For a change of any other field, such as the time in a
#: condition of the Deployment, the host need not call the plugin.
CHILD_FIELDS = (
    "/metadata/uid", "/metadata/labels", "/metadata/ownerReferences", "/metadata/deletionTimestamp", "/metadata/generation", "/spec",
    "/status/observedGeneration", "/status/readyReplicas", "/status/updatedReplicas",
)  # fmt: skip

#: The event's reason and action, and the word for what was done to the child.
ANNOUNCED = {
    Decision.CREATE: ("Created", "Create", "created"),
    Decision.UPDATE: ("Updated", "Update", "updated to the new spec"),
    Decision.HEAL: ("Healed", "Heal", "was deleted or edited, and is restored"),
}

MANIFEST = Manifest(
    name="webapp-python",
    version="0.1.0",
    description="Runs each WebApp as a Deployment behind a Service.",
    controllers=[
        Controller(
            name="webapp",
            primary=Watch(API_VERSION, KIND, predicates=[Predicate.generation()]),
            owns=[Watch("apps/v1", "Deployment"), Watch("v1", "Service")],
        )
    ],
)

log = logging.getLogger(__name__)


@windlass.reconciler(MANIFEST)
def reconcile(request: windlass.Request) -> windlass.Outcome:
    # The garbage collector deletes the children, because the `WebApp` owns them.
    if request.object is None or request.deleting:
        return windlass.DONE
    app = WebApp.of(request.object)
    problem = Problem.of_spec(app.spec)
    if problem is None:
        progress = bring_about(app)
    else:
        progress = Progress(problem=problem, failures=windlass.Failures([windlass.Terminal(problem.message)]))
    with progress.failures:
        report(app, progress)
    progress.failures.raise_any()
    return windlass.requeue_after(NAME_TAKEN_RETRY) if progress.is_name_taken else windlass.DONE


class NameTaken(Exception):
    """The name of a child belongs to another object."""


@dataclass
class Progress:
    """The result of applying the children."""

    #: The Deployment after this call. None if it is unknown.
    deployment: Object | None = None
    problem: Problem | None = None
    is_name_taken: bool = False
    failures: windlass.Failures = field(default_factory=windlass.Failures)


def bring_about(app: WebApp) -> Progress:
    """Brings both children to their desired states. If one fails, it still tries the other."""
    progress = Progress()
    for child in (children.deployment(app), children.service(app)):
        problem = None
        try:
            obj = ensure(app, child)
            if child.target.kind == "Deployment":
                progress.deployment = obj
        except NameTaken:
            progress.is_name_taken = True
            problem = Problem.name_taken(child.target)
        except windlass.ApiError as error:
            progress.failures.add(error)
            problem = Problem.lasting(error)
        progress.problem = progress.problem or problem
    return progress


def ensure(app: WebApp, child: Child) -> Object:
    """Brings one child to its desired state, and returns its new state."""
    cached = cache.get(child.target, fields=CHILD_FIELDS)
    decision = children.decide(app, child, cached)
    if decision is Decision.NAME_TAKEN:
        raise NameTaken
    if decision is Decision.LEAVE and cached is not None:
        return cached
    if cached is not None:
        cut(child, cached)
    # The apply uses force: a field that someone edited becomes ours again.
    applied = writes.apply(child.wanted, owned=True, force=True, fields=CHILD_FIELDS)
    announce(child, decision)
    return applied


def cut(child: Child, judged: Object) -> None:
    """Removes what an apply would leave. An earlier removal counts as another manager's change, so this also concerns
    the port of an older spec."""
    # Read again, with the version that the entries are in. By now, another client may have created a new object under
    # the name: only the judged one is known to be ours.
    cached = cache.get(child.target.with_uid(judged["metadata"]["uid"]))
    if cached is None:
        return
    surplus = children.surplus(cached, child.wanted)
    if surplus:
        version = cached["metadata"].get("resourceVersion", "")
        writes.patch(child.target, surplus, patch_type="json", resource_version=version)


def announce(child: Child, decision: Decision) -> None:
    reason, action, what = ANNOUNCED[decision]
    log.info("applied a child", extra={"kind": child.target.kind, "reason": reason})
    events.normal(reason, action, f"{child.target.kind} {child.target.name}: {what}")


def report(app: WebApp, progress: Progress) -> None:
    """Writes the status, if it has changed, and reports a new problem."""
    deployment = progress.deployment
    if progress.problem is not None:
        if progress.problem.is_news(app):
            events.warning(progress.problem.reason, "Reconcile", progress.problem.message)
        # The spec is invalid, but an existing Deployment may still run.
        cached = cache.get(children.deployment(app).target, fields=CHILD_FIELDS)
        deployment = cached if cached is not None and children.is_ours(app, cached) else None
    elif progress.failures:
        # A failure that may pass by itself leaves the status alone. The retry that succeeds will write it.
        return
    status = new_status(app, deployment, progress.problem, clock.now)
    if status != app.status:
        writes.apply_status(app.sibling(API_VERSION, KIND), status.document())
