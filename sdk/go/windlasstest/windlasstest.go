// Package windlasstest has a host in memory, for unit tests of plugins with `go test`:
//
//	func TestTheConfigMapIsApplied(t *testing.T) {
//		host := windlasstest.New(t)
//		host.Put(shop)
//		outcome, err := host.Reconcile(reconcile, windlass.Ref{APIVersion: "example.com/v1", Kind: "Shop", Namespace: "prod", Name: "a"})
//		…
//		if writes := host.Writes(); len(writes) != 1 || writes[0].Verb != "apply" { … }
//	}
//
// It keeps objects in a map and carries out writes in a simple way: there is no admission, and an apply ignores field
// managers. Objects are validated and defaulted if the test defines their kind (see [Host.Define]). Deleting an object
// also deletes the objects that it controls. The SDK's packages use this host until the test ends, so tests that use it
// cannot be parallel. The host records their calls.
package windlasstest

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/http"
	"windlass.dev/sdk/internal/entry"
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/triggers"
)

// Host is a host in memory.
type Host struct {
	// Time is the clock's time, which does not advance.
	Time time.Time
	// Seed is the seed of random numbers, which are the same in each test.
	Seed uint64
	// Primary is the controller of objects that are written with writes.Owned. Reconcile sets it.
	Primary windlass.Ref
	// HTTP responds to requests. If it is nil, no request is granted.
	HTTP func(http.Request) (http.Response, error)
	// Triggers are the triggers that triggers.List returns.
	Triggers []triggers.Trigger

	mutex       sync.Mutex
	config      string
	definitions definitions
	objects     map[windlass.Ref]windlass.Object
	version     int64
	logs        map[windlass.Ref]string
	unserved    map[windlass.Kind]bool
	// clusterScoped are the defined kinds whose objects have no namespace.
	clusterScoped map[windlass.Kind]bool
	answers       map[string]windlass.Object
	failures      []failure
	writes        []Write
	events        []Event
	lines         []Line
	metrics       []Metric
}

// Write is a write that the plugin requested, successful or not.
type Write struct {
	// Verb is "create", "update", "apply", "patch", "delete" or "deletecollection".
	Verb string
	// Target is the written object. A collection has no name.
	Target windlass.Ref
	// Body is the object, the fields or the patch. It is nil for a deletion. For a collection it has the labelSelector
	// and all.
	Body any
	// Options are set for a write, Deletion for a deletion.
	Options  host.WriteOptions
	Deletion host.DeleteOptions
	// Err is the error that the plugin received.
	Err error
}

// Event is an event that was sent.
type Event = host.Event

// Line is a line of the log.
type Line struct {
	// Level is "trace", "debug", "info", "warn" or "error".
	Level   string
	Message string
	Fields  map[string]string
}

// Metric is a value that the plugin reported for a metric.
type Metric struct {
	// Verb is "add", "set" or "observe".
	Verb   string
	Name   string
	Value  float64
	Labels map[string]string
}

type failure struct {
	verb, kind string
	err        *windlass.APIError
	times      int
}

// New returns a host without objects, whose clock shows 2026-01-01T00:00:00Z. The SDK uses it until the test ends, or
// until New is called again.
func New(t testing.TB) *Host {
	t.Helper()
	double := &Host{
		Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Seed: 1, config: "{}", definitions: definitions{},
		objects: map[windlass.Ref]windlass.Object{}, logs: map[windlass.Ref]string{}, unserved: map[windlass.Kind]bool{},
		clusterScoped: map[windlass.Kind]bool{}, answers: map[string]windlass.Object{},
	}
	// Setenv fails in a parallel test, which must not use this package.
	t.Setenv("WINDLASSTEST", "1")
	before := guest.Current
	guest.Current = &memory{double}
	restore := entry.Logged()
	t.Cleanup(func() {
		guest.Current = before
		restore()
	})
	return double
}

// Put stores objects, structs or maps, unchanged: each with apiVersion, kind and metadata.name. Put adds the fields
// that a server would add (uid, resourceVersion, generation) if they are missing.
func (host *Host) Put(objects ...any) {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	for _, object := range objects {
		kept := plain(object).(windlass.Object)
		ref := refOf(kept)
		if ref.Name == "" || ref.Kind == "" || ref.APIVersion == "" {
			panic(fmt.Sprintf("windlasstest: an object has no apiVersion, kind or metadata.name: %v", kept))
		}
		fill(host.definitions.schema(kept), kept)
		host.stamp(kept)
		host.objects[ref] = kept
	}
}

// Remove removes an object, and the objects that it controls.
func (host *Host) Remove(target windlass.Ref) {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	host.drop(target, false)
}

// Configure sets the plugin's configuration.
func (host *Host) Configure(config any) { host.config = text(config) }

