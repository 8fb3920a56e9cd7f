package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/conditions"
)

// The status of a WebApp, computed from its Deployment and from the failures. Pure: nothing here calls the host.

const (
	// ready is the condition that is true if all replicas of the current spec are ready.
	ready = "Ready"
	// progressing is the condition that is true while the current spec is being rolled out.
	progressing = "Progressing"
)

// Problem says why a WebApp cannot reach its desired state until someone acts.
type Problem struct {
	// reason is in CamelCase, for conditions and events: Invalid, NameTaken or ApplyFailed.
	reason string
	// message is the text for people.
	message string
}

// specProblem returns the problem of a spec that the CRD's schema accepts; nil if there is none.
func specProblem(spec Spec) *Problem {
	if strings.TrimSpace(spec.Image) == "" {
		return &Problem{"Invalid", "spec.image is empty"}
	}
	return nil
}

// errNameTaken means that the name of a child belongs to another object.
type errNameTaken struct{ child windlass.Ref }

func (err *errNameTaken) Error() string {
	return fmt.Sprintf("%s exists and is not this WebApp's", err.child)
}

// lastingProblem returns the problem of a refusal that lasts until someone acts. It returns nil for a failure that may
// pass by itself, because that is retried.
func lastingProblem(err error) *Problem {
	if taken := (*errNameTaken)(nil); errors.As(err, &taken) {
		return &Problem{"NameTaken", taken.Error()}
	}
	for _, reason := range []windlass.Reason{windlass.Invalid, windlass.Forbidden, windlass.NotGranted, windlass.TooLarge} {
		if windlass.Is(err, reason) {
			return &Problem{"ApplyFailed", err.Error()}
		}
	}
	return nil
}

// isNews reports whether the problem is new and so worth an event. A known problem is not reported again at each
// reconcile.
func (problem *Problem) isNews(app *WebApp) bool {
	known := conditions.Find(app.Status.Conditions, ready)
	return known == nil || known.Reason != problem.reason || known.Message != problem.message ||
		known.ObservedGeneration != app.Metadata.Generation
}

// rollout is the Deployment's report.
type rollout struct {
	readyReplicas int64
	// isComplete is true if the report is about the current spec, and all replicas have that spec.
	isComplete bool
}

// statusOf returns the new status. It equals the old one if nothing has changed, so that it need not be written. The
// Deployment is nil if there is none. now is called only if a condition changed its status.
func statusOf(app *WebApp, deployment object, problem *Problem, now func() time.Time) Status {
	var rollout rollout
	if deployment != nil {
		rollout = rolloutOf(app, deployment)
	}
	isReady := problem == nil && rollout.isComplete && rollout.readyReplicas >= app.Spec.Replicas
	entered := conditionsOf(app, rollout, isReady, problem)
	return Status{
		ObservedGeneration: app.Metadata.Generation,
		ReadyReplicas:      rollout.readyReplicas,
		Phase:              phaseOf(app, isReady),
		Conditions:         conditions.Set(app.Status.Conditions, app.Metadata.Generation, now, entered...),
	}
}

func rolloutOf(app *WebApp, deployment object) rollout {
	status, _ := deployment["status"].(object)
	metadata, _ := deployment["metadata"].(object)
	number := func(of object, name string) int64 { number, _ := of[name].(int64); return number }
	isAboutThis := number(status, "observedGeneration") >= number(metadata, "generation")
	return rollout{
		readyReplicas: number(status, "readyReplicas"),
		isComplete:    isAboutThis && number(status, "updatedReplicas") >= app.Spec.Replicas,
	}
}

func phaseOf(app *WebApp, isReady bool) Phase {
	wasReady := app.Status.Phase == Running || app.Status.Phase == Degraded
	switch {
	case isReady:
		return Running
	case wasReady && !app.isChanged():
		return Degraded
	default:
		return Pending
	}
}

func conditionsOf(app *WebApp, rollout rollout, isReady bool, problem *Problem) []conditions.Condition {
	var told []conditions.Condition
	tell := func(name string, holds bool, reason, message string) {
		told = append(told, conditions.Condition{Type: name, Status: conditions.Status(holds), Reason: reason, Message: message})
	}
	if problem != nil {
		tell(ready, false, problem.reason, problem.message)
		tell(progressing, false, problem.reason, problem.message)
		return told
	}
	readyReason := "ReplicasNotReady"
	if isReady {
		readyReason = "ReplicasReady"
	}
	tell(ready, isReady, readyReason, fmt.Sprintf("%d of %d replicas are ready", rollout.readyReplicas, app.Spec.Replicas))
	if rollout.isComplete {
		tell(progressing, false, "RolledOut", "the Deployment runs this spec")
	} else {
		tell(progressing, true, "RollingOut", "the Deployment is rolling out this spec")
	}
	return told
}
