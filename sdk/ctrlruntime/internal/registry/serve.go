package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/internal/call"
	"sigs.k8s.io/controller-runtime/internal/setup"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	windlass "windlass.dev/sdk"
	"windlass.dev/sdk/clock"
	output "windlass.dev/sdk/log"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/reconciler"
)

func init() {
	if isGuest {
		setup.Begin()
	}
	reconciler.RegisterSetup(Setup, Reconcile, reconciler.Mapper(Mapped), reconciler.Predicate(Counts))
}

// Setup runs the program's main, unless the manager has been started already, and returns the manifest. If there is no
// manifest, it panics with the reason, which a build then reports.
func Setup() manifest.Manifest {
	if !current.started {
		if err := current.settings.apply(); err != nil {
			setup.Fail(err.Error())
		}
		runMain()
	}
	made, err := complete()
	if err != nil {
		setup.Fail(err.Error())
	}
	return made
}

// ReconcileID is the key of a call's id in its context.
type ReconcileID struct{}

// Reconcile calls the reconciler of a controller.
func Reconcile(ctx context.Context, request windlass.Request) (windlass.Outcome, error) {
	controller := controllerOf(request.Controller)
	if controller == nil {
		return windlass.Done, fmt.Errorf("there is no controller %s", request.Controller)
	}
	ctx = log.IntoContext(call.Begin(ctx, request.Namespace), log.Log)
	ctx = context.WithValue(ctx, ReconcileID{}, types.UID(request.TraceID))
	key := types.NamespacedName{Namespace: request.Namespace, Name: request.Name}
	start, startOfHost := now(), clock.Now()
	result, err := controller.Reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: key})
	warnOfWait(now().Sub(start), startOfHost)
	switch {
	case errors.Is(err, reconcile.TerminalError(nil)):
		// One terminal error makes a join of errors terminal, as in controller-runtime.
		return windlass.Done, windlass.Terminal(err)
	case err != nil:
		return windlass.Done, err
	case result.RequeueAfter > 0:
		return windlass.RequeueAfter(result.RequeueAfter), nil
	case result.Requeue:
		return windlass.RequeueWithBackoff(), nil
	}
	return windlass.Done, nil
}

// now is the plugin's clock. Tests replace it.
var now = time.Now

// waitMin is the shortest wait that is worth a warning.
const waitMin = time.Second

// warnOfWait warns if the plugin's clock has advanced further than the host's, because the plugin's clock jumps when
// the plugin sleeps.
func warnOfWait(elapsed time.Duration, startOfHost time.Time) {
	if elapsed < waitMin {
		return
	}
	if waited := elapsed - clock.Now().Sub(startOfHost); waited >= waitMin {
		output.Write(output.Warn, "the reconciler slept or polled, but a plugin cannot wait: its clock jumps to the end of the wait, so "+
			"nothing outside has changed. Return a Result with RequeueAfter instead",
			output.Field{Name: "waited", Value: waited.Round(time.Millisecond).String()})
	}
}

// controllerOf returns the controller with this name in the manifest, or the only controller.
func controllerOf(label string) *Controller {
	for _, controller := range current.controllers {
		if controller.label == label || len(current.controllers) == 1 {
			return controller
		}
	}
	return nil
}

// states decodes the states of a changed object.
func states(change windlass.Change) (watch *coded, before, now client.Object, err error) {
	if controller := controllerOf(change.Controller); controller != nil {
		watch = controller.coded[change.Watch]
	}
	if watch == nil {
		return nil, nil, nil, fmt.Errorf("there is no watch %s of a controller %s", change.Watch, change.Controller)
	}
	if before, err = watch.Decode(change.RawOld, watch.kind); err != nil {
		return nil, nil, nil, err
	}
	now, err = watch.Decode(change.RawNew, watch.kind)
	return watch, before, now, err
}

// targetsMax is the maximum number of primaries that the host accepts for a change. If there are more, the resulting
// error makes every primary run.
const targetsMax = 1024

// Mapped runs the handler of a watch.
func Mapped(ctx context.Context, change windlass.Change) ([]windlass.Target, error) {
	watch, before, now, err := states(change)
	if err != nil {
		return nil, err
	}
	var requests []reconcile.Request
	if err := call.FailedRead(func() { requests = watch.Map(log.IntoContext(ctx, log.Log), before, now) }); err != nil {
		return nil, fmt.Errorf("a read in the handler failed: %w", err)
	}
	if len(requests) > targetsMax {
		return nil, fmt.Errorf("the handler found %d requests, and a change can have at most %d", len(requests), targetsMax)
	}
	targets := make([]windlass.Target, len(requests))
	for place, request := range requests {
		targets[place] = windlass.Primary(request.Namespace, request.Name)
	}
	return targets, nil
}

// Counts evaluates the predicates of a watch that the manifest cannot express.
func Counts(_ context.Context, change windlass.Change) (bool, error) {
	watch, before, now, err := states(change)
	if err != nil || now == nil || watch.Judge == nil {
		return true, err
	}
	var counts bool
	if err := call.FailedRead(func() { counts = watch.Judge(before, now) }); err != nil {
		return true, fmt.Errorf("a read in the predicate failed: %w", err)
	}
	return counts, nil
}
