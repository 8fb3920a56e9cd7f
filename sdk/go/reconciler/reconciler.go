// Package reconciler turns a function into a plugin. The function brings the cluster to the state that an object
// specifies.
package reconciler

import (
	"context"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/entry"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/manifest"
)

// Func reconciles one object. The host receives every part of a joined error (errors.Join), and retries it by its
// class: a windlass.APIError by its reason, windlass.Terminal only when something changes, windlass.RetryAfter not
// before its time, and any other error after a backoff. A panic is also retried after a backoff, and its stack is in
// the log. The context ends with the call. By then all goroutines must have ended too.
type Func func(ctx context.Context, request windlass.Request) (windlass.Outcome, error)

var (
	plugin    manifest.Manifest
	reconcile Func
)

// Register defines the plugin. Call it once, from an init function, because the host does not run main.
func Register(of manifest.Manifest, by Func, options ...Option) {
	if reconcile != nil {
		panic("reconciler.Register is called twice: a plugin has one function, and distinguishes its controllers by Request.Controller")
	}
	plugin, reconcile = of, by
	for _, option := range options {
		option()
	}
}

// needed panics if no plugin was registered.
func needed() {
	if reconcile == nil {
		panic("nothing is registered: call reconciler.Register from an init function")
	}
}

// run runs one call of the plugin's function.
func run(request windlass.Request) (outcome windlass.Outcome, failures []host.Failure) {
	ready()
	failures = entry.Run(func(ctx context.Context) (err error) {
		outcome, err = reconcile(ctx, request)
		return err
	})
	return outcome, failures
}
