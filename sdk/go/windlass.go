// Package windlass is the Go SDK for Windlass plugins.
//
// A plugin is a function and a manifest. The manifest says what the plugin watches. The host calls the function with
// the name of one object, whenever that object or anything around it may have changed:
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
// A plugin calls the host through the packages cache, live, writes, owners, events, metrics, config, clock, random, http
// and triggers, named after the host's interfaces. It logs by log/slog and fmt.Println. Keep nothing between calls: each
// call may get a fresh instance. Package windlasstest has a host for unit tests.
package windlass

import (
	"encoding/json"
	"time"

	"windlass.dev/sdk/internal/host"
)

// Request is the object that a call is about, and the context of the call.
type Request struct {
	// Controller is the controller's name in the manifest.
	Controller string
	// Namespace is empty for a cluster-scoped primary.
	Namespace string
	// Name is the primary's name.
	Name string
	// UID is the last known UID, even if the primary is deleted. It is empty if the host has never seen the primary.
	UID string
	// Deleting is true if the primary is being deleted and waits for its finalizers.
	Deleting bool
	// Attempt counts the retries of this key since its last success.
	Attempt int
	// TraceID is the ID of the trace of this call's logs, spans and API requests.
	TraceID string
	// Raw is the primary's JSON, as cached when the call began. It is empty if the primary is not in the watch's scope,
	// usually because it was deleted. If the primary's watch has CallFields, Raw has only these fields of it.
	Raw json.RawMessage
}

// Object decodes the primary into value, a pointer to a struct or a map. It returns false if the primary is not in the
// watch's scope, usually because it was deleted. An object that does not fit is a Terminal error: only a change of the
// object can fix it.
func (request Request) Object(value any) (bool, error) {
	if len(request.Raw) == 0 {
		return false, nil
	}
	return true, host.Expect("the primary", string(request.Raw), value)
}

// Outcome is the result of a reconcile without a failure. Its zero value is Done.
type Outcome struct {
	again   time.Duration
	backoff bool
}

// Done means that nothing is left to do until something changes.
var Done = Outcome{}

// RequeueAfter asks for another call after a time. This does not count as a failure. The time is at least a millisecond
// and at most 24 days.
func RequeueAfter(after time.Duration) Outcome {
	return Outcome{again: min(max(after, time.Millisecond), longest)}
}

// RequeueWithBackoff asks for another call after the key's backoff, which grows with each such outcome in a row. This is
// not a failure: these attempts are not counted, so the host never gives the key up.
func RequeueWithBackoff() Outcome { return Outcome{backoff: true} }

const longest = (1<<31 - 1) * time.Millisecond

// After is the time given to RequeueAfter; zero if there is none.
func (outcome Outcome) After() time.Duration { return outcome.again }

// BacksOff is true for RequeueWithBackoff.
func (outcome Outcome) BacksOff() bool { return outcome.backoff }

// Ref names one object. With a UID it does not match a later object of the same name.
type Ref = host.Ref

// Kind names a kind of object, as in a manifest: "apps/v1" and "Deployment".
type Kind = host.Kind

// Beside returns a reference to an object in the namespace of the request's primary.
func (request Request) Beside(apiVersion, kind, name string) Ref {
	return Ref{APIVersion: apiVersion, Kind: kind, Namespace: request.Namespace, Name: name}
}