// Fail makes the next request with a verb for a kind fail: "get", "list", "create", "update", "apply", "patch",
// "delete", "deletecollection", "claim", "served" or "kinds", which has no kind. An empty verb or kind matches any. Each
// call of Fail is for one request.
func (host *Host) Fail(verb, kind string, reason windlass.Reason) {
	host.FailWith(verb, kind, 1, &windlass.APIError{
		Code: codes[reason], Reason: reason, StatusReason: reason.String(), Message: "the test makes this request fail",
	})
}

// FailWith makes the next requests with a verb for a kind fail with an error, this many times.
func (host *Host) FailWith(verb, kind string, times int, err *windlass.APIError) {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	host.failures = append(host.failures, failure{verb, kind, err, times})
}

// The status code that usually comes with each class.
var codes = map[windlass.Reason]int{
	windlass.NotFound: 404, windlass.AlreadyExists: 409, windlass.Conflict: 409, windlass.Invalid: 422, windlass.Forbidden: 403,
	windlass.NotGranted: 403, windlass.NotWatched: 400, windlass.NamespaceTerminating: 403, windlass.TooManyRequests: 429,
	windlass.Expired: 410, windlass.Timeout: 504, windlass.UnknownOutcome: 504, windlass.LeaseLost: 503, windlass.ReadOnly: 403,
	windlass.ServerError: 500, windlass.TooLarge: 413, windlass.Other: 400,
}

// Writes returns the writes that the plugin requested, in order.
func (host *Host) Writes() []Write {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	return append([]Write(nil), host.writes...)
}

// Events returns the events that were sent, in order.
func (host *Host) Events() []Event {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	return append([]Event(nil), host.events...)
}

// Lines returns the lines of the log, in order.
func (host *Host) Lines() []Line {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	return append([]Line(nil), host.lines...)
}

// Metrics returns the values that the plugin reported for metrics, in order.
func (host *Host) Metrics() []Metric {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	return append([]Metric(nil), host.metrics...)
}

// Forget clears the record so far, but keeps the objects.
func (host *Host) Forget() {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	host.writes, host.events, host.lines, host.metrics = nil, nil, nil, nil
}

// Object returns the current state of an object, or nil.
func (host *Host) Object(target windlass.Ref) windlass.Object {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	if object, has := host.objects[key(target)]; has {
		return plain(object).(windlass.Object)
	}
	return nil
}

// Read decodes the current state of an object into a new T, or returns nil.
func Read[T any](host *Host, target windlass.Ref) *T {
	object := host.Object(target)
	if object == nil {
		return nil
	}
	value := new(T)
	if err := windlass.Decode([]byte(text(object)), value); err != nil {
		panic(fmt.Sprintf("windlasstest: %s: %v", target, err))
	}
	return value
}

// Reconcile calls a plugin's function for an object, as the host would: with the object's current state, if it exists.
func (host *Host) Reconcile(
	function func(context.Context, windlass.Request) (windlass.Outcome, error), primary windlass.Ref,
) (windlass.Outcome, error) {
	host.Primary = primary
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	return function(ctx, host.Request(primary))
}

// Request returns the request that the host would send about an object.
func (host *Host) Request(primary windlass.Ref) windlass.Request {
	request := windlass.Request{
		Controller: strings.ToLower(primary.Kind), Namespace: primary.Namespace, Name: primary.Name, UID: primary.UID, TraceID: "trace-1",
	}
	if object := host.Object(primary); object != nil {
		request.Raw = json.RawMessage(text(object))
		request.UID, _ = metadata(object)["uid"].(string)
		request.Deleting = metadata(object)["deletionTimestamp"] != nil
	}
	return request
}

// Change returns a change of an object, a struct or a map, as a mapper or a predicate receives it. The object is new if before is nil,
// and deleted if now is nil.
func Change(watch string, before, now any) windlass.Change {
	return windlass.Change{Watch: watch, RawOld: state(before), RawNew: state(now)}
}

func state(object any) json.RawMessage {
	if object == nil {
		return nil
	}
	return json.RawMessage(text(object))
}

// sorted returns the references of a kind's objects, in the order of a list.
func (host *Host) sorted(kind windlass.Kind, namespace string) []windlass.Ref {
	var refs []windlass.Ref
	for ref := range host.objects {
		if ref.APIVersion == kind.APIVersion && ref.Kind == kind.Kind && (namespace == "" || ref.Namespace == namespace) {
			refs = append(refs, ref)
		}
	}
	sort.Slice(refs, func(a, b int) bool {
		if refs[a].Namespace != refs[b].Namespace {
			return refs[a].Namespace < refs[b].Namespace
		}
		return refs[a].Name < refs[b].Name
	})
	return refs
}
