//go:build wasip1

// Package guest is the SDK's side of the host's interface. It converts values between the bindings and the SDK.
package guest

import (
	"encoding/json"
	"time"
	"unsafe"

	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_clock"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
)

// The adapter that `windlass build` adds to the plugin has these functions. The adapter provides the Go runtime's time,
// randomness and output.

//go:wasmimport wasi_snapshot_preview1 windlass_enter
func enter(memory unsafe.Pointer, length uint32) int64

//go:wasmimport wasi_snapshot_preview1 windlass_line
func line(begins uint32)

//go:wasmimport wasi_snapshot_preview1 windlass_end
func end()

// lent is the buffer in which the adapter keeps unfinished lines of output.
var lent [8192]byte

// Call runs one call by the host. Go's clock starts at the host's time, and its randomness at the host's seed. When the
// call ends, all its output is in the log.
func Call(run func()) {
	seed := enter(unsafe.Pointer(&lent), uint32(len(lent)))
	defer end()
	reseed(uint64(seed))
	run()
}

// LineBegins says that log/slog is about to take the time for a line. The host has a time of its own for each line, so
// this reading does not count as the plugin's.
func LineBegins() { line(1) }

// LineTaken says that log/slog has handed over the line, and that the plugin has not seen its time.
func LineTaken() { line(0) }

func now() time.Time {
	instant := windlass_plugin_clock.Now()
	return time.Unix(int64(instant.Seconds), int64(instant.Nanoseconds)).UTC()
}

func tuples(pairs []host.Pair) []wt.Tuple2[string, string] {
	all := make([]wt.Tuple2[string, string], len(pairs))
	for place, pair := range pairs {
		host.Clean(&pair.Name, &pair.Value)
		all[place] = wt.Tuple2[string, string]{F0: pair.Name, F1: pair.Value}
	}
	return all
}

// Some converts a text to an option. An empty text becomes none.
func Some(text string) wt.Option[string] {
	if text == "" {
		return wt.None[string]()
	}
	host.Clean(&text)
	return wt.Some(text)
}

func someNumber(number uint32) wt.Option[uint32] {
	if number == 0 {
		return wt.None[uint32]()
	}
	return wt.Some(number)
}

func someFields(fields []string) wt.Option[[]string] {
	if fields == nil {
		return wt.None[[]string]()
	}
	return wt.Some(host.Cleaned(fields))
}

// Milliseconds converts a duration to an option. Zero becomes none. Any other duration becomes at least 1, and at most
// the largest number that every language can represent.
func Milliseconds(duration time.Duration) wt.Option[uint32] {
	if duration <= 0 {
		return wt.None[uint32]()
	}
	return wt.Some(milliseconds(duration))
}

func milliseconds(duration time.Duration) uint32 {
	return uint32(min(max(duration.Milliseconds(), 1), 1<<31-1))
}

// Requeue converts the time of another call. It is none if there is neither a time nor a backoff.
func Requeue(after time.Duration, backsOff bool) wt.Option[windlass_plugin_types.Requeue] {
	switch {
	case backsOff:
		return wt.Some(windlass_plugin_types.MakeRequeueBackoff())
	case after > 0:
		return wt.Some(windlass_plugin_types.MakeRequeueAfterMs(milliseconds(after)))
	}
	return wt.None[windlass_plugin_types.Requeue]()
}

func kind(of host.Kind) windlass_plugin_types.ObjectKind {
	host.Clean(&of.APIVersion, &of.Kind)
	return windlass_plugin_types.ObjectKind{ApiVersion: of.APIVersion, Kind: of.Kind}
}

// ref leaves the cluster unset, because there is only one cluster.
func ref(of host.Ref) windlass_plugin_types.ObjectRef {
	host.Clean(&of.APIVersion, &of.Kind, &of.Name)
	return windlass_plugin_types.ObjectRef{
		ApiVersion: of.APIVersion, Kind: of.Kind, Namespace: Some(of.Namespace), Name: of.Name, Uid: Some(of.UID),
	}
}

func refOf(of windlass_plugin_types.ObjectRef) host.Ref {
	return host.Ref{
		APIVersion: of.ApiVersion, Kind: of.Kind, Namespace: of.Namespace.SomeOr(""), Name: of.Name, UID: of.Uid.SomeOr(""),
	}
}

func optionalRef(of *host.Ref) wt.Option[windlass_plugin_types.ObjectRef] {
	if of == nil {
		return wt.None[windlass_plugin_types.ObjectRef]()
	}
	return wt.Some(ref(*of))
}

func optionalRefOf(of wt.Option[windlass_plugin_types.ObjectRef]) *host.Ref {
	if of.IsNone() {
		return nil
	}
	return new(refOf(of.Some()))
}

func apiError(of windlass_plugin_types.ApiError) *host.APIError {
	return &host.APIError{
		Code: int(of.Code), Reason: host.Reason(of.Reason), StatusReason: of.StatusReason, Message: of.Message,
		RetryAfter: time.Duration(of.RetryAfterMs.SomeOr(0)) * time.Millisecond, Verb: of.Verb, Resource: of.Resource,
		Object: optionalRefOf(of.Object),
	}
}

// Failures converts the failures for the host.
func Failures(of []host.Failure) []windlass_plugin_types.Failure {
	all := make([]windlass_plugin_types.Failure, len(of))
	for place, failure := range of {
		host.Clean(&failure.Message)
		converted := windlass_plugin_types.Failure{
			Message: failure.Message, Terminal: failure.Terminal, RetryAfterMs: Milliseconds(failure.RetryAfter),
		}
		if err := failure.API; err != nil {
			host.Clean(&err.StatusReason, &err.Message, &err.Verb, &err.Resource)
			converted.Api = wt.Some(windlass_plugin_types.ApiError{
				Code: uint16(err.Code), Reason: uint8(err.Reason), StatusReason: err.StatusReason, Message: err.Message,
				RetryAfterMs: Milliseconds(err.RetryAfter), Verb: err.Verb, Resource: err.Resource, Object: optionalRef(err.Object),
			})
		}
		all[place] = converted
	}
	return all
}

// Event converts an event for the host.
func Event(of host.Event) windlass_plugin_types.Event {
	host.Clean(&of.Reason, &of.Action, &of.Note)
	event := windlass_plugin_types.Event{
		Regarding: optionalRef(of.Regarding), Related: optionalRef(of.Related), Reason: of.Reason, Action: of.Action, Note: of.Note,
	}
	if of.Warning {
		event.EventType = windlass_plugin_types.EventType_Warning
	}
	return event
}

// Request converts the request of a call.
func Request(of windlass_plugin_types.Request) windlass.Request {
	return windlass.Request{
		Controller: of.Controller, Namespace: of.Namespace.SomeOr(""), Name: of.Name, UID: of.Uid.SomeOr(""), Deleting: of.Deleting,
		Attempt: int(of.Attempt), TraceID: of.TraceId, Raw: json.RawMessage(of.Object.SomeOr("")),
	}
}
