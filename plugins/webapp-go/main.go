// The WebApp plugin: a Deployment and a Service for each WebApp.
//
// This file reads, writes and reports. Pure functions in children.go and status.go compute the children and the status.
package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/cache"
	"windlass.dev/sdk/clock"
	"windlass.dev/sdk/events"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/reconciler"
	"windlass.dev/sdk/writes"
)

// The interval for checking a taken name again. No watch shows when it becomes free.
const nameTakenRetry = time.Minute

// childFields are the fields of a child that the plugin compares or reports. For a change of any other field, such as
// the time in a condition of the Deployment, the host need not call the plugin.
var childFields = []string{
	"/metadata/uid", "/metadata/labels", "/metadata/ownerReferences", "/metadata/deletionTimestamp",
	"/metadata/generation", "/spec", "/status/observedGeneration", "/status/readyReplicas", "/status/updatedReplicas",
}

var plugin = manifest.Manifest{
	Name:        "webapp-go",
	Version:     "0.1.0",
	Description: "Runs each WebApp as a Deployment behind a Service.",
	Controllers: []manifest.Controller{{
		Name: "webapp",
		Primary: manifest.Watch{
			APIVersion: apiVersion, Kind: kind, Predicates: []manifest.Predicate{manifest.GenerationChanged},
		},
		Owns: []manifest.Watch{{APIVersion: "apps/v1", Kind: "Deployment"}, {APIVersion: "v1", Kind: "Service"}},
	}},
}

func init() { reconciler.Register(plugin, reconcile) }

func main() {}

func reconcile(_ context.Context, request windlass.Request) (windlass.Outcome, error) {
	app := defaulted()
	is, err := request.Object(&app)
	if err != nil || !is || request.Deleting {
		// The garbage collector deletes the children, because the WebApp owns them.
		return windlass.Done, err
	}
	progress := progress{problem: specProblem(app.Spec)}
	if progress.problem == nil {
		progress.bringAbout(&app)
	} else {
		progress.failures = append(progress.failures, windlass.Terminal(errors.New(progress.problem.message)))
	}
	if err := report(&app, &progress); err != nil {
		progress.failures = append(progress.failures, err)
	}
	if err := errors.Join(progress.failures...); err != nil || !progress.isNameTaken {
		return windlass.Done, err
	}
	return windlass.RequeueAfter(nameTakenRetry), nil
}

// progress is the result of applying the children.
type progress struct {
	// deployment is the Deployment after this call; nil if it is unknown.
	deployment  object
	problem     *Problem
	isNameTaken bool
	failures    []error
}

// bringAbout brings both children to their desired states. If one fails, it still tries the other.
func (progress *progress) bringAbout(app *WebApp) {
	var err error
	if progress.deployment, err = ensure(app, deploymentOf(app)); err != nil {
		progress.note(err)
	}
	if _, err = ensure(app, serviceOf(app)); err != nil {
		progress.note(err)
	}
}

func (progress *progress) note(err error) {
	if progress.problem == nil {
		progress.problem = lastingProblem(err)
	}
	if errors.As(err, new(*errNameTaken)) {
		progress.isNameTaken = true
	} else {
		progress.failures = append(progress.failures, err)
	}
}

// ensure brings one child to its desired state, and returns its new state.
func ensure(app *WebApp, child Child) (object, error) {
	cached, err := read(child.target, childFields...)
	if err != nil {
		return nil, err
	}
	decision := decide(app, child, cached)
	switch decision {
	case Leave:
		return cached, nil
	case NameTaken:
		return nil, &errNameTaken{child.target}
	}
	if cached != nil {
		if err := cut(child, cached); err != nil {
			return nil, err
		}
	}
	// The apply uses force: a field that someone edited becomes ours again.
	applied, err := writes.Apply(child.wanted, writes.Owned(), writes.Force(), writes.Fields(childFields...))
	if err != nil {
		return nil, err
	}
	announce(child, decision)
	return applied, nil
}

// read returns these fields of the cached object, or all of it; nil if there is none.
func read(target windlass.Ref, fields ...string) (object, error) {
	cached, err := cache.Get[object](target, fields...)
	if cached == nil {
		return nil, err
	}
	return *cached, err
}

// cut removes the entries that an apply would leave. An earlier removal counts as another manager's change, so this
// also concerns the port of an older spec.
func cut(child Child, judged object) error {
	// Read again, with the version that the entries are in. By now, another client may have created a new object under
	// the name: only the judged one is known to be ours.
	ours := child.target
	ours.UID = metadataOf(judged, "uid")
	cached, err := read(ours)
	if err != nil || cached == nil {
		return err
	}
	steps := surplus(cached, child.wanted)
	if len(steps) == 0 {
		return nil
	}
	_, err = writes.JSONPatch[object](child.target, steps, writes.IfVersion(metadataOf(cached, "resourceVersion")))
	return err
}

func metadataOf(of object, field string) string {
	metadata, _ := of["metadata"].(object)
	text, _ := metadata[field].(string)
	return text
}

func announce(child Child, decision Decision) {
	reason, action, what := "Healed", "Heal", "was deleted or edited, and is restored"
	switch decision {
	case Create:
		reason, action, what = "Created", "Create", "created"
	case Update:
		reason, action, what = "Updated", "Update", "updated to the new spec"
	}
	slog.Info("applied a child", "kind", child.target.Kind, "reason", reason)
	events.Normal(reason, action, child.target.Kind+" "+child.target.Name+": "+what)
}

// report writes the status, if it has changed, and reports a new problem.
func report(app *WebApp, progress *progress) error {
	deployment := progress.deployment
	switch problem := progress.problem; {
	case problem != nil:
		if problem.isNews(app) {
			events.Warning(problem.reason, "Reconcile", problem.message)
		}
		// The spec is invalid, but an existing Deployment may still run.
		cached, err := read(deploymentOf(app).target, childFields...)
		if err != nil {
			return err
		}
		if deployment = cached; cached != nil && !isOurs(app, cached) {
			deployment = nil
		}
	case len(progress.failures) > 0:
		// A failure that may pass by itself leaves the status alone. The retry that succeeds will write it.
		return nil
	}
	status := statusOf(app, deployment, progress.problem, clock.Now)
	if status.equals(app.Status) {
		return nil
	}
	return writes.ApplyStatus(app.beside(apiVersion, kind), status)
}
