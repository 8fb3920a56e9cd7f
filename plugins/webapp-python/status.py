"""The status of a `WebApp`, computed from its Deployment and from the failures. Pure: nothing here calls the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from api import DEGRADED, PENDING, RUNNING, WHITE_SPACE, Spec, Status, WebApp
from windlass import ApiError, Object, ObjectRef, Reason, conditions
from windlass.clock import Timestamp

#: The condition that is true if all replicas of the current spec are ready.
READY = "Ready"
#: The condition that is true while the current spec is being rolled out.
PROGRESSING = "Progressing"

#: Refusals that last until someone acts. A failure that may pass by itself is retried, and is not a
#: problem.
LASTING = (Reason.INVALID, Reason.FORBIDDEN, Reason.NOT_GRANTED, Reason.TOO_LARGE)


@dataclass(slots=True)
class Problem:
    """Why a `WebApp` cannot reach its desired state until someone acts."""

    #: In CamelCase, for conditions and events: `Invalid`, `NameTaken` or `ApplyFailed`.
    reason: str
    #: The text for people.
    message: str

    @classmethod
    def of_spec(cls, spec: Spec) -> Problem | None:
        """The problem of a spec that the CRD's schema accepts."""
        return cls("Invalid", "spec.image is empty") if not spec.image.strip(WHITE_SPACE) else None

    @classmethod
    def name_taken(cls, child: ObjectRef) -> Problem:
        """The name of a child belongs to another object."""
        return cls("NameTaken", f"{child} exists and is not this WebApp's")

    @classmethod
    def lasting(cls, error: ApiError) -> Problem | None:
        """The problem of a refusal that lasts until someone acts."""
        return cls("ApplyFailed", str(error)) if error.reason in LASTING else None

    def is_news(self, app: WebApp) -> bool:
        """Whether the problem is new and so worth an event. A known problem is not reported again at each reconcile."""
        ready = conditions.find(app.status.conditions, READY)
        if ready is None:
            return True
        is_known = ready["reason"] == self.reason and ready.get("message", "") == self.message
        return not is_known or ready.get("observedGeneration") != app.generation


@dataclass(slots=True)
class Rollout:
    """The Deployment's report."""

    ready_replicas: int = 0
    #: Whether the report is about the current spec, and all replicas have that spec.
    is_complete: bool = False

    @classmethod
    def of(cls, app: WebApp, deployment: Object | None) -> Rollout:
        if deployment is None:
            return cls()
        status, metadata = deployment.get("status") or {}, deployment.get("metadata") or {}
        is_about_this = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
        is_complete = is_about_this and status.get("updatedReplicas", 0) >= app.spec.replicas
        return cls(status.get("readyReplicas", 0), is_complete)


def new_status(
    app: WebApp, deployment: Object | None, problem: Problem | None, now: Timestamp | Callable[[], Timestamp]
) -> Status:
    """The new status. It equals the old one if nothing has changed, so that it need not be written.

    Only a condition with a new status needs `now`.

    """
    rollout = Rollout.of(app, deployment)
    is_ready = problem is None and rollout.is_complete and rollout.ready_replicas >= app.spec.replicas
    new = _conditions(app, rollout, is_ready, problem)
    return Status(
        app.generation,
        rollout.ready_replicas,
        _phase(app, is_ready),
        conditions.updated(app.status.conditions, *new, generation=app.generation, now=now),
    )


def _phase(app: WebApp, is_ready: bool) -> str:
    if is_ready:
        return RUNNING
    was_ready = app.status.phase in (RUNNING, DEGRADED)
    return DEGRADED if was_ready and not app.is_changed else PENDING


def _conditions(app: WebApp, rollout: Rollout, is_ready: bool, problem: Problem | None) -> list[Object]:
    if problem is not None:
        return [conditions.condition(name, False, problem.reason, problem.message) for name in (READY, PROGRESSING)]
    count = f"{rollout.ready_replicas} of {app.spec.replicas} replicas are ready"
    ready = conditions.condition(READY, is_ready, "ReplicasReady" if is_ready else "ReplicasNotReady", count)
    if rollout.is_complete:
        return [ready, conditions.condition(PROGRESSING, False, "RolledOut", "the Deployment runs this spec")]
    return [ready, conditions.condition(PROGRESSING, True, "RollingOut", "the Deployment is rolling out this spec")]
