// Package reconciler makes a plugin of a function that brings the world to the state that an object asks for.
package reconciler

import (
	"context"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/entry"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/manifest"
)

// Func reconciles one object. Of an error the host is told each part (errors.Join), and how to retry by its class: a
// windlass.APIError as it came, windlass.Terminal never, windlass.RetryAfter not before its time, anything else after a backoff. A
// panic is such an error, with its stack in the log. The context ends with the call, and so must all goroutines.
type Func func(ctx context.Context, request windlass.Request) (windlass.Outcome, error)

var (
	plugin    manifest.Manifest
	reconcile Func
)

// Register says what the plugin is. Called once, from an init function: when a plugin's main would run, the host has no use for it.
func Register(of manifest.Manifest, by Func, options ...Option) {
	if reconcile != nil {
		panic("reconciler.Register is called twice: a plugin has one function, and tells its controllers apart by Request.Controller")
	}
	plugin, reconcile = of, by
	for _, option := range options {
		option()
	}
}

// needed ends a call of a plugin that is none yet.
func needed() {
	if reconcile == nil {
		panic("nothing is registered: call reconciler.Register from an init function")
	}
}

// run makes one call of the plugin's function.
func run(request windlass.Request) (outcome windlass.Outcome, failures []host.Failure) {
	needed()
	failures = entry.Run(func(ctx context.Context) (err error) {
		outcome, err = reconcile(ctx, request)
		return err
	})
	return outcome, failures
}
