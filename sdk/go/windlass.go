// Package windlass is the Go SDK for Windlass plugins.
//
// A plugin is one function that the host calls with the name of one object, whenever that object or anything around it
// may have changed, and a manifest that says what it watches:
//
//	package main
//
//	import (
//		"context"
//
//		"windlass.dev/sdk"
//		"windlass.dev/sdk/manifest"
//		"windlass.dev/sdk/reconciler"
//		"windlass.dev/sdk/writes"
//	)
//
//	func init() { reconciler.Register(plugin, reconcile) }
//
//	func main() {}
//
// What a plugin may do is in the packages cache, live, writes, owners, events, metrics, config, clock, random and http,
// named as the host's interfaces are. Logging is log/slog and fmt.Println. Nothing is kept between calls: each one may get a fresh
// instance. Package windlasstest has a host for unit tests.
package windlass

import (
	"encoding/json"
	"fmt"
	"time"

	"windlass.dev/sdk/internal/host"
)

// Request says which object a call is about, and why now.
type Request struct {
	// Controller is the controller's name in the manifest.
	Controller string
	// Namespace is empty for a cluster-scoped primary.
	Namespace string
	// Name is the primary's.
	Name string
	// UID is the last known one; empty: none was known.
	UID string
	// Deleting says that the primary is being deleted and waits for its finalizers.
	Deleting bool
	// Attempt counts the retries of this key since its last success.
	Attempt int
	// TraceID is the trace that logs, spans and API requests of this call belong to.
	TraceID string
	// Raw is the primary's JSON, as cached when the call began. Empty: it is not in the watch's scope, usually because it
	// is gone.
	Raw json.RawMessage
}

// Object decodes the primary into value, a pointer to a struct or a map. False: it is not in the watch's scope, usually
// because it is gone. An object that does not fit is a Terminal error: only another object can mend it.
func (request Request) Object(value any) (bool, error) {
	if len(request.Raw) == 0 {
		return false, nil
	}
	if err := Decode(request.Raw, value); err != nil {
		return true, Terminal(fmt.Errorf("the primary is not as the plugin expects: %w", err))
	}
	return true, nil
}

// Outcome is how a reconcile ended that has not failed. The zero value is Done.
type Outcome struct {
	again time.Duration
}

// Done says that nothing is left to do until something changes.
var Done = Outcome{}

// RequeueAfter asks for another call after a time, which is not a failure. Less than a millisecond is one; more than 24 days
// is that.
func RequeueAfter(after time.Duration) Outcome {
	return Outcome{again: min(max(after, time.Millisecond), longest)}
}

const longest = (1<<31 - 1) * time.Millisecond

// After is the time that RequeueAfter was given; zero: none.
func (outcome Outcome) After() time.Duration { return outcome.again }

// Ref names one object. With a UID it is that incarnation of the name only.
type Ref = host.Ref

// Kind names a kind of object, as in a manifest: "apps/v1" and "Deployment".
type Kind = host.Kind

// Beside returns a reference to an object in the namespace of the request's primary.
func (request Request) Beside(apiVersion, kind, name string) Ref {
	return Ref{APIVersion: apiVersion, Kind: kind, Namespace: request.Namespace, Name: name}
}
